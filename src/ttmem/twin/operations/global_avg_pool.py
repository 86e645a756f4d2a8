# SPDX-License-Identifier: Apache-2.0
"""An average over the whole image: no window, but a sum of its rows."""

from dataclasses import replace
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import FLOAT32, L1, DataType, Memory
from ttmem.twin.operations.elementwise import has_longer_rows
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.plan import Call, Plan, PlanWriter
from ttmem.twin.operations.pool_parallelization import Pooling
from ttmem.twin.operations.reduced_shards import Place
from ttmem.twin.operations.reductions import down
from ttmem.twin.operations.reshape import reshape
from ttmem.twin.operations.sliding_window import Window
from ttmem.twin.operations.tensor_handle import Held, applied, replaced
from ttmem.twin.operations.to_layout import to_layout
from ttmem.twin.tensor_spec import ROW_MAJOR, TILE, Layout, Shard, TensorSpec

_TILE = 32
_TALL, _MOST_TILES = 16, 8
"""From so many rows of tiles on a sum may be cut in slices; so many tiles are read at once."""


def is_whole_image(window: Window) -> bool:
    is_plain = window.dilation == (1, 1) and not any(window.padding)
    return is_plain and window.kernel == (window.height, window.width)


def is_summed(made: Pooling, source: TensorSpec) -> bool:
    """Whether the library sums rows: tiles have to share out evenly, block floats to be whole tiles."""
    if not (made.is_average and is_whole_image(made.window)):
        return False
    pixels, rows = made.window.height * made.window.width, prod(source.shape[:-1])
    if source.is_tiled:
        rows = prod(source.shape[:-2]) * round_up(source.shape[-2], _TILE)
    return rows % made.window.batch == 0 and (not source.dtype.is_block_float or pixels % _TILE == 0)


def average(call: Call, plan: PlanWriter, made: Pooling) -> Plan:
    """Of pages: shards are made into such first, and tiles with padding into rows."""
    source, pixels = call.inputs[0], made.window.height * made.window.width
    memory, held = call.memory or source.memory, Held(-1, source)
    if source.shard is not None or source.memory is not memory:
        moved = _to_pages(plan, source, memory)
        if moved is None:
            return plan.give_up("averages of shards that become pages in a way that was not compared")
        held = moved
    if source.is_tiled and pixels % _TILE:
        held = replaced(plan, held, applied(plan, to_layout, held, layout="row_major"))
    image = applied(plan, reshape, held, shape=(made.window.batch, 1, pixels, made.channels))
    out, is_block = made.out_layout, image.spec.dtype.is_block_float
    # What is asked of the sum; otherwise its result changes as it comes.
    asked = out if (made.window.batch == 1 if out is TILE else not is_block) else None
    if image.spec.is_tiled:
        summed = down(plan, image, Place(memory), image.spec.dtype, "sum", layout=asked or TILE)
    else:
        summed = _sum_rows(plan, image.spec, asked or ROW_MAJOR)
    if asked:
        summed = _laid_out(plan, summed, asked)
    shape = (1, 1, made.window.batch, made.channels)
    summed = _laid_out(plan, replaced(plan, summed, applied(plan, reshape, summed, shape=shape)), out)
    plan.free(*{held.slot, image.slot})
    return plan.finish(summed.slot, summed.spec)


def _laid_out(plan: PlanWriter, held: Held, layout: Layout) -> Held:
    return replaced(plan, held, applied(plan, to_layout, held, layout=layout.name))


def _to_pages(plan: PlanWriter, source: TensorSpec, memory: Memory) -> Held | None:
    """Rows that are longer in their shards than the tensor says do not stay so for a sum."""
    if source.memory is L1 and isinstance(source.shard, Shard) and has_longer_rows(source):
        length = source.shard.width * source.element_bytes
        if length % plan.memory_map.architecture.l1_alignment_bytes == 0:
            pages = replace(source, shard=None, memory=memory)
            return Held(plan.allocate(pages), pages)
    moved = to_memory_config(Call("", (source,), {}, memory), plan).results
    return Held(*moved[0]) if moved else None


def _sum_rows(plan: PlanWriter, image: TensorSpec, layout: Layout) -> Held:
    """Where it is tall and few cores have work, the sums of slices come first."""
    batch, _, height, width = image.shape
    columns, tall, cores = batch * ceil_div(width, _TILE), ceil_div(height, _TILE), plan.memory_map.grid.cores
    slices = min(cores // columns, tall) if tall >= _TALL else 1
    if slices < 2:
        return _sum_once(plan, image, 1, image.dtype, layout)
    partial = _sum_once(plan, image, slices, FLOAT32, ROW_MAJOR)
    whole = _sum_once(plan, partial.spec, 1, image.dtype, layout)
    return replaced(plan, partial, whole)


def _sum_once(plan: PlanWriter, image: TensorSpec, slices: int, dtype: DataType, layout: Layout) -> Held:
    """Two tiles of rows, one to clear with, those that are read, a number; a sum so far, and two results."""
    result = replace(image, shape=(*image.shape[:2], slices, image.shape[3]), dtype=dtype, layout=layout)
    slot = plan.allocate(result)
    read = min(max(ceil_div(image.shape[2], _TILE), 2), _MOST_TILES)
    plan.launch([(4 + read) * image.tile_bytes, 3 * dtype.tile_bytes()])
    return Held(slot, result)
