# SPDX-License-Identifier: Apache-2.0
"""From a step that calls ttnn to the twin's ``Call``: which of its arguments decide about memory, and their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ttmem._errors import BadInputError
from ttmem.allocator.operations import Call
from ttmem.hardware import MEMORIES, Memory
from ttmem.tensors import TensorSpec

Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """A call step taken apart: tensors by name, everything else as plain values."""

    function: str
    """Without ``ttnn.``."""
    tensors: tuple[str, ...]
    """Names of the tensors it is given, in order, the target of an in-place form excepted."""
    values: tuple[Any, ...]
    """The other positional arguments in order."""
    options: Mapping[str, Any]
    memory: Memory | None
    target: str | None = None
    """The tensor that is also the output."""


@dataclass(frozen=True, slots=True)
class TwinCall:
    """What the twin is asked, and what it does not model of it."""

    call: Call
    in_place: bool = False
    doubts: tuple[str, ...] = field(default=())


def take_apart(step: Mapping[str, Any]) -> Written:
    """Names and values of a call step."""
    function = str(step["call"]).removeprefix("ttnn.")
    tensors: list[str] = []
    values: list[Any] = []
    for value in step.get("args", []):
        found = _tensor_names(value)
        if found:
            tensors += found
        else:
            values.append(_plain(value))
    options: dict[str, Any] = {}
    memory: Memory | None = None
    target: str | None = None
    for name, value in step.get("kwargs", {}).items():
        if name == "memory_config":
            memory = MEMORIES.find(value["memory"])
        elif name == "output_tensor":
            target = value["tensor"]
        elif found := _tensor_names(value):
            tensors += found
            options[name] = "tensor"
        else:
            options[name] = _plain(value)
    if function.endswith("_") and tensors and function.rstrip("_") in ("add", "multiply", "divide", "subtract"):
        function, target = function.rstrip("_"), tensors[0]
    return Written(function, tuple(tensors), tuple(values), options, memory, target)


def _tensor_names(value: Any) -> list[str]:
    if isinstance(value, Mapping) and "tensor" in value:
        return [value["tensor"]]
    if isinstance(value, list) and value and all(isinstance(item, Mapping) and "tensor" in item for item in value):
        return [item["tensor"] for item in value]
    return []


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping) and len(value) == 1:
        return _plain(next(iter(value.values())))
    return [_plain(item) for item in value] if isinstance(value, list) else value


def twin_call(written: Written, specs: Sequence[TensorSpec]) -> TwinCall:
    """The twin's question; ``BadInputError`` when the arguments contradict the shapes."""
    arguments, doubts = {}, []
    read = _READERS.get(written.function)
    inputs = tuple(specs)
    if read is not None:
        arguments = read(written, inputs)
    if written.function in ("matmul", "linear"):
        inputs = (inputs[0], _transposed(inputs[1]) if written.options.get("transpose_b") else inputs[1], *inputs[2:])
    if written.function == "softmax" and written.options.get("numeric_stable"):
        doubts.append("the numerically stable softmax keeps the rows' maxima too")
    return TwinCall(
        Call(written.function, inputs, arguments, written.memory), written.target is not None, tuple(doubts)
    )


def _transposed(spec: TensorSpec) -> TensorSpec:
    if len(spec.shape) < 2:
        return spec
    return replace(spec, shape=(*spec.shape[:-2], spec.shape[-1], spec.shape[-2]))


def _given(written: Written, position: int, name: str) -> Any:
    """An argument by position among the plain ones, or by name."""
    if position < len(written.values):
        return written.values[position]
    if name in written.options:
        return written.options[name]
    raise BadInputError(f"ttnn.{written.function} needs '{name}'")


def _typecast(written: Written, specs: tuple[TensorSpec, ...]) -> Arguments:
    return {"dtype": _given(written, 0, "dtype")}


def _concat(written: Written, specs: tuple[TensorSpec, ...]) -> Arguments:
    return {"dim": _given(written, 0, "dim")}


def _transpose(written: Written, specs: tuple[TensorSpec, ...]) -> Arguments:
    return {"dim0": _given(written, 0, "dim1"), "dim1": _given(written, 1, "dim2")}


def _permute(written: Written, specs: tuple[TensorSpec, ...]) -> Arguments:
    return {"dims": _given(written, 0, "dims")}


def _slice(written: Written, specs: tuple[TensorSpec, ...]) -> Arguments:
    return {name: _given(written, i, name) for i, name in enumerate(("begins", "ends", "steps"))}


def _pad(written: Written, specs: tuple[TensorSpec, ...]) -> Arguments:
    return {"padding": _given(written, 0, "padding")}


def _reshape(written: Written, specs: tuple[TensorSpec, ...]) -> Arguments:
    return {"shape": _given(written, 0, "shape")}


def _unsqueeze(written: Written, specs: tuple[TensorSpec, ...]) -> Arguments:
    dim, rank = int(_given(written, 0, "dim")), len(specs[0].shape)
    if not -rank - 1 <= dim <= rank:
        raise BadInputError(f"dimension {dim} of a tensor of rank {rank}")
    shape = list(specs[0].shape)
    shape.insert(dim % (rank + 1), 1)
    return {"shape": shape}


def _squeeze(written: Written, specs: tuple[TensorSpec, ...]) -> Arguments:
    dim, shape = int(_given(written, 0, "dim")), list(specs[0].shape)
    if not -len(shape) <= dim < len(shape):
        raise BadInputError(f"dimension {dim} of a tensor of rank {len(shape)}")
    if shape[dim] == 1:
        del shape[dim]
    return {"shape": shape}


def _softmax(written: Written, specs: tuple[TensorSpec, ...]) -> Arguments:
    return {"dim": written.options.get("dim", -1)}


def _reduce(written: Written, specs: tuple[TensorSpec, ...]) -> Arguments:
    dim = written.options.get("dim")
    every = list(range(len(specs[0].shape)))
    return {"dim": every if dim is None else dim, "keepdim": bool(written.options.get("keepdim", False))}


def _to_layout(written: Written, specs: tuple[TensorSpec, ...]) -> Arguments:
    told = str(_given(written, 0, "layout"))
    return {"layout": "row_major" if "ROW" in told.upper() else "tile"}


_READERS: dict[str, Callable[[Written, tuple[TensorSpec, ...]], Arguments]] = {
    "typecast": _typecast,
    "concat": _concat,
    "transpose": _transpose,
    "permute": _permute,
    "slice": _slice,
    "pad": _pad,
    "reshape": _reshape,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "softmax": _softmax,
    "sum": _reduce,
    "mean": _reduce,
    "max": _reduce,
    "min": _reduce,
    "to_layout": _to_layout,
}
