# SPDX-License-Identifier: Apache-2.0
"""Operations on two or three tensors, element by element: arithmetic, comparisons, logic, `where`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ttmem.allocator.operations import draws
from ttmem.allocator.operations.draws import EXAMPLE_TENSOR
from ttmem.allocator.operations.elementwise import (
    broadcast_shape,
    cast,
    check_integers,
    double_buffered_tiles,
    has_even_shards,
    result_like,
    spell_type,
)
from ttmem.allocator.operations.plan import BOUNDED, Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.tilizing import tilize
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.allocator.programs import CIRCULAR
from ttmem.hardware import BFLOAT16, FLOAT32, INT32, UINT8, UINT16, UINT32, DataType
from ttmem.tensors import ROW_MAJOR, TILE, InvalidSpecError, TensorSpec

_NO_ROWS_IN_PLACE = "Optional output tensor with Row Major input is not supported right now for Elementwise operations"


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the library makes of an operation of two operands."""

    called: str
    """Its name in messages."""
    integers: tuple[DataType, ...] = (INT32, UINT32, UINT16)
    """Those it takes, besides floats."""
    mixes_floats: bool = True
    takes_floats: bool = True
    prepares: str = ""
    """Operands that pass through one more tile before they meet: ``left``, ``both``."""
    promotes: bool = False
    """An integer becomes a float when the other operand is one."""
    number_is_unary: str = ""
    """With a number it is a unary operation that the library calls so."""

    def takes(self, dtype: DataType) -> bool:
        return self.takes_floats if dtype.is_float else dtype in self.integers


def binary(call: Call, plan: PlanWriter) -> Plan:
    """Two tensors, or a tensor and a number. A broadcast inside the last two dimensions needs one more stream."""
    kind = _KINDS[call.name]
    if len(call.inputs) == 1 and kind.number_is_unary:
        return _with_number_as_unary(call, plan, kind)
    if call.arguments.get("rounding_mode") is not None:
        plan.doubt(BOUNDED, "a division that rounds is followed by other operations")
    temporaries: list[int] = []
    meeting = zip(call.inputs, _types(call, kind), strict=True)
    operands = [_of_type(plan, spec, dtype, temporaries) for spec, dtype in meeting]
    result = result_like(operands[0], call.memory)
    if kind.called == "DIV" and operands[0].dtype is INT32:
        if call.in_place:
            raise InvalidSpecError("For integer division, supported output dtype is FLOAT32")
        result = replace(result, dtype=FLOAT32)
    if call.in_place and all(spec.layout is ROW_MAJOR for spec in call.inputs):
        raise InvalidSpecError(_NO_ROWS_IN_PLACE)
    if any(spec.shard is not None for spec in operands):
        return _on_shards(plan, kind, operands, result)
    if any(spec.layout is TILE for spec in operands):
        operands = [_in_tiles(plan, spec, temporaries) for spec in operands]
    if call.in_place:
        _check_types(kind, operands)
        return _combined(plan, kind, operands, call.inputs[0], temporaries)
    return _combined(plan, kind, operands, result, temporaries, checks=True)


def _combined(
    plan: PlanWriter,
    kind: _Kind,
    operands: list[TensorSpec],
    result: TensorSpec,
    temporaries: list[int],
    *,
    checks: bool = False,
) -> Plan:
    """The program, its result in tiles unless all operands are rows; the temporaries die with it."""
    shape = operands[0].shape if len(operands) == 1 else broadcast_shape(operands[0].shape, operands[1].shape)
    layout = ROW_MAJOR if all(spec.layout is ROW_MAJOR for spec in operands) else TILE
    result = replace(result, shape=shape, layout=layout)
    slot = plan.allocate(result)
    if checks:
        plan.l1_space()  # the library looks at the types when there is a place for the result
        _check_types(kind, operands)
    plan.launch(_streams(kind, operands, result), CIRCULAR)
    plan.free(*reversed(temporaries))
    return plan.finish(slot, result)


def _types(call: Call, kind: _Kind) -> list[DataType]:
    """The types in which the operands meet; block floats meet an integer as bfloat16."""
    types = [spec.dtype for spec in call.inputs]
    if kind.called in _COMPARISONS:
        return [UINT16 if dtype is UINT8 else dtype for dtype in types]
    if not kind.promotes:
        return types
    if len(types) == 1:
        is_fraction = isinstance(call.arguments.get("other"), float)
        return [FLOAT32] if is_fraction and types[0] in (INT32, UINT32) else types
    for one, other in ((0, 1), (1, 0)):
        if types[one] in (INT32, UINT32) and types[other].is_float:
            types[one] = FLOAT32 if types[other] is FLOAT32 else BFLOAT16
    return types


def _of_type(plan: PlanWriter, spec: TensorSpec, dtype: DataType, temporaries: list[int]) -> TensorSpec:
    if spec.dtype is dtype:
        return spec
    made = replace(spec, dtype=dtype)
    temporaries.append(cast(plan, spec, made))
    return made


def _in_tiles(plan: PlanWriter, spec: TensorSpec, temporaries: list[int]) -> TensorSpec:
    if spec.layout is TILE or spec.shard is not None:
        return spec
    made = replace(spec, layout=TILE)
    temporaries.append(tilize(plan, spec, made))
    return made


def _check_types(kind: _Kind, operands: Sequence[TensorSpec]) -> None:
    for letter, spec in zip("AB", operands, strict=False):
        if not kind.takes(spec.dtype):
            raise InvalidSpecError(
                f"Input tensor {letter} dtype {spell_type(spec.dtype)} is not supported for binary operation "
                f"BinaryOpType::{kind.called}"
            )
    types = [spec.dtype for spec in operands]
    if len(set(types)) == 2 and not (kind.mixes_floats and all(dtype.is_float for dtype in types)):
        raise InvalidSpecError(
            f"Mixed dtype is not supported for binary operation BinaryOpType::{kind.called}, "
            f"dtype A: {spell_type(types[0])}, dtype B: {spell_type(types[1])}"
        )


def _streams(kind: _Kind, operands: Sequence[TensorSpec], result: TensorSpec) -> list[int]:
    """Two tiles of each tensor and of the result; a number travels as one tile, which block floats take as bfloat16."""
    first = operands[0]
    tiles = [spec.dtype.tile_bytes(spec.tile) for spec in operands]
    buffers = [2 * tiles[0]]
    prepares_left = kind.prepares == "both" or (
        kind.prepares == "left" and first.dtype.is_float and not all(spec.dtype is FLOAT32 for spec in operands)
    )
    if prepares_left:
        buffers.append(tiles[0])
    if len(operands) == 1:
        number = (BFLOAT16 if first.dtype.is_block_float else first.dtype).tile_bytes(first.tile)
        buffers += [number] * (2 if kind.prepares == "both" else 1)
    else:
        buffers += [2 * tiles[1], *([tiles[1]] if kind.prepares == "both" else [])]
        buffers += _broadcast_stream(*operands)
    return [*buffers, *double_buffered_tiles(result)]


def _broadcast_stream(first: TensorSpec, second: TensorSpec) -> list[int]:
    """Of the operand that is repeated inside its tiles: the one of height 1, at equal heights that of width 1."""
    one, two = ((1, 1, *spec.shape)[-2:] for spec in (first, second))
    if one == two:
        return []
    axis = 0 if one[0] != two[0] else 1
    return double_buffered_tiles(first if one[axis] == 1 else second)


def _on_shards(plan: PlanWriter, kind: _Kind, operands: Sequence[TensorSpec], result: TensorSpec) -> Plan:
    """Streams borrow the shards when all tensors are cut alike."""
    specs = [*operands, result]
    alike = all(spec.shard == specs[0].shard and spec.shape == specs[0].shape for spec in specs)
    if alike and not kind.prepares and has_even_shards(specs[0]) and len({spec.dtype for spec in specs}) == 1:
        first = operands[0]
        number = (BFLOAT16 if first.dtype.is_block_float else first.dtype).tile_bytes(first.tile)
        return plan.one_program(result, [number] if len(operands) == 1 else [], CIRCULAR)
    return plan.one_program(result, [], CIRCULAR, at_least="shards of different shape, or uneven ones")


def _with_number_as_unary(call: Call, plan: PlanWriter, kind: _Kind) -> Plan:
    source = call.inputs[0]
    if not source.dtype.is_float:
        if kind.called in ("REMAINDER", "FMOD"):
            return plan.give_up("the remainder of integers and a number")
        if kind.called == "POWER":
            allowed: tuple[DataType, ...] = (INT32, UINT32, UINT16)
        else:
            allowed = (INT32, UINT32)
        check_integers(source, kind.number_is_unary, allowed)
    result = result_like(source, call.memory)
    if result.shard is not None:
        return plan.one_program(result, [], at_least="elementwise on shards with a number")
    return plan.one_program(result, double_buffered_tiles(source, result))


def where(call: Call, plan: PlanWriter) -> Plan:
    """A mask and two values, each a tensor or a number. An integer mask is made a float when the values are floats."""
    mask, *values = call.inputs
    if not values:
        return plan.one_program(result_like(mask, call.memory), double_buffered_tiles(mask, mask))
    dtype = values[0].dtype
    if any(spec.shard is not None for spec in call.inputs) or any(value.dtype is not dtype for value in values):
        return plan.give_up("where of shards, or of values of two types")
    if len(values) == 2 and mask.layout is ROW_MAJOR:
        raise InvalidSpecError(
            "Ternary operation requires tensor to be in Tile layout when working with non-sharded input tensor. "
            "Input tensor layout: 0"
        )
    temporaries: list[int] = []
    if dtype.is_float and not mask.dtype.is_float:
        mask = _of_type(plan, mask, dtype, temporaries)
    if len(values) == 1:
        return _combined(plan, _WHERE, [mask, *values], result_like(values[0], call.memory), temporaries, checks=True)
    shape = mask.shape
    for value in values:
        shape = broadcast_shape(shape, value.shape)
    result = replace(result_like(mask, call.memory), shape=shape, dtype=dtype)
    slot = plan.allocate(result)
    buffers = double_buffered_tiles(mask, *values)
    tails = {(1, 1, *spec.shape)[-2:] for spec in (mask, *values)}
    if len({height for height, _ in tails}) > 1 and len({width for _, width in tails}) == 1:
        buffers += buffers
    plan.launch([*buffers, *double_buffered_tiles(result)], CIRCULAR)
    plan.free(*temporaries)
    return plan.finish(slot, result)


def _draw_binary(record: OperationRecord, choose: Choose) -> list[Step]:
    _, named = draws.options(record, choose)
    if not choose.integer(0, 4):
        first = draws.sharded_tensor(choose)
        if choose.integer(0, 1):
            return write_call(record.name, [first, first], **named)
        return write_call(record.name, [first], 2.0)
    first = draws.tensor(choose, integers=True, odd=True)
    wish = draws.wish(choose)
    if not choose.integer(0, 3):
        return write_call(record.name, [first], choose.one_of((2.0, 3)), memory=wish, **named)
    second = _draw_partner(choose, first)
    form = choose.integer(0, 9)
    if form == 0 and not named:
        return write_call(record.name, [first, second], in_place=True)
    if form == 1 and record.has_in_place_form and not named:
        return write_call(f"{record.name}_", [first, second])
    return write_call(record.name, [first, second] if choose.integer(0, 1) else [second, first], memory=wish, **named)


def _draw_partner(choose: Choose, first: Step) -> Step:
    """A tensor that can be broadcast to the first, now and then of another type or layout."""
    shape = [size if choose.integer(0, 2) else 1 for size in first["shape"]]
    shorter = choose.integer(0, 1) if len(shape) > 2 else 0
    second = {**first, "shape": shape[shorter:], "memory": choose.one_of(draws.MEMORIES)}
    if not choose.integer(0, 4):
        other = draws.tensor(choose, integers=True, odd=True)
        second |= {"dtype": other["dtype"], "layout": other["layout"]}
    return second


def _draw_where(record: OperationRecord, choose: Choose) -> list[Step]:
    value = draws.tensor(choose, integers=True, odd=True)
    mask = _draw_partner(choose, value)
    if choose.integer(0, 3):
        value |= {"dtype": choose.one_of(("bfloat16", "bfloat16", "float32", "bfloat8_b", "int32")), "layout": "tile"}
        mask |= {"dtype": choose.one_of((value["dtype"], "int32", "uint16", "uint8")), "layout": "tile"}
    values: list[Any] = [value, {**_draw_partner(choose, value), "dtype": value["dtype"], "layout": value["layout"]}]
    given = choose.integer(0, 3)
    if given > 1:
        return write_call(record.name, [mask, *draws.shuffled(choose, values)], memory=draws.wish(choose))
    steps = write_call(record.name, [mask, values[given]], memory=draws.wish(choose))
    steps[-1]["args"].insert(1 + given, 2.0)
    return steps


_COMPARISONS = ("GE", "GT", "LE", "LT", "EQ", "NE")
_FLOATS_ALONE = _Kind("", (), mixes_floats=False)
_WHERE = _Kind("WHERE_TST", (INT32, UINT32), mixes_floats=False)
_DIVISION = _Kind("DIV", (INT32,), promotes=True)
_BITS = _Kind("", takes_floats=False)
_KINDS = {
    "add": _Kind("ADD"),
    "subtract": _Kind("SUB"),
    "sub": _Kind("SUB"),
    "multiply": _Kind("MUL", promotes=True),
    "mul": _Kind("MUL", promotes=True),
    "divide": _DIVISION,
    "div": _DIVISION,
    "rsub": _Kind("RSUB", prepares="left"),
    "squared_difference": _Kind("SQUARED_DIFFERENCE"),
    **{name.lower(): _Kind(name) for name in _COMPARISONS},
    **{f"logical_{name}": _Kind(f"LOGICAL_{name.upper()}", prepares="both") for name in ("and", "or", "xor")},
    "maximum": _Kind("MAXIMUM", (INT32, UINT32), mixes_floats=False, number_is_unary="MAXIMUM"),
    "minimum": _Kind("MINIMUM", (INT32, UINT32), mixes_floats=False, number_is_unary="MINIMUM"),
    "pow": replace(_FLOATS_ALONE, called="POWER", number_is_unary="POWER_ITERATIVE"),
    "remainder": _Kind("REMAINDER", (INT32, UINT32), mixes_floats=False, number_is_unary="REMAINDER"),
    "fmod": _Kind("FMOD", (INT32,), mixes_floats=False, number_is_unary="FMOD"),
    "logaddexp": replace(_FLOATS_ALONE, called="LOGADDEXP"),
    "xlogy": replace(_FLOATS_ALONE, called="XLOGY"),
}
_IN_PLACE = ("add", "subtract", "multiply", "divide", "sub", "mul", "div")


def _binary_record(name: str) -> OperationRecord:
    rounding = (Argument("rounding_mode", default=None, samples=("floor", "trunc")),) if name == "div" else ()
    return record_of(
        write_call(name, [EXAMPLE_TENSOR] * 2),
        binary,
        _draw_binary,
        Argument("other", 0, None),
        *rounding,
        family="binary"
        if name in _IN_PLACE
        else "comparison"
        if _KINDS[name].called in _COMPARISONS
        else "binary more",
        draw_bounded=_draw_binary if rounding else None,
        is_sized_by_elements=lambda spec: True,
        has_in_place_form=name in _IN_PLACE,
        is_drawn_odd=True,
    )


RECORDS = (
    *map(_binary_record, _KINDS),
    record_of(
        write_call("where", [EXAMPLE_TENSOR] * 3),
        where,
        _draw_where,
        *(Argument(name, place, None) for place, name in enumerate(("value", "other"))),
        is_drawn_odd=True,
    ),
)
