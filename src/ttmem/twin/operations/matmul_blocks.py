# SPDX-License-Identifier: Apache-2.0
"""The library's choice of program and block size for a matrix product.

It depends on the shapes, on whether everything is in DRAM, and on the free L1: blocks are as large as the library's own
estimate of their buffers allows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT16, FLOAT32, DataType
from ttmem.twin.tensor_spec import TensorSpec

SIMPLE = "simple"
"""Each core computes one tile after the other on its own."""
ROW = "row"
"""A line of cores that all get the first input and share the columns."""
COLUMN = "column"
"""A line of cores that all get the second input and share the rows."""
GRID = "grid"
"""A grid of cores that share rows and columns."""

_NARROW = 8
"""A result more than this many times longer in one direction is computed along a line of cores."""
_LARGEST_BLOCK = 16


@dataclass(frozen=True, slots=True)
class Sums:
    """The accumulation of a product over the blocks of its depth."""

    in_float32: bool
    in_l1: bool
    """The packer accumulates in L1, in at least two bytes."""

    def choose_partial_dtype(self, result: DataType, steps: int) -> DataType:
        """Return the type of the partial sums."""
        if self.in_float32:
            return FLOAT32
        return BFLOAT16 if self.in_l1 and steps > 1 else result


@dataclass(frozen=True, slots=True)
class Product:
    """A product as the choice sees it, its inputs as they are multiplied; sizes in tiles."""

    height: int
    depth: int
    width: int
    first_batch: int
    second_batch: int
    first: DataType
    second: DataType
    result: DataType
    bias: DataType | None
    """The type of a bias that the program itself adds."""
    is_first_transposed: bool
    all_in_dram: bool
    sums: Sums

    @property
    def spreads_first(self) -> bool:
        """Return whether one first matrix is multiplied with a batch of second ones."""
        return self.first_batch == 1 < self.second_batch

    def estimate(self, height: int, width: int, depth: int) -> int:
        """Return the library's estimate of a block's bytes; it counts the result in tiles of the first input."""
        first, second = self.first.tile_bytes(), self.second.tile_bytes()
        inner = (FLOAT32 if self.sums.in_float32 else max(BFLOAT16, self.result, key=DataType.tile_bytes)).tile_bytes()
        reads = 2 * height * depth * first * (2 if self.is_first_transposed else 1) + 2 * width * depth * second
        added = width * self.bias.tile_bytes() if self.bias else 0
        return reads + height * width * (first + inner) + added


@dataclass(frozen=True, slots=True)
class Blocks:
    """The chosen program and the tiles of a block."""

    kind: str
    height: int = 1
    width: int = 1
    depth: int = 1
    kept_height: int = 0
    """Rows of tiles of the first input that a core keeps for the whole batch."""


def build_product(
    first: TensorSpec,
    second: TensorSpec,
    result: TensorSpec,
    *,
    transposed: tuple[bool, bool],
    bias: TensorSpec | None,
    sums: Sums,
) -> Product:
    """Build a product from its stored inputs and their transpose flags."""
    height, depth = (ceil_div(size, 32) for size in transpose_shape(first.shape, transposed[0])[-2:])
    width = ceil_div(transpose_shape(second.shape, transposed[1])[-1], 32)
    return Product(
        height,
        depth,
        width,
        prod(first.shape[:-2]),
        prod(second.shape[:-2]),
        first.dtype,
        second.dtype,
        result.dtype,
        bias.dtype if bias else None,
        transposed[0],
        {spec.memory.name for spec in (first, second, result)} == {"DRAM"},
        sums,
    )


def transpose_shape(shape: tuple[int, ...], is_transposed: bool = True) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if is_transposed else shape


@lru_cache(maxsize=4096)
def choose_blocks(work: Product, columns: int, rows: int, space: int) -> Blocks:
    """Return the library's choice for a grid of cores, with ``space`` bytes free below the lowest tensor of L1."""
    cores = columns * rows

    def fits(height: int, width: int, depth: int) -> bool:
        return work.estimate(height, width, depth) < space

    sizes = (_LARGEST_BLOCK >> shift for shift in range(4))
    factor = next((size for size in sizes if fits(size, size, 2)), 1)
    down, across = ceil_div(work.height, factor), ceil_div(work.width, factor)
    depth = 1 if (down > 1 or across > 1) and work.depth % 2 else 2
    if not work.all_in_dram and not (down * across <= cores and work.depth % depth == 0):
        return Blocks(SIMPLE)
    is_wide, is_tall = _is_narrow(work)
    is_inside = (down, across) != (1, 1) and down <= rows and across <= columns
    line_depth = 1 if work.depth % 2 else 2
    if not work.spreads_first and (is_wide or (is_inside and down == 1 and not work.all_in_dram)):
        width = ceil_div(work.width, cores)
        block = find_largest_block(work.height, width, [line_depth], fits)
        return Blocks(ROW, block[0], block[1], line_depth)
    if is_tall or work.spreads_first or (is_inside and across == 1 and not work.all_in_dram):
        height = ceil_div(work.height, cores)
        block = find_largest_block(height, work.width, [line_depth], fits)
        return Blocks(COLUMN, block[0], block[1], line_depth, height if work.spreads_first else 0)
    if work.all_in_dram:
        depth = 1 if work.depth % columns else work.depth // columns
        return Blocks(
            GRID, *find_largest_block(ceil_div(work.height, rows), ceil_div(work.width, columns), [depth], fits, True)
        )
    return Blocks(GRID, factor, factor, depth) if is_inside else Blocks(SIMPLE)


def _is_narrow(work: Product) -> tuple[bool, bool]:
    """Return whether the result is much wider than high, and the reverse; in DRAM a single row of tiles is enough."""
    small, large = sorted((work.height, work.width))
    if large // small <= _NARROW and not (work.all_in_dram and small == 1):
        return False, False
    return work.width > work.height, work.width <= work.height


def find_largest_block(
    height: int, width: int, depths: list[int], fits: Callable[[int, int, int], bool], shrinks: bool = False
) -> tuple[int, int, int]:
    """Return the largest block that divides the core's work and fits; among equal ones the one nearest to a square.

    With ``shrinks`` shallower blocks are tried before those of fewer tiles.
    """
    depth = depths[0]
    if fits(height, width, depth):
        return height, width, depth
    if shrinks:
        depths = [divisor for divisor in range(depth, 0, -1) if depth % divisor == 0]
    by_tiles: dict[int, tuple[int, int]] = {}
    for high in _list_divisors(height):
        for wide in _list_divisors(width):
            known = by_tiles.get(high * wide)
            if known is None or _compute_ratio(*known) >= _compute_ratio(high, wide):
                by_tiles[high * wide] = high, wide
    for tiles in sorted(by_tiles, reverse=True):
        for deep in depths:
            if fits(*by_tiles[tiles], deep):
                return (*by_tiles[tiles], deep)
    return 1, 1, 1


def _list_divisors(number: int) -> list[int]:
    """Return the divisors in the library's order, with 1 second: among equally square blocks the later one wins."""
    return [number, 1, *(divisor for divisor in range(number // 2, 1, -1) if number % divisor == 0)]


def _compute_ratio(high: int, wide: int) -> float:
    return max(high, wide) / min(high, wide)


def compute_buffers(work: Product, blocks: Blocks, alignment: int) -> list[int]:
    """Return the chosen program's buffers: inputs, result, partial sums, bias, the first input transposed.

    Inputs of more than one block are double buffered.
    """
    first, second = (round_up(dtype.tile_bytes(), alignment) for dtype in (work.first, work.second))
    result = work.result.tile_bytes()
    if blocks.kind == SIMPLE:
        return [2 * first, 2 * second, 2 * result]
    steps = work.depth // blocks.depth
    batches = (work.first_batch, work.first_batch if blocks.kind == GRID else work.second_batch)
    first_copies, second_copies = (2 if batch * steps > 1 else 1 for batch in batches)
    read = first_copies * blocks.height * blocks.depth * first
    if blocks.kept_height:
        read = blocks.kept_height * work.depth * first
    tiles = blocks.height * blocks.width
    buffers = [read, second_copies * blocks.width * blocks.depth * second, tiles * result]
    if (between := work.sums.choose_partial_dtype(work.result, steps)) is not work.result:
        buffers.append(tiles * between.tile_bytes())
    if work.bias is not None:
        buffers.append(blocks.width * ceil_div(work.bias.tile_bytes(), alignment) * alignment)
    if work.is_first_transposed:
        buffers.append(read)
    return buffers
