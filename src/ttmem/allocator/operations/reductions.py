# SPDX-License-Identifier: Apache-2.0
"""Softmax and reductions over one of the last two dimensions."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ttmem.allocator.operations.elementwise import double_buffered_tiles, result_like
from ttmem.allocator.operations.movement import fill_padding, has_tile_padding
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.hardware import BFLOAT8_B, BFLOAT16, FLOAT32, DataType
from ttmem.tensors import TILE, TensorSpec

_WORTH_BATCHING = 4
"""From so many tiles of work on, a reduction reads eight tiles ahead instead of two."""


def _accumulator(dtype: DataType) -> DataType:
    return FLOAT32 if dtype is FLOAT32 else BFLOAT16


def softmax(call: Call, plan: PlanWriter) -> Plan:
    """Over the last dimension a whole row of tiles is kept, twice when its last tile is padded."""
    source = call.inputs[0]
    rank = len(source.shape)
    if source.layout is not TILE:
        return plan.give_up("softmax of row-major tensors")
    result = result_like(source, call.memory)
    slot = plan.allocate(result)
    axis = int(call.arguments.get("dim", -1)) % max(rank, 1)
    if source.shard is not None or axis != rank - 1 or rank > 4:
        plan.launch_at_least([], "softmax over the last dimension of interleaved tiles is modelled, up to rank 4")
        return plan.finish(slot, result)
    buffers = _softmax_buffers(source)
    # The library's own estimate counts five small buffers where there are seven, and compares with 90 % of a core.
    estimate = sum(buffers[:-1]) + 5 * _accumulator(source.dtype).tile_bytes()
    if estimate > 0.9 * plan.memory_map.architecture.l1_bytes_per_core:
        plan.launch_at_least([], "rows that do not fit a core are streamed")
    else:
        plan.launch(buffers)
    return plan.finish(slot, result)


def _softmax_buffers(source: TensorSpec) -> list[int]:
    width = source.shape[-1] if source.shape else 1
    tiles = -(-width // 32)
    blocks = -(-tiles // 4)
    block = tiles // blocks if tiles % blocks == 0 else 4
    row = blocks * block
    tile = source.dtype.tile_bytes(source.tile)
    inner = _accumulator(source.dtype).tile_bytes()
    plain = BFLOAT16.tile_bytes()
    small = 2 * inner + 5 * plain
    if width % 32 == 0:
        return [row * tile, 2 * block * tile, row * inner, small]
    return [2 * block * tile, 2 * block * tile, 2 * row * inner, small]


def reduce(call: Call, plan: PlanWriter) -> Plan:
    """Sum, mean, max or min; exact along one of the last two dimensions with the dimension kept."""
    source = call.inputs[0]
    rank = len(source.shape)
    if source.layout is not TILE:
        return plan.give_up("reductions of row-major tensors")
    axis = call.arguments.get("dim")
    keep = bool(call.arguments.get("keepdim", False))
    axes = list(range(rank)) if axis is None else [axis] if isinstance(axis, int) else [int(a) for a in axis]
    axes = sorted({a % rank for a in axes})
    kept = tuple(1 if i in axes else size for i, size in enumerate(source.shape))
    reduced = replace(result_like(source, call.memory), shape=kept)
    if (
        source.shard is not None
        or not keep
        or len(axes) != 1
        or axes[0] < rank - 2
        or (source.dtype.is_block_float and (call.name == "min" or source.dtype is not BFLOAT8_B))
    ):
        shape = kept if keep else tuple(size for i, size in enumerate(source.shape) if i not in axes)
        result = replace(reduced, shape=shape)
        slot = plan.allocate(result)
        plan.launch_at_least(
            double_buffered_tiles(source), "reductions of other dimensions go through temporaries that are not listed"
        )
        return plan.finish(slot, result)
    filled = fill_padding(plan, source) if has_tile_padding(source) else -1
    slot = plan.allocate(reduced)
    tile = source.dtype.tile_bytes(source.tile)
    # Work of the least busy core: rows of tiles for the width, columns of tiles for the height.
    outer, cores = prod(source.shape[:-2]), plan.memory_map.grid.cores
    height, width = (-(-size // 32) for size in source.shape[-2:])
    work = max(outer * height // cores, 1) * width if axes[0] == rank - 1 else outer * width // cores
    plan.launch([(8 if work >= _WORTH_BATCHING else 2) * tile, _accumulator(source.dtype).tile_bytes(), 2 * tile])
    plan.free(filled)
    return plan.finish(slot, reduced)
