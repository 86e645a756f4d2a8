# SPDX-License-Identifier: Apache-2.0
"""Elementwise operations on two tensors: arithmetic, comparisons, logic."""

from collections.abc import Sequence
from dataclasses import replace

from ttmem.hardware import BFLOAT8_B, BFLOAT16, FLOAT32, INT32, UINT8, UINT16, UINT32, DataType
from ttmem.twin.operations.binary_programs import (
    BinaryKind,
    binary_result_spec,
    check_types,
    combine_shards,
    list_streams,
)
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import (
    broadcast_shape,
    cast,
    check_integers,
    check_output_shape,
    copy_between,
    double_buffered_tiles,
    dtype_name,
    one_to_one,
    pad_spec,
    result_spec,
    spec_like,
    works_in_place,
)
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder
from ttmem.twin.operations.record import Argument, OperationRecord
from ttmem.twin.operations.to_layout import tilize, to_layout
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import ROW_MAJOR, TILE, InvalidSpecError, TensorSpec

_NO_ROWS_IN_PLACE = "Optional output tensor with Row Major input is not supported right now for Elementwise operations"
_NO_INTEGER_POWER = (
    "Input tensor A dtype {} is not supported for binary operation POWER: tensor exponents are not supported for "
    "integer inputs, use a scalar integer exponent"
)


def binary(call: Call, plan: PlanBuilder) -> Plan:
    """Plan an operation on two tensors, or a tensor and a number. A broadcast within tiles adds a stream."""
    kind = _KINDS[call.name]
    if len(call.inputs) == 1 and kind.number_is_unary:
        return (_raise_number if call.number_first else _combine_with_number)(call, plan, kind)
    rounds = call.arguments.get("rounding_mode") is not None
    temporaries: list[int] = []
    meeting = zip(call.inputs, _choose_dtypes(call, kind), strict=True)
    operands = [cast_operand(plan, spec, dtype, temporaries) for spec, dtype in meeting]
    result = binary_result_spec(call, operands)
    if kind.called == "DIV" and operands[0].dtype is INT32:
        if call.in_place:
            raise InvalidSpecError("For integer division, supported output dtype is FLOAT32")
        result = replace(result, dtype=INT32 if rounds else FLOAT32)
        rounds = False
    if kind.called == "POWER" and not call.inputs[0].dtype.is_float:
        if not call.in_place:
            plan.allocate(_broadcast_result(operands, result))
        plan.refuse(_NO_INTEGER_POWER.format(dtype_name(call.inputs[0].dtype)))
    if call.in_place and all(not spec.is_tiled for spec in call.inputs):
        raise InvalidSpecError(_NO_ROWS_IN_PLACE)
    if call.in_place and len(operands) > 1:
        check_output_shape((call.target or call.inputs[0]).shape, broadcast_shape(operands[0].shape, operands[1].shape))
    if any(spec.shard is not None for spec in (*operands, result)):
        return _combine_shards(call, plan, kind, operands, result, temporaries, rounds=rounds)
    if any(spec.is_tiled for spec in operands):
        operands = [_tilize_operand(plan, spec, temporaries) for spec in operands]
    if call.in_place:
        check_types(kind, operands)
        return combine(plan, kind, operands, call.inputs[0], temporaries)
    if not rounds:
        return combine(plan, kind, operands, result, temporaries, checks=True)
    inner, outer = _split_temporaries(call, temporaries)
    return _round(plan, combine(plan, kind, operands, result, inner, checks=True), outer)


def _combine_shards(
    call: Call,
    plan: PlanBuilder,
    kind: BinaryKind,
    operands: list[TensorSpec],
    result: TensorSpec,
    temporaries: list[int],
    *,
    rounds: bool,
) -> Plan:
    """Plan operands of which one is sharded: rows become tiles, and a result of rows alone becomes rows again."""
    are_rows = [not spec.is_tiled for spec in operands]
    if any(are_rows):
        if rounds or all(spec.shard is None for spec in operands):
            return plan.unknown(
                "row-major operands that are divided and rounded in shards, or go from interleaved to sharded"
            )
        for place, spec in enumerate(operands):
            if not spec.is_tiled:
                made = to_layout(Call("to_layout", (spec,), {"layout": "tile"}), plan)
                if not made.results:
                    return made
                ((slot, operands[place]),) = made.results
                temporaries.append(slot)
        result = replace(binary_result_spec(call, operands), dtype=result.dtype)
    inner, outer = (
        _split_temporaries(call, temporaries) if rounds else ([], temporaries) if all(are_rows) else (temporaries, [])
    )
    made = combine_shards(plan, kind, operands, call.inputs[0] if call.in_place else result, inner)
    if rounds:
        return _round(plan, made, outer)
    if not all(are_rows):
        return made
    ((slot, result),) = made.results
    made = to_layout(Call("to_layout", (result,), {"layout": "row_major"}), plan)
    if made.results:
        plan.free(slot, *reversed(outer))
        return plan.finish_all(made.results)
    return made


def _split_temporaries(call: Call, temporaries: list[int]) -> tuple[list[int], list[int]]:
    """Return the temporaries to free with the quotient, and after it is rounded: an integer that was cast to float."""
    is_cast_before = len(call.inputs) == 1 and call.inputs[0].dtype is INT32
    return ([], temporaries) if is_cast_before else (temporaries, [])


def _round(plan: PlanBuilder, quotient: Plan, temporaries: list[int]) -> Plan:
    """Round a quotient with a second program."""
    ((slot, result),) = quotient.results
    rounded = plan.allocate(result)
    plan.launch([] if works_in_place(plan, result, result) else double_buffered_tiles(result, result))
    plan.free(slot, *temporaries)
    return plan.finish(rounded, result)


def combine(
    plan: PlanBuilder,
    kind: BinaryKind,
    operands: list[TensorSpec],
    result: TensorSpec,
    temporaries: list[int],
    *,
    checks: bool = False,
) -> Plan:
    """Add the program and free the temporaries; the result is tiled unless all operands are row-major."""
    result = _broadcast_result(operands, result)
    slot = plan.allocate(result)
    if checks:
        # The library checks the types after it allocated the result.
        check_types(kind, operands)
    plan.launch(list_streams(kind, operands, result), CIRCULAR)
    plan.free(*reversed(temporaries))
    return plan.finish(slot, result)


def _broadcast_result(operands: Sequence[TensorSpec], result: TensorSpec) -> TensorSpec:
    shape = operands[0].shape if len(operands) == 1 else broadcast_shape(operands[0].shape, operands[1].shape)
    layout = ROW_MAJOR if all(not spec.is_tiled for spec in operands) else TILE
    return replace(result, shape=shape, layout=layout)


def _choose_dtypes(call: Call, kind: BinaryKind) -> list[DataType]:
    """Return the types to which the operands are cast; block floats become bfloat16 next to an integer."""
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


def cast_operand(plan: PlanBuilder, spec: TensorSpec, dtype: DataType, temporaries: list[int]) -> TensorSpec:
    if spec.dtype is dtype:
        return spec
    made = replace(spec, dtype=dtype)
    temporaries.append(cast(plan, spec, made))
    return made


def _tilize_operand(plan: PlanBuilder, spec: TensorSpec, temporaries: list[int]) -> TensorSpec:
    if spec.is_tiled or spec.shard is not None:
        return spec
    made = replace(spec, layout=TILE)
    temporaries.append(tilize(plan, spec, made))
    return made


def _combine_with_number(call: Call, plan: PlanBuilder, kind: BinaryKind) -> Plan:
    source = call.inputs[0]
    result = result_spec(call, source)
    if kind.called == "POWER" and call.arguments.get("other") == 1:
        if source.shard is not None or result.shard is not None:
            return plan.unknown("a power of one of shards, which is a copy")
        return plan.finish(copy_between(plan, source, result), result)
    if not source.dtype.is_float:
        if kind.called in ("REMAINDER", "FMOD"):
            return plan.unknown("the remainder of an integer tensor and a number")
        allowed = (INT32, UINT32, UINT16) if kind.called == "POWER" or not kind.takes_floats else (INT32, UINT32)
        check_integers(plan, source, result, kind.number_is_unary, allowed)
        if kind.called == "POWER" and not source.is_tiled:
            raise InvalidSpecError("pow_int: input must be in TILE layout, got Layout::ROW_MAJOR")
        if kind.called == "POWER":  # its own kernel, which never works in place
            return plan.finish_with_program(result, double_buffered_tiles(source, result))
    elif not kind.takes_floats:
        plan.allocate(pad_spec(source, result))
        plan.refuse(
            f"Unsupported input dtype for bitwise/shift op_type UnaryOpType::{kind.called}: expected Int32, UInt32, "
            "or UInt16."
        )
    return one_to_one(plan, source, result)


def _raise_number(call: Call, plan: PlanBuilder, kind: BinaryKind) -> Plan:
    """Fill a tensor like the exponent with the number, then combine the two."""
    source = call.inputs[0]
    if kind.called != "POWER" or call.shard is not None or not (source.shard is None and source.is_tiled):
        return plan.unknown("a number before sharded or row-major tensors")
    base = plan.allocate(source)
    if not source.dtype.is_float:
        plan.allocate(spec_like(source, call.memory))
        plan.refuse(_NO_INTEGER_POWER.format(dtype_name(source.dtype)))
    if source.dtype in (BFLOAT16, FLOAT32, BFLOAT8_B):  # the rest comes from the host
        plan.launch(double_buffered_tiles(source, source))
    return combine(plan, kind, [source, source], spec_like(source, call.memory), [base], checks=True)


_COMPARISONS = ("GE", "GT", "LE", "LT", "EQ", "NE")
_FLOATS_ALONE = BinaryKind("", (), mixes_floats=False)
_DIVISION = BinaryKind("DIV", (INT32,), promotes=True)


def _make_bitwise_kind(called: str) -> BinaryKind:
    return BinaryKind(called, takes_floats=False, number_is_unary=called)


_KINDS = {
    "add": BinaryKind("ADD"),
    "subtract": BinaryKind("SUB"),
    "sub": BinaryKind("SUB"),
    "multiply": BinaryKind("MUL", promotes=True),
    "mul": BinaryKind("MUL", promotes=True),
    "divide": _DIVISION,
    "div": _DIVISION,
    "rsub": BinaryKind("RSUB", prepares="left"),
    "squared_difference": BinaryKind("SQUARED_DIFFERENCE"),
    **{name.lower(): BinaryKind(name) for name in _COMPARISONS},
    **{f"logical_{name}": BinaryKind(f"LOGICAL_{name.upper()}", prepares="both") for name in ("and", "or", "xor")},
    "maximum": BinaryKind("MAXIMUM", (INT32, UINT32), mixes_floats=False, number_is_unary="MAXIMUM"),
    "minimum": BinaryKind("MINIMUM", (INT32, UINT32), mixes_floats=False, number_is_unary="MINIMUM"),
    "pow": replace(_FLOATS_ALONE, called="POWER", number_is_unary="POWER_ITERATIVE"),
    "remainder": BinaryKind("REMAINDER", (INT32, UINT32), mixes_floats=False, number_is_unary="REMAINDER"),
    "fmod": BinaryKind("FMOD", (INT32,), mixes_floats=False, number_is_unary="FMOD"),
    "logaddexp": replace(_FLOATS_ALONE, called="LOGADDEXP"),
    "xlogy": replace(_FLOATS_ALONE, called="XLOGY"),
    "atan2": replace(_FLOATS_ALONE, called="ATAN2"),
    **{f"bitwise_{name}": _make_bitwise_kind(f"BITWISE_{name.upper()}") for name in ("and", "or", "xor")},
}
_IN_PLACE = ("add", "subtract", "multiply", "divide", "sub", "mul", "div")


def _binary_record(name: str) -> OperationRecord:
    rounding = (Argument("rounding_mode", default=None, samples=("floor", "trunc")),) if name == "div" else ()
    example = EXAMPLE_TENSOR if _KINDS[name].takes_floats else {**EXAMPLE_TENSOR, "dtype": "int32"}
    return build_record(
        format_call(name, [example] * 2),
        binary,
        Argument("other", 0, None),
        *rounding,
        family="binary" if name in _IN_PLACE else "comparison",
        verified_output_tensor=True,
        has_in_place_form=name in _IN_PLACE,
        verified_low_rank_and_rare_types=True,
    )


RECORDS = tuple(map(_binary_record, _KINDS))
