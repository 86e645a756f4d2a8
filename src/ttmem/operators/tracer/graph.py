# SPDX-License-Identifier: Apache-2.0
"""The same trace as a graph: every call in order, which value feeds which, and when Python drops each value."""

from __future__ import annotations

import weakref
from typing import Any

from . import taking_apart
from .job import TraceJob
from .recording import Entry, Recorder, given_arguments, tensors_in, type_name
from .structures import tensors_within

_EAGER_HEADS = "attention whose heads are no multiple of {} is eager: the fused one takes none"
_NO_RESULTS = "what the model returns holds no tensor: all that it makes and nothing takes counts as its result"
_QUESTIONS = {"sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "is_pinned"}


class GraphRecorder(Recorder):
    """Keeps no tensor alive: a value is a number, its tensor may go while the model runs."""

    no_work = _QUESTIONS

    def __init__(self, parameters: dict[int, Any], job: TraceJob) -> None:
        super().__init__(parameters)
        self._known = frozenset(job.known)
        self._heads_of = job.fused_heads_of
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
        for path, tensor in tensors_within(given):
            self._number(tensor, role="input", name=f"input {'.'.join(path)}".strip())

    def graph(self, results: Any) -> Entry:
        """All of it as plain values; ``results`` is what the model returned."""
        kept = {self._numbers[id(tensor)] for _, tensor in tensors_within(results) if id(tensor) in self._numbers}
        if not kept and self._steps:
            self.stand_ins.told[_NO_RESULTS] += 1
            kept = {made for step in self._steps for made in step["made"]}
            kept -= {tensor["value"] for step in self._steps for tensor in step["tensors"]}
        return {
            "values": self._values,
            "calls": self._steps,
            "results": sorted(kept),
            "dropped": [[number, step] for number, step in self._dropped.items()],
        }

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, or what it is made of where the device has no call for it, and write that down."""
        namespace, _, name = func._schema.name.partition("::")
        if namespace in ("prim", "profiler"):
            return func(*args, **(kwargs or {}))
        if namespace == "aten" and self._known:
            if taking_apart.is_attention_of_other_heads(name, args, self._heads_of):
                self.stand_ins.told[_EAGER_HEADS.format(self._heads_of)] += 1
                named = dict(given_arguments(func._schema, args, kwargs or {}))
                with self:
                    made = taking_apart.attention(named)
                # The others are for the backward pass.
                return made, *(made.new_empty(0) for _ in func._schema.returns[1:])
            args, kwargs = taking_apart.with_rows_of_mask(self, func, name, args, kwargs or {})
            if name not in self._known | self.no_work and name.removesuffix("_") not in self._known:
                parts = taking_apart.decomposition(func)
                if parts is not None and (made := self._in_parts(parts, args, kwargs or {})) is not None:
                    return made
        result = self.stand_ins.run(func, args, kwargs or {}, self.module)
        if name not in self.no_work:
            shown = name if namespace == "aten" else f"{namespace}::{name}"
            self._record(shown, func._schema, args, kwargs or {}, result)
        return result

    def _in_parts(self, parts: Any, args: Any, kwargs: Any) -> Any:
        """What the pieces give; None, and nothing written down, where one of them has no call either."""
        steps, calls = len(self._steps), self.calls
        try:
            with self:
                made = parts(*args, **kwargs)
        except Exception:  # a decomposition may refuse for any reason; then the operator stays whole
            made = NotImplemented
        new = [step["op"] for step in self._steps[steps:]]
        if made is not NotImplemented and len(new) <= taking_apart.MOST_CALLS and self._known.issuperset(new):
            return made
        del self._steps[steps:]
        self.calls = calls
        return None

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
        if name not in self._known and name.removesuffix("_") in self._known:
            name = name.removesuffix("_")  # written in place where only the other form is known: to a new tensor
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
        step["module"] = self.module
        self.calls += 1
        self._steps.append(step)
