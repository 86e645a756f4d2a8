# SPDX-License-Identifier: Apache-2.0
"""A million specs at once, for sweeps: the rules of `place` over numpy columns.

Interleaved tensors and height, width or block shards on a grid that starts at core (0, 0), in 32 x 32 tiles; anything
else takes the scalar path. Invalid specs are marked, not explained: `place` gives the library's reason for one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ttmem._errors import BadInputError
from ttmem.hardware import DRAM, L1_SMALL, TRACE, DataType, MemoryMap
from ttmem.hardware.memories import Memory
from ttmem.tensors.spec import TILE, Layout, Shard, TensorSpec

if TYPE_CHECKING:
    IntColumn = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    BoolColumn = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

_KINDS = ("interleaved", "height", "width", "block")
_MAX_ELEMENTS = 1 << 60


@dataclass(frozen=True, slots=True)
class ShardTable:
    """Shard columns; `kind` 0 is interleaved, then height, width, block as 1, 2, 3."""

    kind: IntColumn
    height: IntColumn
    width: IntColumn
    columns: IntColumn
    rows: IntColumn
    by_column: BoolColumn


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
        ranks = np.full(len(columns), columns.shape[1], dtype=np.int64)
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
    given = (dtype,) if isinstance(dtype, DataType) else dtype
    dtypes = tuple(dict.fromkeys(given))
    index = {d: i for i, d in enumerate(dtypes)}
    if isinstance(dtype, DataType):
        codes = np.zeros(count, dtype=np.int64)
    else:
        codes = np.fromiter((index[d] for d in dtype), dtype=np.int64, count=count)
    if isinstance(layout, Layout):
        is_tile = np.full(count, layout is TILE)
    else:
        is_tile = np.fromiter((one is TILE for one in layout), dtype=bool, count=count)
    return SpecTable(columns, ranks, dtypes, codes, is_tile, memory, None if shards is None else _shard_table(shards))


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
        raw[row] = (
            _KINDS.index(shard.kind), shard.height, shard.width, grid.columns, grid.rows, shard.by_column
        )  # fmt: skip
    return ShardTable(raw[:, 0], raw[:, 1], raw[:, 2], raw[:, 3], raw[:, 4], raw[:, 5].astype(bool))


def place_table(table: SpecTable, memory_map: MemoryMap) -> PlacementTable:
    """Bytes per bank of every row, as `place` would give them."""
    _refuse_overflow(table)
    architecture, pool = memory_map.architecture, memory_map.pool(table.memory)
    alignment, quantum = memory_map.page_alignment_bytes(table.memory), memory_map.quantum_bytes
    tile = np.where(table.is_tile, 32, 1)
    sharded = np.zeros(len(table), dtype=bool) if table.shards is None else table.shards.kind > 0
    width_step = tile if table.shards is None else np.where(sharded & ~table.is_tile, table.shards.width, tile)
    width = _up(table.shapes[:, -1], width_step)
    height = table.shapes[:, :-2].prod(axis=1) * _up(table.shapes[:, -2], tile)
    tile_bytes = np.array([d.tile_bytes() for d in table.dtypes], dtype=np.int64)[table.dtype]
    element_bytes = np.array([d.element_bytes or 0 for d in table.dtypes], dtype=np.int64)[table.dtype]
    page_width = np.where(table.is_tile, 32, width)
    if table.shards is not None:
        rows_of_shard = sharded & ~table.is_tile & (table.shards.kind != 1)
        page_width = np.where(rows_of_shard, table.shards.width, page_width)
    empty = (height == 0) | (width == 0)
    word = 4 // np.maximum(element_bytes, 1)
    page_width = np.where(empty & ~table.is_tile, word, page_width)
    page_bytes = np.where(table.is_tile, tile_bytes, page_width * element_bytes)
    pages = np.where(empty, 0, (height // tile) * (width // np.maximum(page_width, 1)))
    aligned = _up(page_bytes, alignment)
    banks = np.full(len(table), max(pool.banks, 1), dtype=np.int64)
    per_bank = -(-pages // banks)
    is_valid = _types_allowed(table, architecture.name)
    if table.shards is not None:
        legal, used, shard_pages = _shards(table, table.shards, memory_map, height, width, tile, page_width, empty)
        is_valid &= ~sharded | legal
        banks = np.where(sharded, used, banks)
        per_bank = np.where(sharded & ~empty, shard_pages, per_bank)
    if table.memory is L1_SMALL:
        is_valid &= sharded | empty
    bytes_per_bank = np.where(empty, 0, per_bank * aligned)
    taken = np.where(pages > 0, _up(np.maximum(bytes_per_bank, quantum), quantum), 0)
    total = np.where(sharded, bytes_per_bank * banks, pages * aligned)

    def figures(column: IntColumn) -> IntColumn:
        return np.where(is_valid, column, 0)

    return PlacementTable(
        is_valid=is_valid,
        page_bytes=figures(page_bytes),
        aligned_page_bytes=figures(aligned),
        pages=figures(pages),
        banks=figures(banks),
        bytes_per_bank=figures(bytes_per_bank),
        taken_bytes_per_bank=figures(taken),
        total_bytes=figures(total),
        fits_empty=is_valid & (taken <= pool.bytes_per_bank),
    )


def _up(values: Any, multiple: Any) -> Any:
    return -(-values // multiple) * multiple


def _refuse_overflow(table: SpecTable) -> None:
    """64-bit columns hold sizes up to 2^60 elements; a larger tensor is placed on its own."""
    volume = np.maximum(table.shapes, 1).astype(np.float64).prod(axis=1) * 2048.0
    if len(volume) and (table.shapes.min() < 0 or float(volume.max()) > _MAX_ELEMENTS):
        row = int(np.argmax(np.where((table.shapes < 0).any(axis=1), np.inf, volume)))
        raise BadInputError(f"row {row}: shape {table.shapes[row].tolist()} is out of range for a batch")


def _types_allowed(table: SpecTable, architecture: str) -> BoolColumn:
    tile = np.array([d.in_ttnn and not d.row_major_only for d in table.dtypes])[table.dtype]
    rows = np.array([d.in_ttnn and not d.is_block_float for d in table.dtypes])[table.dtype]
    here = np.array([architecture not in d.not_on for d in table.dtypes])[table.dtype]
    allowed: BoolColumn = np.where(table.is_tile, tile, rows) & here
    return allowed


def _shards(
    table: SpecTable,
    shards: ShardTable,
    memory_map: MemoryMap,
    height: IntColumn,
    width: IntColumn,
    tile: IntColumn,
    page_width: IntColumn,
    empty: BoolColumn,
) -> tuple[BoolColumn, IntColumn, IntColumn]:
    """Which shards are legal, the cores that hold data, and the pages of a shard."""
    shard_height, shard_width = np.maximum(shards.height, 1), np.maximum(shards.width, 1)
    high, wide = -(-height // shard_height), -(-width // shard_width)
    cores = shards.columns * shards.rows
    kind = shards.kind
    across = np.where(shards.by_column, shards.rows, shards.columns)
    down = np.where(shards.by_column, shards.columns, shards.rows)
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
        # A block grid is only checked where it holds shards.
        needed_columns = np.where(kind == 3, np.maximum(np.where(shards.by_column, high, wide), 1), shards.columns)
        needed_rows = np.where(kind == 3, np.maximum(np.where(shards.by_column, wide, high), 1), shards.rows)
        needed_columns = np.where((kind == 3) & empty, 1, needed_columns)
        needed_rows = np.where((kind == 3) & empty, 1, needed_rows)
        legal &= (needed_columns <= columns) & (needed_rows <= rows)
    used = np.where(empty, 0, np.minimum(cores, high * wide))
    legal &= used <= memory_map.grid.cores
    return legal, used, (shard_height // tile) * (-(-shard_width // np.maximum(page_width, 1)))
