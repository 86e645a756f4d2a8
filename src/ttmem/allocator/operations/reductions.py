# SPDX-License-Identifier: Apache-2.0
"""Softmax and reductions over one of the last two dimensions."""

from dataclasses import replace
from math import prod

from ttmem.allocator.operations import draws
from ttmem.allocator.operations.draws import EXAMPLE_TENSOR
from ttmem.allocator.operations.elementwise import double_buffered_tiles, result_like
from ttmem.allocator.operations.movement import fill_padding
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.hardware import BFLOAT8_B, BFLOAT16, FLOAT32, DataType
from ttmem.tensors import TILE, TensorSpec

_WORTH_BATCHING = 4
"""From so many tiles of work on, a reduction reads eight tiles ahead instead of two."""

_STREAMED_TILES = 80
"""A softmax whose rows do not fit a core reads so many tiles at a time."""
_MOST_BYTES_ALONG = 512 * 1024


def _accumulator(dtype: DataType) -> DataType:
    return FLOAT32 if dtype is FLOAT32 else BFLOAT16


def softmax(call: Call, plan: PlanWriter) -> Plan:
    """Over the last dimension a row of tiles is kept; over others the tiles along that dimension."""
    source = call.inputs[0]
    rank = len(source.shape)
    if source.layout is not TILE:
        return plan.give_up("softmax of row-major tensors")
    result = result_like(source, call.memory)
    axis = int(call.arguments["dim"]) % max(rank, 1)
    if source.shard is not None:
        return plan.one_program(result, [], at_least="softmax of interleaved tiles is modelled")
    if axis == rank - 1 and rank <= 4:
        buffers = _softmax_of_rows(source, plan, stable=bool(call.arguments["numeric_stable"]))
    elif axis >= rank - 2:
        buffers = _softmax_along(source, plan, -(-source.shape[axis] // 32))
    else:
        tile, wide = source.dtype.tile_bytes(source.tile), FLOAT32.tile_bytes()
        buffers = [2 * tile, 2 * tile, 4 * wide, tile, wide]
    return plan.one_program(result, buffers)


def _softmax_of_rows(source: TensorSpec, plan: PlanWriter, *, stable: bool) -> list[int]:
    """The stable form keeps the maxima too: one tile more, and the row twice when its last tile is padded."""
    width = source.shape[-1] if source.shape else 1
    tiles = -(-width // 32)
    blocks = -(-tiles // 4)
    block = tiles // blocks if tiles % blocks == 0 else 4
    row = blocks * block
    tile = source.dtype.tile_bytes(source.tile)
    inner, plain = _accumulator(source.dtype).tile_bytes(), BFLOAT16.tile_bytes()
    is_padded = width % 32 != 0
    read = row * tile if stable and not is_padded else 2 * block * tile
    rows = row * inner * (2 if stable and is_padded else 1)
    # The library's own estimate counts five small buffers where there are more, and compares with 90 % of a core.
    if read + 2 * block * tile + rows + 5 * inner > 0.9 * plan.memory_map.architecture.l1_bytes_per_core:
        few = [_STREAMED_TILES * tile, 2 * block * tile, 2 * _STREAMED_TILES * inner, 2 * inner + 9 * plain]
        return [*few, inner] if stable else few
    return [read, 2 * block * tile, rows, (2 if stable else 1) * inner + 5 * plain]


def _softmax_along(source: TensorSpec, plan: PlanWriter, tiles: int) -> list[int]:
    """So many tiles at once, as long as the library's estimate of them stays below half a megabyte."""
    tile, wide = source.dtype.tile_bytes(source.tile), FLOAT32.tile_bytes()
    inner = _accumulator(source.dtype).tile_bytes()
    estimate = plan.memory_map.l1_base_address + 2 * tiles * tile + 2 * inner + 2 * tiles * wide + 3 * wide
    if estimate > _MOST_BYTES_ALONG:
        return [2 * tile, 3 * inner, 2 * tile, 2 * wide, 4 * wide]
    return [tiles * tile, 3 * inner, tiles * tile, tiles * wide, 2 * wide, tiles * wide, wide]


def reduce(call: Call, plan: PlanWriter) -> Plan:
    """Sum, mean, max or min; exact along one of the last two dimensions with the dimension kept."""
    source = call.inputs[0]
    rank = len(source.shape)
    if source.layout is not TILE:
        return plan.give_up("reductions of row-major tensors")
    axis = call.arguments["dim"]
    keep = bool(call.arguments["keepdim"])
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
        why = "reductions of other dimensions go through temporaries that are not listed"
        return plan.one_program(replace(reduced, shape=shape), double_buffered_tiles(source), at_least=why)
    filled = fill_padding(plan, source)
    slot = plan.allocate(reduced)
    tile = source.dtype.tile_bytes(source.tile)
    # Work of the least busy core: rows of tiles for the width, columns of tiles for the height.
    outer, cores = prod(source.shape[:-2]), plan.memory_map.grid.cores
    height, width = (-(-size // 32) for size in source.shape[-2:])
    work = max(outer * height // cores, 1) * width if axes[0] == rank - 1 else outer * width // cores
    plan.launch([(8 if work >= _WORTH_BATCHING else 2) * tile, _accumulator(source.dtype).tile_bytes(), 2 * tile])
    plan.free(filled)
    return plan.finish(slot, reduced)


def _draw_softmax(record: OperationRecord, choose: Choose) -> list[Step]:
    source = draws.tensor(choose, tile_only=True)
    dim = choose.one_of((-1, -1, -1, -2, -len(source["shape"])))
    if not choose.integer(0, 3):
        source["shape"][dim] *= choose.one_of((8, 32, 64))  # rows that do not fit a core
    _, named = draws.options(record, choose)
    return write_call(record.name, [source], memory=draws.wish(choose), dim=dim, **named)


def _draw_reduce(record: OperationRecord, choose: Choose) -> list[Step]:
    source = draws.tensor(choose, tile_only=True)
    dim = choose.one_of((-1, -2))
    return write_call(record.name, [source], memory=draws.wish(choose), dim=dim, keepdim=True)


def _draw_any_reduce(record: OperationRecord, choose: Choose) -> list[Step]:
    """Any dimension, kept or not, or all of them."""
    source = draws.tensor(choose, tile_only=True)
    if not choose.integer(0, 5):
        return write_call(record.name, [source])
    dim = choose.integer(-len(source["shape"]), -1)
    return write_call(record.name, [source], dim=dim, keepdim=bool(choose.integer(0, 1)))


RECORDS = (
    record_of(
        write_call("softmax", [EXAMPLE_TENSOR], dim=-1, numeric_stable=True),
        softmax,
        _draw_softmax,
        *(Argument("dim", default=-1), Argument("numeric_stable", default=True, samples=(True, False))),
    ),
    *(
        record_of(
            write_call(name, [EXAMPLE_TENSOR], dim=-1, keepdim=True),
            reduce,
            _draw_reduce,
            *(Argument("dim", default=None), Argument("keepdim", default=False)),
            family="reduce",
            draw_bounded=_draw_any_reduce,
        )
        for name in ("sum", "mean", "max", "min")
    ),
)
