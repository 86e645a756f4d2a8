# SPDX-License-Identifier: Apache-2.0
"""How the library cuts a product of matrices into blocks: the kind of program it takes, and the tiles of a block.

It looks at the shapes, at whether everything lies in DRAM, and at what is left of L1: blocks are made as large as its
own estimate of their buffers allows.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT16, FLOAT32, DataType
from ttmem.twin.tensor_spec import TensorSpec

SIMPLE = "simple"
"""One tile after the other, every core on its own."""
ROW = "row"
"""The first input goes to all cores of a line, which share the columns."""
COLUMN = "column"
"""The second input goes to all, and the cores share the rows."""
GRID = "grid"
"""Rows and columns are both shared out over the grid."""

_NARROW = 8
"""A result so many times as long in one direction as in the other is computed along a line of cores."""
_LARGEST_BLOCK = 16


@dataclass(frozen=True, slots=True)
class Sums:
    """How a product adds up over the blocks of its depth."""

    in_float32: bool
    in_l1: bool
    """The packer adds to what lies in L1 already, in two bytes at least."""

    def between(self, result: DataType, steps: int) -> DataType:
        """Of the partial sums."""
        if self.in_float32:
            return FLOAT32
        return BFLOAT16 if self.in_l1 and steps > 1 else result


@dataclass(frozen=True, slots=True)
class Product:
    """What the choice depends on, of two inputs as they are multiplied; sizes in tiles."""

    height: int
    depth: int
    width: int
    first_batch: int
    second_batch: int
    first: DataType
    second: DataType
    result: DataType
    bias: DataType | None
    """Of a bias that the program itself adds."""
    is_first_transposed: bool
    all_in_dram: bool
    sums: Sums

    @property
    def spreads_first(self) -> bool:
        """One first matrix for a batch of second ones."""
        return self.first_batch == 1 < self.second_batch

    def estimate(self, height: int, width: int, depth: int) -> int:
        """Bytes that the library reckons with for a block; the result is counted in tiles of the first input."""
        first, second = self.first.tile_bytes(), self.second.tile_bytes()
        inner = (FLOAT32 if self.sums.in_float32 else max(BFLOAT16, self.result, key=DataType.tile_bytes)).tile_bytes()
        reads = 2 * height * depth * first * (2 if self.is_first_transposed else 1) + 2 * width * depth * second
        added = width * self.bias.tile_bytes() if self.bias else 0
        return reads + height * width * (first + inner) + added


@dataclass(frozen=True, slots=True)
class Blocks:
    """The choice: which program, and the tiles of a block."""

    kind: str
    height: int = 1
    width: int = 1
    depth: int = 1
    kept_height: int = 0
    """Rows of tiles of the first input that a core keeps for the whole batch."""


def product_of(
    first: TensorSpec,
    second: TensorSpec,
    result: TensorSpec,
    *,
    transposed: tuple[bool, bool],
    bias: TensorSpec | None,
    sums: Sums,
) -> Product:
    """The inputs as they lie, and which of them are multiplied as if transposed."""
    height, depth = (ceil_div(size, 32) for size in _turned(first.shape, transposed[0])[-2:])
    width = ceil_div(_turned(second.shape, transposed[1])[-1], 32)
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


def _turned(shape: tuple[int, ...], is_transposed: bool) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if is_transposed else shape


@lru_cache(maxsize=4096)
def choose_blocks(work: Product, columns: int, rows: int, space: int) -> Blocks:
    """What the library takes on a grid of so many cores, with so many bytes left below the lowest tensor of L1."""
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
        block = largest_fitting(work.height, width, [line_depth], fits)
        return Blocks(ROW, block[0], block[1], line_depth)
    if is_tall or work.spreads_first or (is_inside and across == 1 and not work.all_in_dram):
        height = ceil_div(work.height, cores)
        block = largest_fitting(height, work.width, [line_depth], fits)
        return Blocks(COLUMN, block[0], block[1], line_depth, height if work.spreads_first else 0)
    if work.all_in_dram:
        depth = 1 if work.depth % columns else work.depth // columns
        return Blocks(
            GRID, *largest_fitting(ceil_div(work.height, rows), ceil_div(work.width, columns), [depth], fits, True)
        )
    return Blocks(GRID, factor, factor, depth) if is_inside else Blocks(SIMPLE)


def _is_narrow(work: Product) -> tuple[bool, bool]:
    """Whether the result is much wider than high, or the contrary; in DRAM a single row of tiles is enough."""
    small, large = sorted((work.height, work.width))
    if large // small <= _NARROW and not (work.all_in_dram and small == 1):
        return False, False
    return work.width > work.height, work.width <= work.height


def largest_fitting(
    height: int, width: int, depths: list[int], fits: Callable[[int, int, int], bool], shrinks: bool = False
) -> tuple[int, int, int]:
    """The largest block that divides the core's work and fits; the squarest of those with equally many tiles.

    With ``shrinks`` a shallower block is tried before one of fewer tiles.
    """
    depth = depths[0]
    if fits(height, width, depth):
        return height, width, depth
    if shrinks:
        depths = list(_divisors(depth))
    by_tiles: dict[int, tuple[int, int]] = {}
    for high in _in_the_library_s_order(height):
        for wide in _in_the_library_s_order(width):
            known = by_tiles.get(high * wide)
            if known is None or _ratio(*known) >= _ratio(high, wide):
                by_tiles[high * wide] = high, wide
    for tiles in sorted(by_tiles, reverse=True):
        for deep in depths:
            if fits(*by_tiles[tiles], deep):
                return (*by_tiles[tiles], deep)
    return 1, 1, 1


def _divisors(number: int) -> Iterator[int]:
    return (divisor for divisor in range(number, 0, -1) if number % divisor == 0)


def _in_the_library_s_order(number: int) -> list[int]:
    """All divisors, 1 right after the number itself: of two equally square blocks the later one is taken."""
    return [number, 1, *(divisor for divisor in range(number // 2, 1, -1) if number % divisor == 0)]


def _ratio(high: int, wide: int) -> float:
    return max(high, wide) / min(high, wide)


def static_buffers(work: Product, blocks: Blocks, alignment: int) -> list[int]:
    """Of the chosen program, in order: inputs, result, partial sums, bias, the first input transposed.

    Inputs are double buffered where more than one block of them passes.
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
    if (between := work.sums.between(work.result, steps)) is not work.result:
        buffers.append(tiles * between.tile_bytes())
    if work.bias is not None:
        buffers.append(blocks.width * ceil_div(work.bias.tile_bytes(), alignment) * alignment)
    if work.is_first_transposed:
        buffers.append(read)
    return buffers
