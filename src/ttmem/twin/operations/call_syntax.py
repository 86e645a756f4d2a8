# SPDX-License-Identifier: Apache-2.0
"""Parses call steps, ``{"call": "ttnn.softmax", "args": [...], "kwargs": {...}, "out": "y"}``, and checks signatures.

The library's Python layer checks names and types of arguments first; ``signatures.toml`` lists what it accepts
(``tools/signatures.py`` writes it). Arguments for the result (``memory_config``, ``output_tensor``, names that end in
``_``) are the same for all operations; the record defines the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ttmem.base import toml
from ttmem.base.errors import BadInputError
from ttmem.hardware import MEMORIES, Memory
from ttmem.twin.operations.plan import SHARDED_RESULT, Call, PlanFunction
from ttmem.twin.operations.record import REQUIRED, Argument, OperationRecord, Step
from ttmem.twin.replay import read_shard
from ttmem.twin.tensor_spec import TensorSpec

QUEUE = "queue_id"
"""The queue argument of all operations, which does not change memory."""
Kind = str | tuple["Kind", ...]
"""The type name of a value or, for a list, the kinds of its items."""
Form = tuple[tuple[Kind, ...], tuple[tuple[str, Kind], ...]]
"""The kinds of a call's positional arguments, then of its keyword arguments."""

_TENSOR, _OBJECT = "Tensor", "object"
_LIBRARY_TYPES = {"tensor": _TENSOR, "dtype": "DataType", "layout": "Layout", "memory": "MemoryConfig"}
_CONVERTED = {"bool": ("bool", "int", "float"), "int": ("int", "float"), "float": ("float",), "str": ("str",)}
"""Plain types, and the types that the binding converts to each."""
_PLAIN = frozenset({_TENSOR, "None", *_CONVERTED})


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    types: tuple[str, ...]
    may_be_left_out: bool
    is_only_named: bool

    def takes(self, kind: Kind) -> bool:
        return any(_accepts(wanted, kind) for wanted in self.types)


def read_form(step: Mapping[str, Any]) -> Form:
    """Return the kinds of a call step's arguments."""
    named = tuple((name, _read_kind(value)) for name, value in step.get("kwargs", {}).items() if name != QUEUE)
    return tuple(map(_read_kind, step.get("args", ()))), named


@cache
def signature_mismatch(operation: str, form: Form) -> str:
    """Return the reason why no overload accepts these arguments; empty: one does, or the operation is unknown."""
    overloads = _load_overloads().get(operation, ())
    if not overloads or any(_fits(parameters, *form) for parameters in overloads):
        return ""
    taken = dict.fromkeys(parameter.name for parameters in overloads for parameter in parameters)
    strange = [name for name, _ in form[1] if name not in taken]
    why = f"there is no {', '.join(strange)}" if strange else f"it takes {', '.join(taken)}"
    return f"ttnn.{operation}(): incompatible function arguments: {why}"


def _read_kind(value: Any) -> Kind:
    if isinstance(value, Mapping):
        if "tuple" in value:
            return tuple(map(_read_kind, value["tuple"]))
        # The order is the worker's: a memory may come with a layout.
        return next((_LIBRARY_TYPES[key] for key in ("memory", "tensor", "dtype", "layout") if key in value), _OBJECT)
    if isinstance(value, list | tuple):
        return tuple(map(_read_kind, value))
    return "None" if value is None else type(value).__name__


def _accepts(wanted: str, kind: Kind) -> bool:
    if isinstance(kind, tuple):
        if not wanted.startswith("["):
            return wanted not in _PLAIN  # shapes and coordinates are made of lists
        return all(any(_accepts(inner, one) for inner in wanted[1:-1].split("/")) for one in kind)
    if kind in _CONVERTED:
        # The binding also converts texts and numbers to some of the library's types; lists are not distinguished.
        return wanted in _CONVERTED[kind] or (kind == "str" and wanted not in _PLAIN)
    if kind == _OBJECT:
        return wanted not in _PLAIN
    return wanted == kind


def _fits(parameters: tuple[_Parameter, ...], given: tuple[Kind, ...], named: tuple[tuple[str, Kind], ...]) -> bool:
    by_name = dict(named)
    by_position = [parameter for parameter in parameters if not parameter.is_only_named]
    if len(given) > len(by_position):
        return False
    for number, parameter in enumerate(parameters):
        if number < len(given) and not parameter.is_only_named:
            if parameter.name in by_name or not parameter.takes(given[number]):
                return False
        elif parameter.name in by_name:
            if not parameter.takes(by_name.pop(parameter.name)):
                return False
        elif not parameter.may_be_left_out:
            return False
    return not by_name


@cache
def _load_overloads() -> Mapping[str, tuple[tuple[_Parameter, ...], ...]]:
    listed = toml.load_packaged(__package__, "signatures.toml")["signature"]
    return {name: tuple(map(_parse_parameters, one["overloads"])) for one in listed for name in one["operations"]}


def _parse_parameters(text: str) -> tuple[_Parameter, ...]:
    found: list[_Parameter] = []
    is_only_named = False
    for word in text.split(", "):
        if word == "*":
            is_only_named = True
            continue
        name, _, types = word.partition(": ")
        found.append(_Parameter(name.removesuffix("?"), tuple(types.split("|")), name.endswith("?"), is_only_named))
    return tuple(found)


EXAMPLE_TENSOR: Step = {"shape": [1, 1, 64, 64], "dtype": "bfloat16", "layout": "tile", "memory": "DRAM"}
"""The tensor of most examples."""
_CORES_IN_A_ROW = 8
"""The columns of the smallest boards."""
_RESULT = ("memory_config", "output_tensor", "optional_output_tensor")
"""Names of arguments for the one result; None means no wish."""


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A parsed call step: tensors by name, everything else as plain values."""

    function: str
    """The name without ``ttnn.``."""
    tensors: tuple[str, ...]
    """The names of its tensors in order, without a preallocated output."""
    values: tuple[Any, ...]
    """The other positional arguments in order."""
    options: Mapping[str, Any]
    memory: Memory | None
    target: str | None = None
    """The existing tensor that the result is written into."""
    keywords: tuple[str, ...] = ()
    """The keywords of the last tensors, those that are passed by name."""
    tensor_places: tuple[int, ...] = ()
    """The positions of the tensors among the positional arguments."""
    shard: Any = None
    """The shard of the result, not yet parsed."""
    form: Form = ((), ())
    """Kinds and names of all arguments, by which the library selects an overload."""


def parse_call(step: Mapping[str, Any]) -> ParsedCall:
    """Parse a call step."""
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
            if "output" in name or name == "out":  # another name, or several outputs: no rule covers them
                options[name] = found
                continue
            tensors += found
            keywords += [name] * len(found)
        else:
            options[name] = _plain(value)
    if function.endswith("_") and tensors:
        target = tensors[0]
    return ParsedCall(
        function,
        tuple(tensors),
        tuple(values),
        options,
        memory,
        target,
        tuple(keywords),
        tuple(places),
        shard,
        read_form(step),
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
    """Unwrap a value: ``{"dtype": "bfloat16"}`` is its text, ``{"tuple": [..]}`` its items, an object its arguments."""
    if isinstance(value, Mapping):
        if "kwargs" in value:
            return {"new": value["new"], **{name: _plain(item) for name, item in value["kwargs"].items()}}
        return _plain(next(iter(value.values()))) if len(value) == 1 else value
    return [_plain(item) for item in value] if isinstance(value, list) else value


def build_call(
    record: OperationRecord, written: ParsedCall, inputs: Sequence[TensorSpec], target: TensorSpec | None = None
) -> Call:
    """Return the call for the rules; raise BadInputError if an argument is missing. ``target`` receives the result."""
    arguments: dict[str, Any] = {}
    known, missing = set(), list[str]()
    refused = signature_mismatch(written.function, written.form)
    for argument in record.arguments:
        known.add(argument.name)
        if argument.position is not None and argument.position < len(written.values):
            arguments[argument.name] = written.values[argument.position]
        elif argument.name in written.options:
            arguments[argument.name] = written.options[argument.name]
        elif argument.default is REQUIRED and not refused:
            missing.append(argument.name)
    # None equals a missing argument: it is the library's default.
    unknown = tuple(name for name, value in written.options.items() if name not in known and value is not None)
    if missing and not unknown:
        raise BadInputError(f"ttnn.{written.function} needs '{missing[0]}'")
    if written.target is not None and not written.function.endswith("_"):
        first = inputs[0] if inputs else None
        is_like = target is not None and first is not None and replace(target, memory=first.memory) == first
        if not (record.verified_output_tensor and is_like):
            unknown += ("an output_tensor",)
    places = max((argument.position + 1 for argument in record.arguments if argument.position is not None), default=0)
    if len(written.values) > places:
        unknown += (f"{len(written.values)} arguments by position",)
    shard = read_shard(written.shard) if written.shard is not None else None
    if shard is not None and not record.verified_with_shards:
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


def format_call(
    name: str,
    tensors: Sequence[Step],
    *values: Any,
    memory: str | None = None,
    shard: Step | None = None,
    in_place: bool = False,
    as_list: bool = False,
    **options: Any,
) -> list[Step]:
    """Return the steps of one call: allocations of tensors ``t0``, ``t1``, ..., then the call with its ``result``."""
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


def build_record(
    example: list[Step], plan: PlanFunction, *arguments: Argument, family: str = "", **more: Any
) -> OperationRecord:
    """Return a record with the name of its example's call, in a family of its own unless that is named."""
    name = str(example[-1]["call"]).removeprefix("ttnn.")
    return OperationRecord(name, family or name, plan, tuple(example), arguments, **more)


def format_height_shards(cores: int, height: int, width: int, *, first_row: int = 0) -> Step:
    """Return memory and shards of a tensor with one shard per core, row by row from ``first_row`` on."""
    rows, rest = divmod(cores, _CORES_IN_A_ROW)
    ranges = [[0, first_row, _CORES_IN_A_ROW - 1, first_row + rows - 1]] if rows else []
    ranges += [[0, first_row + rows, rest - 1, first_row + rows]] if rest else []
    return {"memory": "L1", "shard": {"kind": "height", "shape": [height, width], "ranges": ranges}}
