# SPDX-License-Identifier: Apache-2.0
"""Calls as steps write them, ``{"call": "ttnn.softmax", "args": [...], "kwargs": {...}, "out": "y"}``, read and made.

Where a result goes (``memory_config``, ``output_tensor``, names that end in ``_``) is the same for all operations and
is read here; which of the other arguments mean something is the record's word.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.hardware import MEMORIES, Memory
from ttmem.twin.operations.plan import SHARDED_RESULT, Call
from ttmem.twin.operations.record import REQUIRED, Argument, OperationRecord, PlanFunction, Step
from ttmem.twin.operations.signatures import QUEUE, Form, form_of, misfit
from ttmem.twin.replay import read_shard
from ttmem.twin.tensor_spec import TensorSpec

EXAMPLE_TENSOR: Step = {"shape": [1, 1, 64, 64], "dtype": "bfloat16", "layout": "tile", "memory": "DRAM"}
"""The tensor of most examples."""
_CORES_IN_A_ROW = 8
"""As the smallest boards have them."""
_RESULT = ("memory_config", "output_tensor", "optional_output_tensor")
"""Names of arguments that say where the one result goes; None says nothing."""


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call step taken apart: tensors by name, everything else as plain values."""

    function: str
    """Without ``ttnn.``."""
    tensors: tuple[str, ...]
    """Names of the tensors it is given, in order, a preallocated output excepted."""
    values: tuple[Any, ...]
    """The other positional arguments in order."""
    options: Mapping[str, Any]
    memory: Memory | None
    target: str | None = None
    """The tensor that the result is written into, when it is one that is there."""
    keywords: tuple[str, ...] = ()
    """Of the last tensors, those that were given by name: the names of their arguments."""
    tensor_places: tuple[int, ...] = ()
    """Where among the arguments without a name the tensors were."""
    shard: Any = None
    """How the result is to be cut, as it was written."""
    form: Form = ((), ())
    """Kinds and names of all arguments, by which the library chooses an overload."""


def read_call(step: Mapping[str, Any]) -> WrittenCall:
    """Names and values of a call step."""
    function = str(step["call"]).removeprefix("ttnn.")
    tensors: list[str] = []
    values: list[Any] = []
    options: dict[str, Any] = {}
    memory: Memory | None = None
    target: str | None = None
    keywords: list[str] = []
    places: list[int] = []
    shard: Any = None
    for place, value in enumerate(step.get("args", ())):
        if found := _tensor_names(value):
            tensors += found
            places += [place] * len(found)
        elif isinstance(value, Mapping) and "memory" in value:
            memory, shard = MEMORIES.find(value["memory"]), value.get("shard")
        else:
            values.append(_plain(value))
    for name, value in step.get("kwargs", {}).items():
        if name == QUEUE or (value is None and name in _RESULT):
            continue
        if name == "memory_config":
            memory, shard = MEMORIES.find(value["memory"]), value.get("shard")
        elif name in _RESULT and "tensor" in value:
            target = value["tensor"]
        elif found := _tensor_names(value):
            if "output" in name or name == "out":  # under another name, or several: no rule knows of them
                options[name] = found
                continue
            tensors += found
            keywords += [name] * len(found)
        else:
            options[name] = _plain(value)
    if function.endswith("_") and tensors:
        target = tensors[0]
    return WrittenCall(
        function,
        tuple(tensors),
        tuple(values),
        options,
        memory,
        target,
        tuple(keywords),
        tuple(places),
        shard,
        form_of(step),
    )


def _tensor_names(value: Any) -> list[str]:
    if isinstance(value, Mapping) and "tuple" in value:
        value = value["tuple"]
    if isinstance(value, Mapping) and "tensor" in value:
        return [value["tensor"]]
    if isinstance(value, list) and value and all(isinstance(item, Mapping) and "tensor" in item for item in value):
        return [item["tensor"] for item in value]
    return []


def _plain(value: Any) -> Any:
    """``{"dtype": "bfloat16"}`` is its text, ``{"tuple": [..]}`` its items, a new object its arguments."""
    if isinstance(value, Mapping):
        if "kwargs" in value:
            return {"new": value["new"], **{name: _plain(item) for name, item in value["kwargs"].items()}}
        return _plain(next(iter(value.values()))) if len(value) == 1 else value
    return [_plain(item) for item in value] if isinstance(value, list) else value


def call_of(
    record: OperationRecord, written: WrittenCall, inputs: Sequence[TensorSpec], target: TensorSpec | None = None
) -> Call:
    """What the twin is asked; BadInputError when an argument is missing. ``target``: where the result is written."""
    arguments: dict[str, Any] = {}
    known, missing = set(), list[str]()
    refused = misfit(written.function, written.form)
    for argument in record.arguments:
        known.add(argument.name)
        if argument.position is not None and argument.position < len(written.values):
            arguments[argument.name] = written.values[argument.position]
        elif argument.name in written.options:
            arguments[argument.name] = written.options[argument.name]
        elif argument.default is REQUIRED and not refused:
            missing.append(argument.name)
    # None is as good as nothing: it is what the library gives an argument that was left out.
    unknown = tuple(name for name, value in written.options.items() if name not in known and value is not None)
    if missing and not unknown:
        raise BadInputError(f"ttnn.{written.function} needs '{missing[0]}'")
    if written.target is not None and not written.function.endswith("_"):
        first = inputs[0] if inputs else None
        is_like = target is not None and first is not None and replace(target, memory=first.memory) == first
        if not (record.takes_output and is_like):
            unknown += ("an output_tensor",)
    places = max((argument.position + 1 for argument in record.arguments if argument.position is not None), default=0)
    if len(written.values) > places:
        unknown += (f"{len(written.values)} arguments by position",)
    shard = read_shard(written.shard) if written.shard is not None else None
    if shard is not None and not record.takes_shards:
        unknown, shard = (*unknown, SHARDED_RESULT), None
    return Call(
        record.name,
        tuple(inputs),
        arguments,
        written.memory,
        written.target is not None,
        unknown,
        written.keywords,
        written.tensor_places,
        shard,
        refused,
        target,
    )


def write_call(
    name: str,
    tensors: Sequence[Step],
    *values: Any,
    memory: str | None = None,
    shard: Step | None = None,
    in_place: bool = False,
    as_list: bool = False,
    **options: Any,
) -> list[Step]:
    """The steps of one call: tensors ``t0``, ``t1``, ... allocated, then the call with its result in ``result``."""
    names = [f"t{number}" for number in range(len(tensors))]
    given: list[Any] = [{"tensor": tensor} for tensor in names]
    kwargs = dict(options)
    if memory is not None:
        kwargs["memory_config"] = {"memory": memory, **({"shard": shard} if shard else {})}
    if in_place:
        kwargs["output_tensor"] = given[0]
    allocations = [{"alloc": own, **tensor} for own, tensor in zip(names, tensors, strict=True)]
    arguments = [given] if as_list else given
    return [*allocations, {"call": f"ttnn.{name}", "args": [*arguments, *values], "kwargs": kwargs, "out": "result"}]


def record_of(
    example: list[Step], plan: PlanFunction, *arguments: Argument, family: str = "", **more: Any
) -> OperationRecord:
    """A record that is named as its example's call, and alone in its family unless that is named."""
    name = str(example[-1]["call"]).removeprefix("ttnn.")
    return OperationRecord(name, family or name, plan, tuple(example), arguments, **more)


def height_shards(cores: int, height: int, width: int, *, first_row: int = 0) -> Step:
    """Where a tensor lies that has one such shard on each of so many cores, row by row from a row of cores on."""
    rows, rest = divmod(cores, _CORES_IN_A_ROW)
    ranges = [[0, first_row, _CORES_IN_A_ROW - 1, first_row + rows - 1]] if rows else []
    ranges += [[0, first_row + rows, rest - 1, first_row + rows]] if rest else []
    return {"memory": "L1", "shard": {"kind": "height", "shape": [height, width], "ranges": ranges}}
