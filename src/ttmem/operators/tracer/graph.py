# SPDX-License-Identifier: Apache-2.0
"""The same trace as a graph: every call in order, which value feeds which, and when Python drops each value."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from . import rewrites
from .job import TraceJob
from .pytrees import tensors_within
from .recording import CallRecorder, Entry, bind_arguments, tensors_in, type_name
from .rewrites import rewrite, storage_of, whole_with, write_into_view

_EAGER_HEADS = "attention whose heads are no multiple of {} is eager: the fused one takes none"
_NO_RESULTS = "what the model returns holds no tensor: all that it makes and nothing takes counts as its result"
_QUESTIONS = {"sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "is_pinned"}


class GraphRecorder(CallRecorder):
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
        self._sharing: dict[int, list[Any]] = {}
        """Tensors that are views of the same, oldest first."""
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
        """Arguments of the model's call."""
        for path, tensor in tensors_within(given):
            self._number(tensor, role="input", name=f"input {'.'.join(path)}".strip())

    def graph(self, results: Any) -> Entry:
        """Return the graph as plain values; ``results`` is the model's return value."""
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
            if rewrites.is_attention_of_other_heads(name, args, self._heads_of):
                self.stand_ins.told[_EAGER_HEADS.format(self._heads_of)] += 1
                named = dict(bind_arguments(func._schema, args, kwargs or {}))
                with self:
                    made = rewrites.attention(named)
                # The others are for the backward pass.
                return made, *(made.new_empty(0) for _ in func._schema.returns[1:])
            args, kwargs = rewrites.add_mask_rows(self, func, name, args, kwargs or {})
            if (made := self._rewrite(func, name, args, kwargs)) is not None:
                return made
            if name not in self._known | self.no_work and name.removesuffix("_") not in self._known:
                parts = rewrites.decomposition(func)
                if parts is not None and (made := self._decompose(parts, args, kwargs or {})) is not None:
                    return made
        result = self.stand_ins.run(func, args, kwargs or {}, self.module)
        if name not in self.no_work:
            shown = name if namespace == "aten" else f"{namespace}::{name}"
            for view in write_into_view(func._schema, args, kwargs or {}) if self._known else ():
                if self._write_through(view, args[1] if name == "copy_" else None):
                    return result
            self._record(shown, func._schema, args, kwargs or {}, result)
            for view in write_into_view(func._schema, args, kwargs or {}) if self._known else ():
                self._write_through(view, view)
        return result

    def _rewrite(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """The operator's own result, written down as what those operators made that do it on a device."""
        named = dict(bind_arguments(func._schema, args, kwargs))
        with self:
            made = rewrite(name, named)
        if made is None:
            return None
        try:
            result = self.stand_ins.run(func, args, kwargs, self.module)
        except RuntimeError:  # one that the CPU has not got either
            return made
        first = result[0] if isinstance(result, (list, tuple)) else result
        self._be(made, first)
        return result

    def _be(self, made: Any, wanted: Any) -> None:
        """The last call made this tensor and not the one that it seems to have made."""
        number = self._number(made)
        if not self._steps or self._steps[-1]["made"] != [number]:
            with self:  # an operand, as it was
                made = torch.ops.aten.alias(made)
        self._steps[-1]["made"] = [self._number(wanted)]

    def _write_through(self, view: Any, part: Any) -> bool:
        """After a write into a view: update the tensor that it is a part of, if that still exists."""
        shared = [one for ref in self._sharing.get(storage_of(view), ()) if (one := ref()) is not None]
        base = max(shared, key=lambda one: one.numel(), default=view)
        if part is None or base is view or base.numel() < view.numel() or id(base) not in self._numbers:
            return False
        with self:
            if part is not view:  # copied into it: what is copied need not be there twice
                part = part.to(view.dtype)
                part = part if part.shape == view.shape else part.expand(view.shape)
            whole = whole_with(base, view, part)
            if whole is None:
                whole = torch.as_strided_scatter(base, part, view.shape, view.stride(), view.storage_offset())
        self._be(whole, base)
        return True

    def _decompose(self, parts: Any, args: Any, kwargs: Any) -> Any:
        """Return the result of the parts; None, and nothing recorded, where one of them has no call either."""
        steps, calls = len(self._steps), self.calls
        try:
            with self:
                made = parts(*args, **kwargs)
        except Exception:  # a decomposition may refuse for any reason; then the operator stays whole
            made = NotImplemented
        new = [step["op"] for step in self._steps[steps:]]
        if made is not NotImplemented and len(new) <= rewrites.MOST_CALLS and self._known.issuperset(new):
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

            # The model's own live as long as it does, and torch swaps none that is watched.
            ref = (lambda: tensor) if role in ("parameter", "buffer") else weakref.ref(tensor, gone)
            self._watchers.append(ref)
            alive = [one for one in self._sharing.get(storage_of(tensor), ()) if one() is not None]
            self._sharing[storage_of(tensor)] = [*alive, ref]
        return self._numbers[key]

    def _record(self, name: str, schema: Any, args: Any, kwargs: Any, result: Any) -> None:
        """A call names values; one that the trace has not seen is a constant of the model's code."""
        if name not in self._known and name.removesuffix("_") in self._known:
            name = name.removesuffix("_")  # written in place where only the other form is known: to a new tensor
        given: list[Entry] = []
        for argument, value in bind_arguments(schema, args, kwargs):
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
