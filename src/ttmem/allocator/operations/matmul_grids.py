# SPDX-License-Identifier: Apache-2.0
"""The config that the library makes for a product of matrices when the caller names the cores (`core_grid`)."""

from ttmem.allocator.operations.matmul_blocks import Product, largest_fitting
from ttmem.allocator.operations.matmul_configs import GRID, LINE, REUSE, Config, UnknownConfigError
from ttmem.hardware.boards import Grid

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
        own = (-(-height // cores), work.width) if is_tall else (height, -(-work.width // cores))
        depth = _divisor(work.depth, -(-work.depth // cores))
        block = largest_fitting(*own, [depth], fits)
        return Config(
            *(LINE, depth, *own, grid.columns, grid.rows, 1, 1, block[0], block[1]), spreads_first=not is_tall
        )
    own = -(-height // grid.rows), -(-work.width // grid.columns)
    depth = _divisor(work.depth, _DEEPEST)
    block = largest_fitting(*own, [depth], fits)
    return Config(GRID, depth, *own, grid.columns, grid.rows, 1, 1, block[0], block[1])


def _divisor(number: int, most: int) -> int:
    """The largest up to that."""
    return next(size for size in range(most, 0, -1) if number % size == 0)
