# SPDX-License-Identifier: Apache-2.0
"""The config that the library makes for a product of matrices when the caller names the cores (`core_grid`)."""

from math import gcd

from ttmem.base.arithmetic import ceil_div
from ttmem.hardware.boards import Grid
from ttmem.twin.operations.matmul_blocks import Product, largest_fitting
from ttmem.twin.operations.matmul_configs import GRID, LINE, REUSE, Config, UnknownConfigError
from ttmem.twin.tensor_spec import Shard

_NARROW = 8
_DEEPEST = 4
"""Tiles along the shared dimension that a grid works on at a time, if they divide it."""


def config_for(work: Product, grid: Grid, space: int) -> Config:
    """On so many cores, with so many bytes left below the lowest tensor of L1."""

    def fits(height: int, width: int, depth: int) -> bool:
        return work.estimate(height, width, depth) < space

    if work.second_batch > 1:
        if not fits(work.height, work.width, 1):
            raise UnknownConfigError("a core_grid, and batches of which one does not fit")
        return Config(
            *(REUSE, 1, work.height, work.width, grid.columns, grid.rows, 1, 1, work.height, work.width),
            joins_batches=False,
        )
    height, cores = work.first_batch * work.height, grid.columns * grid.rows
    small, large = sorted((height, work.width))
    if large // small > _NARROW or 1 in (work.height, work.width, work.depth):
        is_tall = height > work.width
        own = (ceil_div(height, cores), work.width) if is_tall else (height, ceil_div(work.width, cores))
        depth = _divisor(work.depth, ceil_div(work.depth, cores))
        block = largest_fitting(*own, [depth], fits)
        return Config(
            *(LINE, depth, *own, grid.columns, grid.rows, 1, 1, block[0], block[1]), spreads_first=not is_tall
        )
    own = ceil_div(height, grid.rows), ceil_div(work.width, grid.columns)
    depth = _divisor(work.depth, _DEEPEST)
    block = largest_fitting(*own, [depth], fits)
    return Config(GRID, depth, *own, grid.columns, grid.rows, 1, 1, block[0], block[1])


def config_of_shards(work: Product, shard: Shard, grid: Grid, *, cuts_result: bool, space: int) -> Config:
    """The one that the library makes when the first input is in shards: their cores, and blocks of their size.

    On a single row or column of cores blocks are shared out over all of the ``grid``.
    """

    def fits(height: int, width: int, depth: int) -> bool:
        shards = height * (shard.width // 32) * work.first.tile_bytes()
        return work.estimate(height, width, depth) + shards < space

    across = max(part.end_x for part in shard.ranges) - min(part.start_x for part in shard.ranges) + 1
    down = max(part.end_y for part in shard.ranges) - min(part.start_y for part in shard.ranges) + 1
    high, deep, height = shard.height // 32, shard.width // 32, work.first_batch * work.height
    if work.second_batch > 1:
        if shard.kind == "width" or high > work.height:
            raise UnknownConfigError("batches in width shards, or several of them in one")
        own = high, work.width
        return Config(REUSE, deep, *own, across, down, 1, 1, *own, joins_batches=False)
    if shard.kind == "block":
        if 1 in (across, down):
            own, depth = (high, max(work.width * deep // work.depth, 1)), gcd(deep, work.depth)
            block = largest_fitting(*own, [depth], fits)
            size = grid.columns, grid.rows
            return Config(GRID, depth, *own, *size, 1, 1, block[0], block[1], by_columns=shard.by_column)
        wide, tall = (down, across) if shard.by_column else (across, down)
        if wide != ceil_div(work.depth, deep) or tall != ceil_div(height, high):
            raise UnknownConfigError("blocks that some of their cores have none of")
        depth = gcd(deep, work.depth) if wide == work.depth // deep else 1
        own = ceil_div(height, tall), ceil_div(work.width, wide)
        block = largest_fitting(*own, [depth], fits)
        return Config(GRID, depth, *own, across, down, 1, 1, block[0], block[1], by_columns=shard.by_column)
    if shard.by_column:
        raise UnknownConfigError("shards by column")
    spreads = shard.kind == "width"
    own = (height, ceil_div(work.width, shard.cores)) if spreads else (high, work.width)
    depth = gcd(deep, work.depth) if spreads else work.depth
    block = largest_fitting(*own, [depth], fits)
    block_height = 1 if cuts_result and block[1] != own[1] else block[0]
    return Config(LINE, depth, *own, across, down, 1, 1, block_height, block[1], spreads_first=spreads)


def _divisor(number: int, most: int) -> int:
    """The largest up to that."""
    return next(size for size in range(most, 0, -1) if number % size == 0)
