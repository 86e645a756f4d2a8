# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem boards --json`` says, and how other answers say which board they are about."""

from typing import Any

import msgspec

from ttmem.hardware import Board, Grid, MemoryMap
from ttmem.reports.kit.documents import Document


class Pool(Document, frozen=True):
    """One memory of one chip."""

    banks: int
    bytes_per_bank: int
    base_address: int
    total_bytes: int = msgspec.field(name="bytes")
    """Of all banks."""


class BoardFacts(Document, frozen=True):
    """One board; sizes are those of one chip."""

    name: str
    description: str
    architecture: str
    chips: int
    mesh: tuple[int, int]
    grid: tuple[int, int]
    """Columns and rows of cores that programs may use, with the default dispatch."""
    dispatch: dict[str, tuple[int, int]]
    """The grid by where dispatch runs."""
    default_dispatch: str
    dram_alignment_bytes: int
    l1_alignment_bytes: int
    quantum_bytes: int = msgspec.field(name="allocation_quantum_bytes")
    l1_bytes_per_core: int
    max_circular_buffers_per_core: int | None
    runs_operations: bool
    """Whether the mock of this board runs operations, or allocates only."""
    memories: dict[str, Pool] | None
    """By name; null where the release was not measured on this board."""


class Boards(Document, frozen=True, tag_field="schema", tag="ttmem.boards/1"):
    """The boards that ttnn opens."""

    release: str
    """The ttnn release whose bank sizes these are."""
    boards: tuple[BoardFacts, ...]


class OpenedBoard(Document, frozen=True):
    """Which board an answer is about and how it was opened."""

    board: str
    bank_sizes_from: str
    """A release, or the evidence that the sizes were learned from."""
    l1_small_bytes_per_bank: int
    trace_region_bytes_per_bank: int
    grid: tuple[int, int]
    architecture: str
    worker_l1_bytes: int
    """0: the release's default."""


def board_facts(board: Board, memory_map: MemoryMap | None) -> BoardFacts:
    """A board with its memories, where they are known."""
    return BoardFacts.of(
        board,
        board.architecture,
        architecture=board.architecture.name,
        grid=_size(board.grid()),
        dispatch={name: _size(grid) for name, grid in board.grids},
        memories=memory_map and {pool.memory.name: pool for pool in memory_map.pools},
    )


def opening(memory_map: MemoryMap) -> dict[str, Any]:
    """The fields of an ``OpenedBoard``."""
    return {
        "board": memory_map.board_name,
        "bank_sizes_from": memory_map.source,
        "l1_small_bytes_per_bank": memory_map.l1_small.bytes_per_bank,
        "trace_region_bytes_per_bank": memory_map.trace.bytes_per_bank,
        "grid": _size(memory_map.grid),
        "architecture": memory_map.architecture.name,
        "worker_l1_bytes": memory_map.settings.worker_l1_bytes,
    }


def _size(grid: Grid) -> tuple[int, int]:
    return grid.columns, grid.rows
