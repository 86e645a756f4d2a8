# SPDX-License-Identifier: Apache-2.0
"""The same trace as a graph: every call in order, which value feeds which, and when Python drops each value."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils import _pytree

from .recording import Entry, Recorder, given_arguments, tensors_in, type_name

_QUESTIONS = {"sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "is_pinned"}


class GraphRecorder(Recorder):
    """Keeps no tensor alive: a value is a number, its tensor may go while the model runs."""

    no_work = _QUESTIONS

    def __init__(self, parameters: dict[int, Any]) -> None:
        super().__init__(parameters)
        self._values: list[Entry] = []
        self._numbers: dict[int, int] = {}
        """Tensors by identity, as long as they live."""
        self._watchers: list[Any] = []
        self._steps: list[Entry] = []
        self._dropped: dict[int, int] = {}

    def name_parameters(self, model: Any) -> None:
        """Parameters and buffers by their names in the state dict; a tied one by its first."""
        for role, named in (
            ("parameter", model.named_parameters(remove_duplicate=False)),
            ("buffer", model.named_buffers(remove_duplicate=False)),
        ):
            for name, tensor in named:
                if id(tensor) not in self._numbers:
                    self._number(tensor, role=role, name=name)

    def name_inputs(self, given: Any) -> None:
        """What the model is called with."""
        for path, tensor in _pytree.tree_flatten_with_path(given)[0]:
            if isinstance(tensor, torch.Tensor):
                name = ".".join(str(getattr(key, "key", getattr(key, "idx", key))) for key in path)
                self._number(tensor, role="input", name=f"input {name}".strip())

    def graph(self, results: Any) -> Entry:
        """All of it as plain values; ``results`` is what the model returned."""
        kept = [leaf for leaf in _pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]
        return {
            "values": self._values,
            "calls": self._steps,
            "results": sorted({self._numbers[id(tensor)] for tensor in kept if id(tensor) in self._numbers}),
            "dropped": [[number, step] for number, step in self._dropped.items()],
        }

    def _number(self, tensor: Any, *, role: str = "", name: str = "") -> int:
        key = id(tensor)
        if key not in self._numbers:
            number = self._numbers[key] = len(self._values)
            self._values.append({"shape": list(tensor.shape), "dtype": type_name(tensor.dtype)})
            if role:
                self._values[number] |= {"role": role, "name": name}

            def gone(_: Any) -> None:
                self._dropped[number] = len(self._steps)
                if self._numbers.get(key) == number:
                    del self._numbers[key]

            self._watchers.append(weakref.ref(tensor, gone))
        return self._numbers[key]

    def _record(self, name: str, schema: Any, args: Any, kwargs: Any, result: Any) -> None:
        """A call names values; one that the trace has not seen is a constant of the model's code."""
        given: list[Entry] = []
        for argument, value in given_arguments(schema, args, kwargs):
            for tensor in tensors_in(value):
                known = id(tensor) in self._numbers
                given.append({"name": argument, "value": self._number(tensor, role="" if known else "constant")})
        made = [self._number(tensor) for tensor in tensors_in(result)]
        step = self._case(name, schema, args, kwargs, result)
        step["tensors"] = [one | more for one, more in zip(step["tensors"], given, strict=True)]
        # Of results that exist for the backward pass alone nothing is made.
        step["made"] = made[: len(step["outputs"])]
        step["module"] = self.path[-1] if self.path else ""
        self.calls += 1
        self._steps.append(step)
