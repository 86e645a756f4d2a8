# SPDX-License-Identifier: Apache-2.0
"""Operations that look at one element at a time: unary, binary, typecast, clone."""

from __future__ import annotations

from dataclasses import replace

from ttmem._errors import BadInputError
from ttmem.allocator.operations.plan import BOUNDED, Call, Plan, PlanWriter
from ttmem.allocator.programs import CIRCULAR
from ttmem.hardware import BFLOAT16, DATA_TYPES, DataType, Memory
from ttmem.tensors import TILE, Shard, TensorSpec, paging_of, round_up


def result_like(spec: TensorSpec, memory: Memory | None = None, dtype: DataType | None = None) -> TensorSpec:
    """The spec of a result: as its input, unless the caller asked for another memory or type."""
    sharded = spec.shard if memory is None else None
    return replace(spec, memory=memory or spec.memory, dtype=dtype or spec.dtype, shard=sharded)


def double_buffered_tiles(*specs: TensorSpec) -> list[int]:
    """Two tiles per stream, in tile bytes even when the tensors are row-major."""
    return [2 * spec.dtype.tile_bytes(spec.tile) for spec in specs]


def unary(call: Call, plan: PlanWriter) -> Plan:
    """One input, one result of the same shape: two tiles in, two tiles out."""
    source = call.inputs[0]
    result = result_like(source, call.memory)
    slot = plan.allocate(result)
    if result.shard is None:
        plan.launch(double_buffered_tiles(source, result))
    elif has_even_shards(source):
        plan.launch([])  # both streams borrow the shards
    else:
        plan.launch_at_least([], "elementwise on uneven or row-major shards")
    return plan.finish(slot, result)


def has_even_shards(spec: TensorSpec) -> bool:
    """Every core of the grid holds one full shard of tiles: only then do kernels work on the shards in place."""
    shard = spec.shard
    if not isinstance(shard, Shard) or spec.layout is not TILE:
        return False
    paging = paging_of(spec)
    if paging.physical_height % shard.height or paging.physical_width % shard.width:
        return False
    return (paging.physical_height // shard.height) * (paging.physical_width // shard.width) == shard.cores


def typecast(call: Call, plan: PlanWriter) -> Plan:
    source = call.inputs[0]
    result = result_like(source, call.memory, DATA_TYPES.find(str(call.arguments["dtype"])))
    if result.shard is not None:
        slot = plan.allocate(result)
        plan.launch_at_least([], "typecast of shards")
        return plan.finish(slot, result)
    slot = cast(plan, source, result)
    return plan.finish(slot, result)


def cast(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> int:
    """The typecast that other operations insert around themselves."""
    slot = plan.allocate(result)
    plan.launch(double_buffered_tiles(source, result))
    return slot


def clone(call: Call, plan: PlanWriter) -> Plan:
    source = call.inputs[0]
    result = result_like(source, call.memory)
    slot = plan.allocate(result)
    if source.shard is not None:
        plan.launch_at_least([], "clone of shards")
    elif source.layout is TILE:
        plan.launch(double_buffered_tiles(source))
    else:
        alignment = plan.memory_map.page_alignment_bytes(source.memory)
        plan.launch([2 * round_up(paging_of(source).page_bytes, alignment)])
    return plan.finish(slot, result)


def broadcast_shape(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(first), len(second))
    one = (1,) * (rank - len(first)) + first
    two = (1,) * (rank - len(second)) + second
    for a, b in zip(one, two, strict=True):
        if a != b and 1 not in (a, b):
            raise BadInputError(f"shapes {list(first)} and {list(second)} cannot be broadcast")
    return tuple(max(a, b) if 0 not in (a, b) else 0 for a, b in zip(one, two, strict=True))


def _on_shards(plan: PlanWriter, static: list[int], *specs: TensorSpec) -> None:
    """Streams borrow the shards when all tensors are cut alike."""
    alike = all(spec.shard == specs[0].shard and spec.shape == specs[0].shape for spec in specs)
    if alike and has_even_shards(specs[0]) and all(spec.dtype is specs[0].dtype for spec in specs):
        plan.launch(static, CIRCULAR)
    else:
        plan.launch_at_least([], "shards of different shape, or uneven ones", CIRCULAR)


def binary(call: Call, plan: PlanWriter) -> Plan:
    """Two tensors, or a tensor and a number. A broadcast inside the last two dimensions needs one more stream."""
    first = call.inputs[0]
    if call.name in ("divide", "div") and not first.dtype.is_float:
        plan.doubt(BOUNDED, "division of integers converts its inputs first")
    if len(call.inputs) == 1:
        if not first.dtype.is_float:
            plan.doubt(BOUNDED, "an integer tensor and a number may be converted first")
        result = result_like(first, call.memory)
        slot = plan.allocate(result)
        # The number travels as one tile; block floats take it as bfloat16.
        number = BFLOAT16 if first.dtype.is_block_float else first.dtype
        streams = double_buffered_tiles(first, result)
        if first.shard is None:
            plan.launch([streams[0], number.tile_bytes(first.tile), streams[1]], CIRCULAR)
        else:
            _on_shards(plan, [number.tile_bytes(first.tile)], first, result)
        return plan.finish(slot, result)
    second = call.inputs[1]
    shape = broadcast_shape(first.shape, second.shape)
    result = replace(result_like(first, call.memory), shape=shape)
    slot = plan.allocate(result)
    if first.shard is not None or second.shard is not None:
        _on_shards(plan, [], first, second, result)
        return plan.finish(slot, result)
    streams = double_buffered_tiles(first, second, result)
    tail = [(1, 1, *spec.shape)[-2:] for spec in (first, second)]
    if tail[0] != tail[1]:
        streams += double_buffered_tiles(first)
    if first.dtype is not second.dtype:
        plan.launch_at_least(streams, "the two inputs have different data types", CIRCULAR)
    else:
        plan.launch(streams, CIRCULAR)
    return plan.finish(slot, result)
