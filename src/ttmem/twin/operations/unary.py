# SPDX-License-Identifier: Apache-2.0
"""Operations of one tensor, element by element."""

from dataclasses import replace
from typing import Any

from ttmem.hardware import BFLOAT4_B, BFLOAT8_B, FLOAT32, INT32, UINT8, UINT16, UINT32, DataType
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import (
    CORES,
    CORES_OF_SHARDS,
    cast,
    check_integers,
    dtype_name,
    one_to_one,
    pad_spec,
    restricts_cores_of_shards,
    result_spec,
)
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder
from ttmem.twin.operations.record import Argument, OperationRecord
from ttmem.twin.tensor_spec import InvalidSpecError, TensorSpec


def unary(call: Call, plan: PlanBuilder) -> Plan:
    """Compute a result of the input's shape: two tiles in, two tiles out."""
    source = call.inputs[0]
    if call.name == "clamp" and call.arguments["min"] is None and call.arguments["max"] is None:
        raise InvalidSpecError("Only one of 'min' or 'max' can be None. Please provide one value")
    if restricts_cores_of_shards(call):
        return plan.unknown(CORES_OF_SHARDS)
    result = result_spec(call, source)
    if call.name == "clamp" and source.dtype is INT32 and isinstance(_find_float_bound(call), float):
        return _clamp_as_floats(call, plan, source, replace(result, dtype=FLOAT32))
    called, allowed = _CALLED.get(call.name, call.name.upper()), _TAKES_INTEGERS.get(call.name, ())
    check_integers(plan, source, None if call.in_place else result, called, allowed)
    if call.name == "lgamma" and source.dtype.is_block_float:
        if not call.in_place:
            plan.allocate(pad_spec(source, result))
        plan.refuse(
            f"Unary: LGAMMA requires BFLOAT16 or FLOAT32 input, got dtype {_BLOCK_FLOATS.index(source.dtype) + 3}"
        )
    return one_to_one(plan, source, result)


def _find_float_bound(call: Call) -> Any:
    """Return the first bound that is a float."""
    bounds = [call.arguments[name] for name in ("min", "max")]
    return next((bound for bound in bounds if isinstance(bound, float)), None)


def _clamp_as_floats(call: Call, plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> Plan:
    """Clamp integers with float bounds: convert them to floats in the result's memory first."""
    before = cast(plan, source, result)
    if call.in_place:
        plan.refuse(
            f"Preallocated output dtype {dtype_name(source.dtype)} is not compatible with input dtype "
            f"{dtype_name(result.dtype)}. Integer and float dtypes cannot be mixed; mixed floating-point output is "
            "limited to BFLOAT16, FLOAT32, and BFLOAT8_B."
        )
    made = one_to_one(plan, result, result)
    plan.free(before)
    return plan.finish_all(made.results)


def _build_unary_record(name: str, *arguments: Argument) -> OperationRecord:
    placed = [argument.samples[0] for argument in arguments if argument.position is not None]
    named: dict[str, Any] = {"min": 0.0} if name == "clamp" else {}
    example = format_call(name, [EXAMPLE_TENSOR], *placed, **named)
    return build_record(
        example,
        unary,
        *arguments,
        CORES,
        family="unary",
        verified_output_tensor=True,
        verified_low_rank_and_rare_types=True,
    )


_PLAIN_UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_not cbrt ceil cos cosh eqz erf erfc erfinv exp exp2 expm1 floor frac "
    "digamma gez gtz hardmish hardsigmoid hardswish identity isfinite isinf isnan lez lgamma log log10 log1p log2 "
    "log_sigmoid logical_not ltz mish neg nez reciprocal relu relu6 rsqrt selu sign silu sin sinh softsign sqrt "
    "square tan tanh tanhshrink trunc"
)
_CALLED = {
    "clamp": "CLAMP_TSS",
    "log_sigmoid": "LOGSIGMOID",
    "logical_not": "LOGICAL_NOT_UNARY",
    "reciprocal": "RECIP",
}
"""The library's names where they differ from the functions' names."""
_BLOCK_FLOATS = (BFLOAT8_B, BFLOAT4_B)
"""The library's types number 3 and 4."""
_ALL_INTEGERS = (INT32, UINT32, UINT16, UINT8)
_TAKES_INTEGERS: dict[str, tuple[DataType, ...]] = {
    **dict.fromkeys(("abs", "identity", "relu", "relu6"), _ALL_INTEGERS),
    **dict.fromkeys(("square", "logical_not", "eqz", "nez"), (INT32, UINT32, UINT16)),
    **dict.fromkeys(("neg", "gtz", "ltz", "gez", "lez", "clamp"), (INT32,)),
    "bitwise_not": (INT32, UINT32),
    "leaky_relu": (UINT32, UINT16, UINT8),
}
_GELU_KINDS = (
    Argument("fast_and_approximate_mode", default=False, samples=(False, True)),
    Argument("variant", default=None),
)
RECORDS = (
    *map(_build_unary_record, _PLAIN_UNARY.split()),
    _build_unary_record("gelu", *_GELU_KINDS),
    _build_unary_record("round", Argument("decimals", default=None, samples=(2, -1))),
    _build_unary_record(
        "sigmoid", Argument("vector_mode", default=None, samples=(2, 4)), Argument("mode", default=None)
    ),
    _build_unary_record("hardtanh", *(Argument(name, default=None, samples=(0.5,)) for name in ("min_val", "max_val"))),
    _build_unary_record("leaky_relu", Argument("negative_slope", 0, samples=(0.1,))),
    _build_unary_record("elu", Argument("alpha", default=1.0, samples=(0.5,))),
    _build_unary_record("clamp", *(Argument(name, default=None, samples=(0.0, 6.0)) for name in ("min", "max"))),
    _build_unary_record(
        "softplus", *(Argument(name, default=None, samples=(1.0, 20.0)) for name in ("beta", "threshold"))
    ),
)
