# SPDX-License-Identifier: Apache-2.0
"""The size of a reshape's table: worked out from the few tiles that differ, and by its definition from every tile."""

import random
from collections.abc import Iterator
from math import prod

import numpy as np
import pytest

from ttmem.twin.operations.reshape_mapping_table import count_segments_per_tile

Shape = tuple[int, int, int]
SIZES = (
    1,
    2,
    3,
    5,
    7,
    8,
    12,
    15,
    16,
    17,
    20,
    24,
    31,
    32,
    33,
    40,
    48,
    49,
    64,
    80,
    96,
    100,
    112,
    128,
    144,
    160,
    240,
    250,
)
MOST_TILES = 400


def by_definition(before: Shape, after: Shape) -> int:
    worst = max(segments(before, after, *tile) for tile in tiles(after))
    return worst + worst % 16


def tiles(after: Shape) -> Iterator[tuple[int, int, int]]:
    channels, height, width = after
    for channel in range(channels):
        for top in range(0, height, 32):
            for left in range(0, width, 32):
                yield channel * height * width + top * width + left, min(32, height - top), min(32, width - left)


def segments(before: Shape, after: Shape, start: int, rows: int, columns: int) -> int:
    """Runs that are contiguous in an input tile and in this output tile: those of the worst input tile, times tiles."""
    _, in_height, in_width = before
    row, column = np.divmod(np.arange(rows * columns), columns)
    channel, inside = np.divmod(start + row * after[2] + column, in_height * in_width)
    in_row, in_column = np.divmod(inside, in_width)
    page = (channel * -(-in_height // 32) + in_row // 32) * -(-in_width // 32) + in_column // 32
    begins = np.ones(len(row), dtype=bool)
    begins[1:] = (np.diff(page) != 0) | (np.diff(stored(in_row, in_column)) != 1) | (np.diff(stored(row, column)) != 1)
    counts = np.unique(page[begins], return_counts=True)[1]
    return int(counts.max() * len(counts))


def stored(row: np.ndarray, column: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """A tile is four faces of 16 x 16."""
    row, column = row % 32, column % 32
    return (row // 16 * 2 + column // 16) * 256 + row % 16 * 16 + column % 16


def drawn(seed: int) -> Iterator[tuple[Shape, Shape]]:
    """Shapes of as many elements, with few enough tiles for the definition."""
    choose = random.Random(seed)
    while True:
        before = choose.choice((1, 1, 2, 3, 4, 6, 9, 32)), choose.choice(SIZES), choose.choice(SIZES)
        divisors = [size for size in range(1, min(prod(before), 1000) + 1) if prod(before) % size == 0]
        width = choose.choice(divisors)
        height = choose.choice([size for size in divisors if prod(before) // width % size == 0])
        after = prod(before) // width // height, height, width
        if after[0] * -(-height // 32) * -(-width // 32) <= MOST_TILES:
            yield before, after


@pytest.mark.parametrize("seed", range(4))
def test_few_tiles_tell_what_all_would(seed: int) -> None:
    for _, (before, after) in zip(range(60), drawn(seed), strict=False):
        assert count_segments_per_tile(before, after) == by_definition(before, after), (before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, 31, 64), (1, 31, 64)),  # the third face follows the second one, in both tiles
        ((9, 48, 32), (3, 96, 48)),  # rows of a face follow each other where the widths differ by one face
        ((4, 112, 33), (1, 462, 32)),  # output tiles side by side with themselves
        ((9, 250, 16), (45, 25, 32)),  # input rows of one face
        ((6, 49, 32), (3, 112, 28)),  # input rows of one tile
        ((4, 20, 144), (8, 10, 144)),  # the last output tiles are one face wide
        ((3, 45, 45), (1, 3, 2025)),  # nothing in common
        ((2, 10, 1), (1, 1, 20)),
    ],
)
def test_where_rows_of_a_tile_follow_each_other(before: Shape, after: Shape) -> None:
    assert count_segments_per_tile(before, after) == by_definition(before, after)


def test_shapes_with_millions_of_tiles_are_worked_out_too() -> None:
    # a row per channel: 12 pieces of 64, of which one tile takes 12 halves, each in an input tile of its own
    assert count_segments_per_tile((1, 1 << 22, 768), (1 << 22, 12, 64)) == count_segments_per_tile(
        (1, 64, 768), (64, 12, 64)
    )
