# SPDX-License-Identifier: Apache-2.0
"""global_avg_pool and average pooling over the whole image: a sum of its rows."""

from dataclasses import replace
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import FLOAT32, L1, DataType, Memory
from ttmem.twin.operations.elementwise import has_padded_shard_rows
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, TensorHandle
from ttmem.twin.operations.pool_parallelization import Pooling
from ttmem.twin.operations.reductions import ResultPlacement, reduce_height
from ttmem.twin.operations.reshape import reshape
from ttmem.twin.operations.sliding_window import Window
from ttmem.twin.operations.to_layout import to_layout
from ttmem.twin.tensor_spec import ROW_MAJOR, TILE, Layout, Shard, TensorSpec

_TILE = 32
_TALL, _MOST_TILES = 16, 8
"""Heights in tiles from which a sum may be sliced; tiles per read."""


def is_whole_image(window: Window) -> bool:
    is_plain = window.dilation == (1, 1) and not any(window.padding)
    return is_plain and window.kernel == (window.height, window.width)


def is_summed(made: Pooling, source: TensorSpec) -> bool:
    """Return whether the library sums rows: images are equally large, and block floats are whole tiles."""
    if not (made.is_average and is_whole_image(made.window)):
        return False
    pixels, rows = made.window.height * made.window.width, prod(source.shape[:-1])
    if source.is_tiled:
        rows = prod(source.shape[:-2]) * round_up(source.shape[-2], _TILE)
    return rows % made.window.batch == 0 and (not source.dtype.is_block_float or pixels % _TILE == 0)


def average(call: Call, plan: PlanBuilder, made: Pooling) -> Plan:
    """Plan the average of an interleaved image: shards become interleaved, padded tiles become rows."""
    source, pixels = call.inputs[0], made.window.height * made.window.width
    memory, held = call.memory or source.memory, TensorHandle(-1, source)
    if source.shard is not None or source.memory is not memory:
        moved = _make_interleaved(plan, source, memory)
        if moved is None:
            return plan.unknown("averages of shards whose conversion to interleaved is not verified")
        held = moved
    if source.is_tiled and pixels % _TILE:
        held = plan.advance(to_layout, held, layout="row_major")
    image = plan.apply(reshape, held, shape=(made.window.batch, 1, pixels, made.channels))
    out, is_block = made.out_layout, image.spec.dtype.is_block_float
    # The layout that the sum is asked for; otherwise its result is converted.
    asked = out if (made.window.batch == 1 if out is TILE else not is_block) else None
    if image.spec.is_tiled:
        summed = reduce_height(plan, image, ResultPlacement(memory), image.spec.dtype, "sum", layout=asked or TILE)
    else:
        summed = _sum_rows(plan, image.spec, asked or ROW_MAJOR)
    if asked:
        summed = _convert_layout(plan, summed, asked)
    shape = (1, 1, made.window.batch, made.channels)
    summed = _convert_layout(plan, plan.advance(reshape, summed, shape=shape), out)
    plan.free(*{held.slot, image.slot})
    return plan.finish(summed.slot, summed.spec)


def _convert_layout(plan: PlanBuilder, held: TensorHandle, layout: Layout) -> TensorHandle:
    return plan.advance(to_layout, held, layout=layout.name)


def _make_interleaved(plan: PlanBuilder, source: TensorSpec, memory: Memory) -> TensorHandle | None:
    """Return the interleaved tensor; padded row-major shards lose their padding."""
    if source.memory is L1 and isinstance(source.shard, Shard) and has_padded_shard_rows(source):
        length = source.shard.width * source.element_bytes
        if length % plan.memory_map.architecture.l1_alignment_bytes == 0:
            pages = replace(source, shard=None, memory=memory)
            return TensorHandle(plan.allocate(pages), pages)
    moved = to_memory_config(Call("", (source,), {}, memory), plan).results
    return TensorHandle(*moved[0]) if moved else None


def _sum_rows(plan: PlanBuilder, image: TensorSpec, layout: Layout) -> TensorHandle:
    """Sum the rows; a tall image on few cores is summed in slices first."""
    batch, _, height, width = image.shape
    columns, tall, cores = batch * ceil_div(width, _TILE), ceil_div(height, _TILE), plan.memory_map.grid.cores
    slices = min(cores // columns, tall) if tall >= _TALL else 1
    if slices < 2:
        return _sum_once(plan, image, 1, image.dtype, layout)
    partial = _sum_once(plan, image, slices, FLOAT32, ROW_MAJOR)
    whole = _sum_once(plan, partial.spec, 1, image.dtype, layout)
    return plan.replace_tensor(partial, whole)


def _sum_once(plan: PlanBuilder, image: TensorSpec, slices: int, dtype: DataType, layout: Layout) -> TensorHandle:
    """Sum once: two tiles of rows, one to clear, those that are read, a number; the current sum, and two results."""
    result = replace(image, shape=(*image.shape[:2], slices, image.shape[3]), dtype=dtype, layout=layout)
    slot = plan.allocate(result)
    read = min(max(ceil_div(image.shape[2], _TILE), 2), _MOST_TILES)
    plan.launch([(4 + read) * image.tile_bytes, 3 * dtype.tile_bytes()])
    return TensorHandle(slot, result)
