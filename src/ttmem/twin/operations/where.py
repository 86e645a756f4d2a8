# SPDX-License-Identifier: Apache-2.0
"""`where`, `addcmul`, `tril` and `triu`."""

from collections.abc import Sequence
from dataclasses import replace

from ttmem.hardware import BFLOAT8_B, BFLOAT16, FLOAT32, INT32, L1, UINT32
from ttmem.twin.operations.binary import binary, cast_operand, combine
from ttmem.twin.operations.binary_programs import BinaryKind, combine_shards, grow_shard
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import (
    broadcast_shape,
    double_buffered_tiles,
    has_whole_shards,
    result_spec,
    spec_like,
)
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder
from ttmem.twin.operations.record import Argument
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import TILE, InvalidSpecError, NdShard, Shard, TensorSpec

_WHERE = BinaryKind("WHERE_TST", (INT32, UINT32), mixes_floats=False)


def where(call: Call, plan: PlanBuilder) -> Plan:
    """Choose between two values, tensors or numbers; an integer mask becomes a float if the values are floats."""
    mask, *values = call.inputs
    if not values:
        return plan.finish_with_program(spec_like(mask, call.memory), double_buffered_tiles(mask, mask))
    dtype = values[0].dtype
    if any(one.dtype is not dtype for one in values):
        return plan.unknown("where of values of two types")
    in_shards = call.shard is not None or any(spec.shard is not None for spec in call.inputs)
    if in_shards and any(not spec.is_tiled or isinstance(spec.shard, NdShard) for spec in call.inputs):
        return plan.unknown("where of row-major shards")
    temporaries: list[int] = []
    if dtype.is_float and not mask.dtype.is_float:
        mask = cast_operand(plan, mask, dtype, temporaries)
    if len(values) == 1:
        kind = replace(_WHERE, called="WHERE_TTS") if call.tensor_places[1:] == (1,) else _WHERE
        if not in_shards:
            return combine(plan, kind, [mask, *values], spec_like(values[0], call.memory), temporaries, checks=True)
        result = _compute_result_spec(call, values[0], broadcast_shape(mask.shape, values[0].shape))
        return combine_shards(plan, kind, [mask, *values], result, temporaries)
    shape = mask.shape
    for value in values:
        shape = broadcast_shape(shape, value.shape)
    result = replace(_compute_result_spec(call, _find_lender(mask, values), shape), dtype=dtype, layout=TILE)
    slot = plan.allocate(result)
    if not mask.is_tiled:
        raise InvalidSpecError(
            "Ternary operation requires tensor to be in Tile layout when working with non-sharded input tensor. "
            "Input tensor layout: 0"
        )
    if _works_in_place([mask, *values], result):
        plan.launch([])
    else:
        plan.launch(_compute_streams(mask, values, result), CIRCULAR)
    plan.free(*temporaries)
    return plan.finish(slot, result)


def _compute_result_spec(call: Call, like: TensorSpec, shape: tuple[int, ...]) -> TensorSpec:
    """Return the result's spec: the caller's, or that of ``like``, whose shards grow with the result."""
    result = replace(result_spec(call, like), shape=shape)
    if call.memory is not None or not isinstance(like.shard, Shard):
        return result
    return replace(result, shard=grow_shard(like.shard, like, replace(result, shard=None)))


def _find_lender(mask: TensorSpec, values: Sequence[TensorSpec]) -> TensorSpec:
    """Return the tensor whose placement the result gets: the first of those sharded over the most cores."""
    return max((mask, *values), key=_count_cores)


def _count_cores(spec: TensorSpec) -> int:
    return spec.shard.cores if isinstance(spec.shard, Shard) else 0


def _works_in_place(operands: Sequence[TensorSpec], result: TensorSpec) -> bool:
    """Return whether the kernels work on the shards in place: all equal, in L1."""
    first, two = operands[0], result.shard
    alike = all((one.shape, one.memory, one.shard) == (first.shape, first.memory, first.shard) for one in operands)
    if not alike or not isinstance(first.shard, Shard) or not isinstance(two, Shard):
        return False
    in_l1 = first.memory is L1 and result.memory is L1
    return in_l1 and first.shard.ranges == two.ranges and has_whole_shards(first) and has_whole_shards(result)


def _compute_streams(mask: TensorSpec, values: Sequence[TensorSpec], result: TensorSpec) -> list[int]:
    buffers = double_buffered_tiles(mask, *values)
    tails = {(1, 1, *spec.shape)[-2:] for spec in (mask, *values)}
    if len({height for height, _ in tails}) > 1 and len({width for _, width in tails}) == 1:
        buffers += buffers
    return [*buffers, *double_buffered_tiles(result)]


def addcmul(call: Call, plan: PlanBuilder) -> Plan:
    """Add the first tensor and the product of the others in one program."""
    first = call.inputs[0]
    alike = [replace(spec, memory=first.memory) for spec in call.inputs]
    if len(alike) != 3 or set(alike) != {first} or first.shard is not None or call.shard is not None:
        return plan.unknown("three tensors that differ, or in shards")
    if not first.is_tiled or first.dtype not in (BFLOAT16, FLOAT32, BFLOAT8_B):
        return plan.unknown("three tensors that are row-major, integers or bfloat4_b")
    return plan.finish_with_program(spec_like(first, call.memory), double_buffered_tiles(*alike, first), CIRCULAR)


def triangle(call: Call, plan: PlanBuilder) -> Plan:
    """Multiply the input with ones and zeros, which the host writes to the result's memory."""
    source = call.inputs[0]
    if call.shard is not None or source.shard is not None or not source.is_tiled or not source.dtype.is_float:
        return plan.unknown("triangles of sharded, row-major or integer tensors")
    ones = replace(source, dtype=BFLOAT16, memory=call.memory or source.memory)
    slot = plan.allocate(ones)
    made = binary(Call("multiply", (source, ones), {"other": None}, call.memory), plan)
    plan.free(slot)
    return plan.finish_all(made.results)


RECORDS = (
    build_record(
        format_call("where", [EXAMPLE_TENSOR] * 3),
        where,
        *(Argument(name, place, None) for place, name in enumerate(("value", "other"))),
        verified_low_rank_and_rare_types=True,
    ),
    *(
        build_record(
            format_call(name, [EXAMPLE_TENSOR]),
            triangle,
            Argument("diagonal", default=0, samples=(0, 1, -3)),
            family="triangle",
            verified_low_rank_and_rare_types=True,
            verified_with_shards=False,
        )
        for name in ("tril", "triu")
    ),
    build_record(
        format_call("addcmul", [EXAMPLE_TENSOR] * 3),
        addcmul,
        Argument("value", default=1.0, samples=(1.0, 0.5)),
        verified_with_shards=False,
    ),
)
