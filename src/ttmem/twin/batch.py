# SPDX-License-Identifier: Apache-2.0
"""A million specs at once, for sweeps: the rules of `place` over numpy columns.

Interleaved tensors and height, width or block shards on a grid that starts at core (0, 0), in 32 x 32 tiles; anything
else takes the scalar path. Invalid specs are marked, not explained: `place` gives the library's reason for one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ttmem.base.errors import BadInputError
from ttmem.hardware import DRAM, L1_SMALL, TRACE, DataType, Memory, MemoryMap
from ttmem.twin.tensor_spec import TILE, Layout, Shard, TensorSpec

if TYPE_CHECKING:
    IntColumn = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    BoolColumn = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

_KINDS = ("interleaved", "height", "width", "block")
_MAX_ELEMENTS = 1 << 48
"""Times the bytes of a padded element (4,096 at most), this stays below 2^62."""
_CHUNK_ROWS = 1 << 14


@dataclass(frozen=True, slots=True)
class ShardTable:
    """Shard columns; `kind` 0 is interleaved, then height, width, block as 1, 2, 3."""

    kind: IntColumn
    height: IntColumn
    width: IntColumn
    columns: IntColumn
    grid_rows: IntColumn
    by_column: BoolColumn

    def rows(self, start: int, end: int) -> ShardTable:
        return ShardTable(*(getattr(self, field.name)[start:end] for field in fields(self)))


@dataclass(frozen=True, slots=True)
class SpecTable:
    """Specs as columns: shapes aligned to the right (missing leading dimensions are 1) and their ranks."""

    shapes: IntColumn
    ranks: IntColumn
    dtypes: tuple[DataType, ...]
    dtype: IntColumn
    """Index into `dtypes`."""
    is_tile: BoolColumn
    memory: Memory
    shards: ShardTable | None = None

    def __len__(self) -> int:
        return len(self.ranks)

    def rows(self, start: int, end: int) -> SpecTable:
        """A part of the table, as views."""
        columns = {name: getattr(self, name)[start:end] for name in ("shapes", "ranks", "dtype", "is_tile")}
        return replace(self, shards=self.shards and self.shards.rows(start, end), **columns)


@dataclass(frozen=True, slots=True)
class PlacementTable:
    """As `Placement`, column by column; the figures of an invalid row are 0."""

    is_valid: BoolColumn
    page_bytes: IntColumn
    aligned_page_bytes: IntColumn
    pages: IntColumn
    banks: IntColumn
    bytes_per_bank: IntColumn
    taken_bytes_per_bank: IntColumn
    total_bytes: IntColumn
    fits_empty: BoolColumn


def table_of(
    shapes: Sequence[Sequence[int]] | IntColumn,
    dtype: DataType | Sequence[DataType],
    layout: Layout | Sequence[Layout],
    memory: Memory,
    shards: Sequence[Shard | None] | None = None,
) -> SpecTable:
    """A table from shapes (an array of one rank, or a list of any) with one type and layout for all, or one per row."""
    if isinstance(shapes, np.ndarray):
        if shapes.ndim != 2:
            raise BadInputError("an array of shapes has one row per tensor")
        columns = np.ascontiguousarray(shapes, dtype=np.int64)
        ranks = _same(columns.shape[1], len(columns))
    else:
        ranks = np.fromiter((len(shape) for shape in shapes), dtype=np.int64, count=len(shapes))
        widest = max(int(ranks.max(initial=0)), 2)
        columns = np.ones((len(shapes), widest), dtype=np.int64)
        for rank in np.unique(ranks):
            if rank:
                rows = np.flatnonzero(ranks == rank)
                columns[rows, widest - rank :] = np.array([shapes[int(row)] for row in rows], dtype=np.int64)
    if columns.shape[1] < 2:
        columns = np.concatenate([np.ones((len(columns), 2 - columns.shape[1]), dtype=np.int64), columns], axis=1)
    count = len(columns)
    if isinstance(dtype, DataType):
        index, codes = {dtype: 0}, _same(0, count)
    else:
        index = {d: i for i, d in enumerate(dict.fromkeys(dtype))}
        codes = np.fromiter((index[d] for d in dtype), dtype=np.int64, count=count)
    if isinstance(layout, Layout):
        is_tile = np.broadcast_to(np.bool_(layout is TILE), count)
    else:
        is_tile = np.fromiter((one is TILE for one in layout), dtype=bool, count=count)
    return SpecTable(
        columns, ranks, tuple(index), codes, is_tile, memory, None if shards is None else _shard_table(shards)
    )


def _same(value: int, rows: int) -> IntColumn:
    return np.broadcast_to(np.int64(value), rows)


def table_of_specs(specs: Sequence[TensorSpec]) -> SpecTable:
    """A table of ready specs, which must share their memory; the slow way in, for what exists already."""
    if not specs:
        raise BadInputError("a table of no specs")
    memory = specs[0].memory
    shards: list[Shard | None] = []
    for spec in specs:
        if spec.memory is not memory or (spec.tile.height, spec.tile.width) != (32, 32):
            raise BadInputError("a batch has one memory and 32x32 tiles; place other specs one by one")
        if spec.shard is not None and not isinstance(spec.shard, Shard):
            raise BadInputError("ND shards have no batch path; place them one by one")
        shards.append(spec.shard)
    return table_of(
        [s.shape for s in specs], [s.dtype for s in specs], [s.layout for s in specs], memory,
        shards if any(shard is not None for shard in shards) else None,
    )  # fmt: skip


def _shard_table(shards: Sequence[Shard | None]) -> ShardTable:
    raw = np.zeros((len(shards), 6), dtype=np.int64)
    for row, shard in enumerate(shards):
        if shard is None:
            continue
        grid = shard.ranges[0]
        if len(shard.ranges) != 1 or grid.start_x or grid.start_y:
            raise BadInputError("a batch has shard grids that start at core (0, 0)")
        kind = _KINDS.index(shard.kind)
        raw[row] = (kind, shard.height, shard.width, grid.columns, grid.rows, shard.by_column)
    return ShardTable(raw[:, 0], raw[:, 1], raw[:, 2], raw[:, 3], raw[:, 4], raw[:, 5].astype(bool))


def place_table(table: SpecTable, memory_map: MemoryMap) -> PlacementTable:
    """Bytes per bank of every row, as `place` would give them."""
    _refuse_overflow(table)
    columns = {field.name: _Column(len(table)) for field in fields(PlacementTable)}
    # Chunk by chunk, so that the dozen intermediate columns stay in the processor's cache.
    for start in range(0, max(len(table), 1), _CHUNK_ROWS):
        end = min(start + _CHUNK_ROWS, len(table))
        for name, values in _place_rows(table.rows(start, end), memory_map).items():
            columns[name].put(start, end, values)
    return PlacementTable(**{name: column.finish() for name, column in columns.items()})


class _Column:
    """A result column that stays one number while all rows agree: writing eight bytes per row is what takes time."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._shared: Any = None
        self._values: Any = None

    def put(self, start: int, end: int, values: Any) -> None:
        if self._values is None:
            if not isinstance(values, np.ndarray) and (start == 0 or values == self._shared):
                self._shared = values
                return
            self._values = np.empty(self._rows, dtype=np.asarray(values).dtype)
            self._values[:start] = 0 if self._shared is None else self._shared
        self._values[start:end] = values

    def finish(self) -> Any:
        return np.broadcast_to(np.asarray(self._shared), self._rows) if self._values is None else self._values


def _place_rows(table: SpecTable, memory_map: MemoryMap) -> dict[str, Any]:
    """One chunk. What is the same for all rows (one layout, one type) is a plain number, not a column."""
    pool = memory_map.pool(table.memory)
    alignment, quantum = memory_map.page_alignment_bytes(table.memory), memory_map.quantum_bytes
    is_tile = _shared(table.is_tile)
    shards = table.shards
    sharded: Any = False if shards is None else shards.kind > 0
    tile_bytes = _pick_type([d.tile_bytes() for d in table.dtypes], table.dtype)
    element_bytes = _pick_type([d.element_bytes or 0 for d in table.dtypes], table.dtype)
    tile = _where(is_tile, 32, 1)
    width_step = tile if shards is None else np.where(sharded & ~np.asarray(is_tile), np.maximum(shards.width, 1), tile)
    width = _up(table.shapes[:, -1], width_step)
    height = _up(table.shapes[:, -2], tile)
    for outer in range(table.shapes.shape[1] - 2):
        height = height * table.shapes[:, outer]
    page_width = _where(is_tile, 32, width)
    if shards is not None:
        rows_of_shard = sharded & ~np.asarray(is_tile) & (shards.kind != 1)
        page_width = np.where(rows_of_shard, shards.width, page_width)
    empty: Any = (height == 0) | (width == 0)
    if not empty.any():
        empty = False
    elif is_tile is not True:
        # A row-major tensor without elements has pages of one 32-bit word: shard widths are checked against it.
        page_width = np.where(empty & ~np.asarray(is_tile), 4 // np.maximum(element_bytes, 1), page_width)
    page_bytes = _where(is_tile, tile_bytes, page_width * element_bytes)
    pages = (height // tile) * (width // np.maximum(page_width, 1))
    pages = _where(empty, 0, pages)
    aligned = _up(page_bytes, alignment)
    banks: Any = max(pool.banks, 1)
    per_bank = _divide_up(pages, banks)
    is_valid: Any = _types_allowed(table, is_tile, memory_map.architecture.name)
    if shards is not None:
        legal, used, shard_pages = _shards(table, shards, memory_map, height, width, tile, page_width, empty)
        is_valid = is_valid & (~sharded | legal)
        banks = np.where(sharded, used, banks)
        per_bank = np.where(sharded & ~np.asarray(empty), shard_pages, per_bank)
    if table.memory is L1_SMALL:
        is_valid = is_valid & (np.asarray(sharded) | np.asarray(empty))
    bytes_per_bank = per_bank * aligned
    if empty is not False:
        bytes_per_bank = np.where(empty, 0, bytes_per_bank)
    taken = _up(np.maximum(bytes_per_bank, quantum), quantum)
    taken = _where(empty, 0, taken)
    total = _where(sharded, bytes_per_bank * banks, pages * aligned)
    figures = {
        "page_bytes": page_bytes,
        "aligned_page_bytes": aligned,
        "pages": pages,
        "banks": banks,
        "bytes_per_bank": bytes_per_bank,
        "taken_bytes_per_bank": taken,
        "total_bytes": total,
    }
    fits = taken <= pool.bytes_per_bank
    if is_valid is True or np.all(is_valid):
        return {**figures, "is_valid": True, "fits_empty": fits}
    cleared = {name: np.where(is_valid, column, 0) for name, column in figures.items()}
    return {**cleared, "is_valid": is_valid, "fits_empty": is_valid & fits}


def _up(values: Any, multiple: Any) -> Any:
    return _divide_up(values, multiple) * multiple


def _divide_up(values: Any, divisor: Any) -> Any:
    return (values + (divisor - 1)) // divisor


def _where(condition: Any, yes: Any, no: Any) -> Any:
    """`np.where` that costs nothing when all rows agree."""
    if isinstance(condition, bool):
        return yes if condition else no
    return np.where(condition, yes, no)


def _shared(flags: BoolColumn) -> Any:
    """One bool when all rows have the same."""
    if flags.all():
        return True
    return flags if flags.any() else False


def _pick_type(by_type: list[int], codes: IntColumn) -> Any:
    return by_type[0] if len(by_type) == 1 else np.array(by_type, dtype=np.int64)[codes]


def _refuse_overflow(table: SpecTable) -> None:
    """64-bit columns hold tensors up to 2^48 elements; a larger one is placed on its own."""
    if not len(table):
        return
    if table.shapes.min() >= 0 and prod(int(size) for size in np.maximum(table.shapes.max(axis=0), 32)) < _MAX_ELEMENTS:
        return
    volume = np.maximum(table.shapes, 1).astype(np.float64).prod(axis=1)
    volume[(table.shapes < 0).any(axis=1)] = np.inf
    row = int(np.argmax(volume))
    if volume[row] > _MAX_ELEMENTS:
        raise BadInputError(f"row {row}: shape {table.shapes[row].tolist()} is out of range for a batch")


def _types_allowed(table: SpecTable, is_tile: Any, architecture: str) -> Any:
    here = [d.in_ttnn and architecture not in d.not_on for d in table.dtypes]
    tile = [ok and not d.row_major_only for d, ok in zip(table.dtypes, here, strict=True)]
    rows = [ok and not d.is_block_float for d, ok in zip(table.dtypes, here, strict=True)]
    if len(table.dtypes) == 1:
        return _where(is_tile, tile[0], rows[0])
    return _where(is_tile, np.array(tile)[table.dtype], np.array(rows)[table.dtype])


def _shards(
    table: SpecTable,
    shards: ShardTable,
    memory_map: MemoryMap,
    height: IntColumn,
    width: IntColumn,
    tile: Any,
    page_width: Any,
    empty: Any,
) -> tuple[BoolColumn, IntColumn, IntColumn]:
    """Which shards are legal, the cores that hold data, and the pages of a shard."""
    shard_height, shard_width = np.maximum(shards.height, 1), np.maximum(shards.width, 1)
    high, wide = -(-height // shard_height), -(-width // shard_width)
    cores = shards.columns * shards.grid_rows
    kind = shards.kind
    across = np.where(shards.by_column, shards.grid_rows, shards.columns)
    down = np.where(shards.by_column, shards.columns, shards.grid_rows)
    legal = (shard_height % tile == 0) & (shard_width % tile == 0)
    legal &= (kind != 1) | ((width == shards.width) & (high <= cores))
    legal &= (kind != 2) | ((height == shards.height) & (wide <= cores))
    legal &= (kind != 3) | ((high <= down) & (wide <= across))
    legal &= table.is_tile | (table.ranks > 1) | (shards.height == 1)
    legal &= width % np.maximum(page_width, 1) == 0
    if table.memory is not TRACE:
        if table.memory is DRAM:
            columns, rows = memory_map.dram.banks, 1
        else:
            columns, rows = memory_map.grid.columns, memory_map.grid.rows
        # A block grid is only checked where it holds shards; without elements that is one row of them.
        high_used, wide_used = np.where(empty, 1, np.maximum(high, 1)), np.maximum(wide, 1)
        needed_columns = np.where(kind == 3, np.where(shards.by_column, high_used, wide_used), shards.columns)
        needed_rows = np.where(kind == 3, np.where(shards.by_column, wide_used, high_used), shards.grid_rows)
        legal &= (needed_columns <= columns) & (needed_rows <= rows)
    used = np.where(empty, 0, np.minimum(cores, high * wide))
    legal &= used <= memory_map.grid.cores
    return legal, used, (shard_height // tile) * (-(-shard_width // np.maximum(page_width, 1)))
