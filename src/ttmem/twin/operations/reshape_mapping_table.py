# SPDX-License-Identifier: Apache-2.0
"""Size of the table of a reshape's copy: the segments of the output tile that needs the most.

A segment is a run that is contiguous in an input tile and in the output tile, where a tile is stored in faces of
16 x 16. A tile needs the segments of its worst input tile times the number of its input tiles; the table has the rows
of the worst output tile (plus that number modulo 16, as the library adds it).

A tensor has millions of tiles, but few distinct ones. Output tiles of one size begin at all input positions that are
congruent modulo one number; only the column of a position matters, and the distance to the next tile row; and where a
tile never crosses the end of an input row, only the column within an input tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import gcd
from typing import NamedTuple

import numpy as np

IntArray = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
Shape = tuple[int, int, int]

_TILE, _FACE = 32, 16
_BLOCK_ELEMENTS = 1 << 18
"""Elements, or cells of a histogram, that are processed together."""


@lru_cache(maxsize=4096)
def count_segments_per_tile(before: Shape, after: Shape) -> int:
    """Return the rows of the copy table per output tile, for 3-D shapes."""
    worst = max(_count_worst(size, before, after[2]) for size in _list_sizes(before, after))
    return worst + worst % 16


class _Size(NamedTuple):
    """Output tiles with the same number of used rows and columns."""

    rows: int
    columns: int
    residues: IntArray
    """The positions of an input channel, modulo ``step``, where these tiles begin."""
    step: int


def _list_sizes(before: Shape, after: Shape) -> Iterator[_Size]:
    """Yield up to four sizes: whole tiles, and those at the lower and the right edge.

    Channels of the output begin at all multiples of the greatest common divisor of both channels' elements, because the
    elements of the whole tensor are a multiple of both.
    """
    _, height, width = after
    step = gcd(height * width, before[1] * before[2])
    for tops, rows in _iterate_tiles(height):
        for lefts, columns in _iterate_tiles(width):
            places = (tops[:, None] * width % step + lefts[None, :]) % step
            yield _Size(rows, columns, np.unique(places), step)


def _iterate_tiles(length: int) -> Iterator[tuple[IntArray, int]]:
    """Yield the starts of tiles along a dimension and their used length: the whole tiles, then the last one."""
    whole, rest = divmod(length, _TILE)
    if whole:
        yield np.arange(whole, dtype=np.int64) * _TILE, _TILE
    if rest:
        yield np.array([whole * _TILE], dtype=np.int64), rest


class _Starts(NamedTuple):
    """Columns and rows of an input channel in which tiles of one size begin, as pairs; one of each kind."""

    column: IntArray
    row: IntArray


def _count_worst(size: _Size, before: Shape, out_width: int) -> int:
    _, in_height, in_width = before
    columns, first_rows, period = _find_columns(size, in_width)
    reach = (size.rows - 1) * out_width + size.columns
    crosses = columns + reach > in_width
    worst = 0
    if not crosses.all():
        inside = np.unique(columns[~crosses] % _TILE)
        worst = _count_exactly(size, _Starts(inside, np.zeros_like(inside)), (1, 1, in_width + _TILE), out_width)
    if not crosses.any():
        return worst
    column, first_row = columns[crosses], first_rows[crosses]
    if out_width % in_width == 0:
        # Every row of the tile begins in the same column: only its position in an input tile matters.
        column = np.where(column + size.columns <= in_width, column % _TILE, column)
    starts = _select_distinct_rows(
        column, first_row, period, in_height, (int(column.max()) + reach - 1) // in_width + 1
    )
    # A run may continue from one row of a face to the next, or from the end of a face to the next face.
    is_exceptional = size.columns == _FACE or (
        size.columns == _TILE and size.rows > _FACE and out_width - in_width in (0, _FACE)
    )
    judge = _count_exactly if is_exceptional else _count_by_cells
    for block in _split_blocks(starts, size.rows * size.columns if is_exceptional else 1):
        worst = max(worst, judge(size, block, before, out_width))
    return worst


def _find_columns(size: _Size, in_width: int) -> tuple[IntArray, IntArray, int]:
    """Return the columns congruent to a residue, and for each the first row that meets it, and the period."""
    common = gcd(size.step, in_width)
    period = size.step // common
    begin = size.residues % common
    columns = (begin[:, None] + np.arange(0, in_width, common, dtype=np.int64)[None, :]).ravel()
    if period == 1:
        columns = np.unique(columns)
        return columns, np.zeros_like(columns), 1
    inverse = pow(in_width // common, -1, period)
    residues = np.repeat(size.residues, in_width // common)
    return columns, (residues - columns) // common % period * inverse % period, period


def _select_distinct_rows(column: IntArray, first_row: IntArray, period: int, in_height: int, span: int) -> _Starts:
    """Return one row of each kind: by its position in a tile row; near the end of the channel every row."""
    column, first_row = np.divmod(np.unique(column * in_height + first_row), in_height)
    count = in_height // period
    numbers = np.arange(count, dtype=np.int64)
    is_even = in_height % _TILE == 0
    if is_even:
        numbers = numbers[:_TILE]
    elif count > 2 * _TILE + (near := span // period + 2):
        numbers = np.concatenate([numbers[:_TILE], numbers[-near:]])
    rows = first_row[:, None] + numbers[None, :] * period
    rows = np.where(is_even | (rows + span <= in_height), rows % _TILE, rows)
    return _Starts(*np.divmod(np.unique(column[:, None] * in_height + rows), in_height))


def _split_blocks(starts: _Starts, elements_each: int) -> Iterator[_Starts]:
    at_once = max(_BLOCK_ELEMENTS // elements_each, 1)
    for first in range(0, len(starts.column), at_once):
        yield _Starts(*(values[first : first + at_once] for values in starts))


def _count_by_cells(size: _Size, starts: _Starts, before: Shape, out_width: int) -> int:
    """Count segments once per column, by input row and input tile column; input tiles are sums of input rows."""
    columns, number = np.unique(starts.column, return_inverse=True)
    worst = 0
    at_once = max(_BLOCK_ELEMENTS // (size.rows * size.columns), 1)
    for first in range(0, len(columns), at_once):
        block = columns[first : first + at_once]
        chosen = (number >= first) & (number < first + len(block))
        cells = _Cells(size, block, before[2], out_width)
        for row in np.unique(starts.row[chosen]):
            worst = max(worst, cells.count_worst(number[chosen & (starts.row == row)] - first, int(row), before[1]))
    return worst


class _Cells:
    """The segments of tiles that begin in some columns, counted by input row and tile column."""

    def __init__(self, size: _Size, columns: IntArray, in_width: int, out_width: int) -> None:
        flat = _compute_places(size, columns, out_width)
        in_row = flat // in_width
        in_column = flat - in_row * in_width
        at_output = np.broadcast_to(_mark_output_begins(size, out_width)[None, :], flat.shape)
        at_input = in_column % _FACE == 0
        self._in_width = in_width
        self._rows, row = np.unique(in_row, return_inverse=True)
        across, tile = np.unique(in_column // _TILE, return_inverse=True)
        self._shape = len(columns), len(self._rows), len(across)
        cell = (np.arange(len(columns))[:, None] * len(self._rows) + row.reshape(flat.shape)) * len(across)
        cell += tile.reshape(flat.shape)
        self._segments = self._count(cell[at_output | at_input])
        self._at_row_ends: IntArray | None = None
        """Segments that begin only because an input row begins, where rows may follow each other in a tile."""
        if in_width in (_FACE, _TILE):
            self._at_row_ends = self._count(cell[(in_column == 0) & ~at_output])

    def count_worst(self, columns: IntArray, row: int, in_height: int) -> int:
        """Return the most segments among tiles that begin in these columns (by number) of an input row."""
        places = row + self._rows
        inside = places % in_height
        tile_row = places // in_height * -(-in_height // _TILE) + inside // _TILE
        segments = self._segments[columns]
        if self._at_row_ends is not None:
            goes_on = inside % _TILE == _FACE if self._in_width == _TILE else inside % _FACE != 0
            segments = segments - self._at_row_ends[columns] * goes_on[None, :, None]
        begins = np.flatnonzero(np.diff(tile_row, prepend=-1))
        by_page = np.add.reduceat(segments, begins, axis=1).reshape(len(columns), -1)
        return int((np.count_nonzero(by_page, axis=1) * by_page.max(axis=1)).max())

    def _count(self, cells: IntArray) -> IntArray:
        columns, rows, across = self._shape
        return np.bincount(cells, minlength=columns * rows * across).reshape(self._shape)


def _count_exactly(size: _Size, starts: _Starts, before: Shape, out_width: int) -> int:
    """Count segments by their definition, element by element."""
    _, in_height, in_width = before
    flat = _compute_places(size, starts.column, out_width)
    row = flat // in_width + starts.row[:, None]
    column = flat % in_width
    channel, row = row // in_height, row % in_height
    page = (channel * -(-in_height // _TILE) + row // _TILE) * -(-in_width // _TILE) + column // _TILE
    begins = np.ones(flat.shape, dtype=bool)
    begins[:, 1:] = (
        (np.diff(page) != 0)
        | (np.diff(_compute_tile_offsets(row, column)) != 1)
        | (np.diff(_compute_output_offsets(size)) != 1)[None, :]
    )
    number, at = np.nonzero(begins)
    pages, inverse = np.unique(page, return_inverse=True)
    keys, counts = np.unique(number * len(pages) + inverse.reshape(page.shape)[number, at], return_counts=True)
    owner = keys // len(pages)
    worst = np.zeros(len(flat), dtype=np.int64)
    np.maximum.at(worst, owner, counts)
    return int((worst * np.bincount(owner, minlength=len(flat))).max())


def _compute_places(size: _Size, columns: IntArray, out_width: int) -> IntArray:
    """Return the positions of each start's elements, counted from the beginning of its input row."""
    steps = np.arange(size.rows, dtype=np.int64)[:, None] * out_width + np.arange(size.columns, dtype=np.int64)[None, :]
    return columns[:, None] + steps.ravel()[None, :]


def _mark_output_begins(size: _Size, out_width: int) -> Flags:
    """Mark where runs begin in the output: at every row and in its middle, but not where the third face continues
    the second one."""
    begins: Flags = np.arange(size.rows * size.columns) % size.columns % _FACE == 0
    if out_width == size.columns == _TILE and size.rows > _FACE:
        begins[_FACE * _TILE] = False
    return begins


def _compute_output_offsets(size: _Size) -> IntArray:
    row, column = np.divmod(np.arange(size.rows * size.columns), size.columns)
    return _compute_tile_offsets(row, column)


def _compute_tile_offsets(row: IntArray, column: IntArray) -> IntArray:
    """Return the position of an element in its tile."""
    row, column = row % _TILE, column % _TILE
    return (row // _FACE * 2 + column // _FACE) * _FACE * _FACE + row % _FACE * _FACE + column % _FACE
