# SPDX-License-Identifier: Apache-2.0
"""Record the calls of a forward pass, with substitutes for values that a trace without data cannot know."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.utils._python_dispatch import TorchDispatchMode

_MOST_NUMBERS = 2000
"""A loop that ends when a tensor says so would not end here."""
_NUMBERS: dict[type, Any] = {bool: False, int: 1, float: 1.0, complex: 1 + 0j}


class StandIns:
    """Runs operators; substitutes are in ``told``, with the module that asked."""

    def __init__(self) -> None:
        self.told: Counter[str] = Counter()
        self._numbers = 0

    def run(self, func: Any, args: Any, kwargs: Any, module: str) -> Any:
        """Return the operator's result, or its substitute."""
        try:
            return func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            stand_in = _SHAPES.get(func._schema.name)
            if func._schema.name == "aten::_local_scalar_dense":
                return self._number(args[0], module)
            if stand_in is None:
                raise
            self.told[
                f"values decide how much {func._schema.name} in {module or 'the model'} selects: all is taken"
            ] += 1
            return stand_in(func, *args, **kwargs)

    def remarks(self) -> list[str]:
        return [f"{text} ({count} times)" if count > 1 else text for text, count in self.told.items()]

    def _number(self, tensor: Any, module: str) -> Any:
        self._numbers += 1
        if self._numbers > _MOST_NUMBERS:
            raise RuntimeError(f"the model reads more than {_MOST_NUMBERS} numbers from tensors, which have none here")
        kind = next(kind for kind, holds in _KINDS if holds(tensor.dtype))
        taken = _NUMBERS[kind]
        self.told[f"a number that {module or 'the model'} reads from a tensor is taken as {taken}"] += 1
        return taken


_KINDS = (
    (bool, lambda dtype: dtype == torch.bool),
    (complex, lambda dtype: dtype.is_complex),
    (float, lambda dtype: dtype.is_floating_point),
    (int, lambda dtype: True),
)


def _all_places(_: Any, mask: Any) -> Any:
    return mask.new_empty((mask.numel(), mask.dim()), dtype=torch.long)


def _all_elements(_: Any, tensor: Any, mask: Any) -> Any:
    return tensor.new_empty((torch.broadcast_shapes(tensor.shape, mask.shape).numel(),))


def _index(func: Any, tensor: Any, indices: Any) -> Any:
    """A mask is a list of places for each of its dimensions."""
    places: list[Any] = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            places += [index.new_empty((index.numel(),), dtype=torch.long) for _ in range(index.dim())]
        else:
            places.append(index)
    return func(tensor, places)


def _unique(_: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    count = tensor.numel()
    return tensor.new_empty(count), tensor.new_empty(tensor.shape, dtype=torch.long), tensor.new_empty(
        count, dtype=torch.long
    )  # fmt: skip


def _counts(_: Any, tensor: Any, weights: Any = None, minlength: int = 0) -> Any:
    return tensor.new_empty(max(minlength, tensor.numel()), dtype=torch.long if weights is None else weights.dtype)


def _unique_rows(_: Any, tensor: Any, dim: int = 0, *args: Any, **kwargs: Any) -> Any:
    count = tensor.shape[dim]
    places = tensor.new_empty(count, dtype=torch.long)
    return tensor.new_empty(tensor.shape), places, tensor.new_empty(count, dtype=torch.long)


def _repeat(_: Any, repeats: Any, output_size: Any = None) -> Any:
    """Return the source element of each copy; the number of copies depends on values."""
    return repeats.new_empty(output_size if output_size is not None else repeats.numel(), dtype=torch.long)


_SHAPES: dict[str, Any] = {
    "aten::bincount": _counts,
    "aten::unique_dim": _unique_rows,
    "aten::unique_consecutive": _unique,
    "aten::repeat_interleave": _repeat,
    "aten::nonzero": _all_places,
    "aten::masked_select": _all_elements,
    "aten::index": _index,
    "aten::_unique2": _unique,
}


_NO_WORK = {"empty", "empty_strided", "sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "is_pinned"}
"""Scratch buffers and questions, not operators of the model."""
_PLUMBING = {"device", "layout", "pin_memory", "memory_format", "non_blocking", "generator"}
"""Arguments that say where and how torch keeps the data; they mean nothing on the card."""
_ONE_RESULT = {
    "native_layer_norm",
    "native_batch_norm",
    "native_group_norm",
    "max_pool2d_with_indices",
    "_fused_rms_norm",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
}
"""Their other results exist for the backward pass."""
_MOST_MODULES = 8

Entry = dict[str, Any]


class CallRecorder(TorchDispatchMode):  # type: ignore[misc]
    """Collects cases while it is active; equal calls are counted, not repeated."""

    no_work = _NO_WORK

    def __init__(self, parameters: dict[int, Any]) -> None:
        super().__init__()
        self.calls = 0
        self.path: list[str] = []
        """Names of the modules that are running, outermost first."""
        self._cases: dict[str, Entry] = {}
        # Tensors are kept by identity: a number may be reused once its tensor is freed.
        self._parameters = dict(parameters)
        self.stand_ins = StandIns()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, then write it down."""
        result = self.stand_ins.run(func, args, kwargs or {}, self.module)
        namespace, _, name = func._schema.name.partition("::")
        if namespace == "aten" and name not in self.no_work:
            self._record(name, func._schema, args, kwargs or {}, result)
        return result

    @property
    def module(self) -> str:
        """The one that is running."""
        return self.path[-1] if self.path else ""

    def cases(self) -> list[Entry]:
        """In the order of first sight."""
        return list(self._cases.values())

    def _record(self, name: str, schema: Any, args: Any, kwargs: Any, result: Any) -> None:
        self._count(self._case(name, schema, args, kwargs, result))

    def _case(self, name: str, schema: Any, args: Any, kwargs: Any, result: Any) -> Entry:
        tensors: list[Entry] = []
        scalars: Entry = {}
        only_parameters = True
        for argument, value in bind_arguments(schema, args, kwargs):
            found = tensors_in(value)
            if found or isinstance(value, torch.Tensor):
                tensors += [self._tensor(tensor, argument) for tensor in found]
                only_parameters = only_parameters and all(id(tensor) in self._parameters for tensor in found)
                if isinstance(value, (list, tuple)) and len(found) < len(value):
                    scalars[argument] = [None if item is None else "tensor" for item in value]
            elif argument not in _PLUMBING:
                scalars[argument] = plain(value)
        results = tensors_in(result)[: 1 if name in _ONE_RESULT else None]
        if tensors and only_parameters:
            # A weight that is transposed or cast is still a weight.
            self._parameters.update((id(tensor), tensor) for tensor in results)
        outputs = [{"shape": list(tensor.shape), "dtype": type_name(tensor.dtype)} for tensor in results]
        return {"op": name, "tensors": tensors, "args": scalars, "outputs": outputs}

    def _tensor(self, tensor: Any, argument: str) -> Entry:
        entry: Entry = {"shape": list(tensor.shape), "dtype": type_name(tensor.dtype), "name": argument}
        if id(tensor) in self._parameters:
            entry["parameter"] = True
        return entry

    def _count(self, case: Entry) -> None:
        self.calls += 1
        named = [(tensor["shape"], tensor["dtype"], tensor["name"]) for tensor in case["tensors"]]
        key = repr((case["op"], named, case["args"]))
        entry = self._cases.setdefault(key, {**case, "count": 0, "modules": []})
        entry["count"] += 1
        module = self.module
        if module and module not in entry["modules"] and len(entry["modules"]) < _MOST_MODULES:
            entry["modules"].append(module)


def bind_arguments(schema: Any, args: Any, kwargs: Any) -> list[tuple[str, Any]]:
    """Return the arguments by schema name, with the schema's defaults."""
    given = []
    for position, argument in enumerate(schema.arguments):
        if position < len(args) and not argument.kwarg_only:
            value = args[position]
        else:
            value = kwargs.get(argument.name, argument.default_value)
        given.append((argument.name, value))
    return given


def tensors_in(value: Any) -> list[Any]:
    """Yield a tensor, or the tensors of a list."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [item for item in value if isinstance(item, torch.Tensor)]
    return []


def type_name(dtype: Any) -> str:
    """``float32``, as the case files have it."""
    return str(dtype).removeprefix("torch.")


def plain(value: Any) -> Any:
    """A value that JSON can hold; infinities become texts."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, torch.dtype):
        return type_name(value)
    return int(value) if isinstance(value, torch.SymInt) else str(value)
