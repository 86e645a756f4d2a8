# SPDX-License-Identifier: Apache-2.0
"""What other operations do on their way: fill the unused part of tiles, copy between memories and layouts."""

from dataclasses import replace
from math import gcd, prod

from ttmem.hardware import BFLOAT16
from ttmem.twin.operations.elementwise import cast, double_buffered_rows, double_buffered_tiles
from ttmem.twin.operations.plan import PlanWriter
from ttmem.twin.paging import paging_of
from ttmem.twin.programs import CIRCULAR, DATAFLOW
from ttmem.twin.tensor_spec import TensorSpec

_LONGEST_ROW_BYTES = 1 << 18
"""Longer ones are copied to another place in parts of so many bytes."""


def has_tile_padding(spec: TensorSpec) -> bool:
    height, width = (1, 1, *spec.shape)[-2:]
    return bool(height % spec.tile.height or width % spec.tile.width)


def fill_padding(plan: PlanWriter, spec: TensorSpec) -> int:
    """Write a value into the unused part of the last tiles, if any: in place, or for block floats through bfloat16.

    Returns the slot of the filled tensor, -1 when it is the input itself.
    """
    if not has_tile_padding(spec):
        return -1
    plain = replace(spec, dtype=BFLOAT16) if spec.dtype.is_block_float else spec
    copy = cast(plan, spec, plain) if plain is not spec else 0
    fill_in_place(plan, plain)
    if plain is spec:
        return -1
    slot = cast(plan, plain, spec)
    plan.free(copy)
    return slot


def fill_in_place(plan: PlanWriter, spec: TensorSpec) -> None:
    height, width = (1, 1, *spec.shape)[-2:]
    tile = spec.dtype.tile_bytes(spec.tile)
    masks = [tile] * (bool(height % spec.tile.height) + bool(width % spec.tile.width))
    plan.launch([2 * tile, *masks, 2 * tile])


def copy_between(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> int:
    """The same pages in a new buffer."""
    slot = plan.allocate(result)
    launch_copy(plan, source, result)
    return slot


def launch_copy(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> None:
    """Rows that go to another place pass through one that is not aligned; within one another kernel copies."""
    stays = (source.memory, source.shard) == (result.memory, result.shard)
    if source.is_tiled:
        buffers = double_buffered_tiles(*([source] if source.dtype is result.dtype else [source, result]))
    elif stays:
        buffers = double_buffered_rows(plan, result, result)
    elif part := _part_of_few_rows(plan, source, result):
        buffers = [2 * part]
    else:
        rows = double_buffered_rows(plan, result, result)
        buffers = [min(2 * _LONGEST_ROW_BYTES, *rows), min(_LONGEST_ROW_BYTES, paging_of(source).page_bytes)]
    plan.launch(buffers, CIRCULAR if stays and source.dtype is result.dtype else DATAFLOW)


def _part_of_few_rows(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> int:
    """Fewer rows than there are cores are dealt out in parts, the longest that pages of both sides are made of;
    0 where such would not be aligned, or is a whole row."""
    part = gcd(paging_of(source).page_bytes, paging_of(result).page_bytes)
    alignment = max(plan.memory_map.page_alignment_bytes(spec.memory) for spec in (source, result))
    row_bytes = source.shape[-1] * source.element_bytes
    is_dealt = prod(source.shape[:-1]) < plan.memory_map.grid.cores and part % alignment == 0 and part < row_bytes
    return part if is_dealt else 0
