# SPDX-License-Identifier: Apache-2.0
"""Repeats of shards: which are read and written where they lie, and how the library cuts a result itself."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ttmem.hardware import L1, Grid
from ttmem.twin.operations import result_shards
from ttmem.twin.operations.elementwise import has_padded_shard_rows, has_whole_shards
from ttmem.twin.placement import compute_paging
from ttmem.twin.tensor_spec import InvalidSpecError, Shard, TensorSpec


def holds_pages(spec: TensorSpec) -> bool:
    """Tiles or rows lie in it as a whole, and no shard is cut short, nor a row or column of cores of a block left out.
    What no shards can hold does not.
    """
    if spec.shard is None:
        return True
    try:
        is_even = has_whole_shards(spec) and not has_padded_shard_rows(spec)
    except InvalidSpecError:
        return False
    shard = spec.shard
    if not is_even or (isinstance(shard, Shard) and shard.kind == "block" and _leaves_cores(spec, shard)):
        return False
    return spec.is_tiled or shard.width == spec.shape[-1]


def _leaves_cores(spec: TensorSpec, shard: Shard) -> bool:
    paging, box = compute_paging(spec), result_shards.rectangle(shard)
    shards = paging.physical_height // shard.height, paging.physical_width // shard.width
    return box is None or shards != ((box.columns, box.rows) if shard.by_column else (box.rows, box.columns))


def lies_across(spec: TensorSpec) -> bool:
    """On more columns of cores than rows: the library leaves longer rows to the cores themselves there."""
    box = result_shards.rectangle(spec.shard) if isinstance(spec.shard, Shard) else None
    return box is not None and box.columns > box.rows


def is_block_by_column(spec: TensorSpec) -> bool:
    return isinstance(spec.shard, Shard) and spec.shard.kind == "block" and spec.shard.by_column


def is_repeated_in_place(source: TensorSpec, wanted: TensorSpec, times: Sequence[int]) -> bool:
    """Along one dimension, each core for itself: what is repeated lies in one shard of L1, and so does the result."""
    shard, after = source.shard, wanted.shard
    repeated = [axis for axis, number in enumerate(times) if number > 1]
    if len(repeated) != 1 or not isinstance(shard, Shard) or source.memory is not L1:
        return False
    if not has_whole_shards(source) or (source.is_tiled and _has_padding(source)):
        return False
    if isinstance(after, Shard) and (
        wanted.memory is not L1 or (after.kind, after.ranges) != (shard.kind, shard.ranges)
    ):
        return False
    (axis,) = repeated
    if axis == len(times) - 1:
        return source.is_tiled or shard.kind == "height"
    *outer, _ = source.padded
    return shard.height % prod(outer[axis:]) == 0


def _has_padding(source: TensorSpec) -> bool:
    return any(size % 32 for size in source.shape[-2:])


def chosen(source: TensorSpec, times: Sequence[int], shape: tuple[int, ...], grid: Grid) -> Shard | None:
    """Those of the input, longer, where each core repeats its own; else the whole grid is dealt anew. None: pages."""
    shard = source.shard
    assert isinstance(shard, Shard)
    if is_repeated_in_place(source, replace(source, shard=None), times):
        number = prod(times)
        if times[-1] > 1:
            return replace(shard, width=shard.width * number)
        return replace(shard, height=shard.height * number)
    return result_shards.of_whole_grid(replace(source, shape=shape), shard.kind, grid, by_column=shard.by_column)
