# SPDX-License-Identifier: Apache-2.0
"""The answer of ``ttmem boards``, and the board that other answers are about."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ttmem.base.formatting import format_shape
from ttmem.hardware import Board, Grid, MemoryMap
from ttmem.hardware.memory_map import Pool
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.documents import Document
from ttmem.reports.kit.tables import Table, mib_column, number_column, text_column


class PoolRow(Document, frozen=True):
    """A memory of one chip."""

    banks: int
    bytes_per_bank: int
    base_address: int
    total_bytes: int = msgspec.field(name="bytes")
    """Of all banks."""


class BoardFacts(Document, frozen=True):
    """A board; sizes are those of one chip."""

    name: str
    description: str
    architecture: str
    chips: int
    mesh: tuple[int, int]
    grid: tuple[int, int]
    """Columns and rows of cores that programs may use, with the default dispatch."""
    dispatch: Mapping[str, tuple[int, int]]
    """The grid by where dispatch runs."""
    default_dispatch: str
    dram_alignment_bytes: int
    l1_alignment_bytes: int
    quantum_bytes: int = msgspec.field(name="allocation_quantum_bytes")
    l1_bytes_per_core: int
    max_circular_buffers_per_core: int | None
    runs_operations: bool
    """True when the mock of this board runs operations; false when it allocates only."""
    memories: Mapping[str, PoolRow] | None
    """By name; null where the release was not measured on this board."""


class Boards(Document, frozen=True, tag_field="schema", tag="ttmem.boards/1"):
    """The boards that ttnn opens."""

    release: str
    """The ttnn release whose bank sizes these are."""
    boards: Sequence[BoardFacts]


class OpenedBoard(Document, frozen=True):
    """The board that an answer is about, and how it was opened."""

    board: str
    bank_sizes_from: str
    """A release, or the evidence that the sizes were learned from."""
    l1_small_bytes_per_bank: int
    trace_region_bytes_per_bank: int
    grid: tuple[int, int]
    architecture: str
    worker_l1_bytes: int
    """0: the release's default."""


def describe_board(board: Board, memory_map: MemoryMap | None) -> BoardFacts:
    """Describe a board, with its memories where they are known."""
    return BoardFacts(
        name=board.name,
        description=board.description,
        architecture=board.architecture.name,
        chips=board.chips,
        mesh=board.mesh,
        grid=_read_grid(board.grid()),
        dispatch={name: _read_grid(grid) for name, grid in board.grids},
        default_dispatch=board.default_dispatch,
        dram_alignment_bytes=board.architecture.dram_alignment_bytes,
        l1_alignment_bytes=board.architecture.l1_alignment_bytes,
        quantum_bytes=board.architecture.quantum_bytes,
        l1_bytes_per_core=board.architecture.l1_bytes_per_core,
        max_circular_buffers_per_core=board.architecture.max_circular_buffers_per_core,
        runs_operations=board.runs_operations,
        memories={pool.memory.name: _describe_pool(pool) for pool in memory_map.pools} if memory_map else None,
    )


def _describe_pool(pool: Pool) -> PoolRow:
    return PoolRow(
        banks=pool.banks,
        bytes_per_bank=pool.bytes_per_bank,
        base_address=pool.base_address,
        total_bytes=pool.total_bytes,
    )


def describe_opening(memory_map: MemoryMap) -> dict[str, Any]:
    """Return the fields of an ``OpenedBoard``."""
    return {
        "board": memory_map.board_name,
        "bank_sizes_from": memory_map.source,
        "l1_small_bytes_per_bank": memory_map.l1_small.bytes_per_bank,
        "trace_region_bytes_per_bank": memory_map.trace.bytes_per_bank,
        "grid": _read_grid(memory_map.grid),
        "architecture": memory_map.architecture.name,
        "worker_l1_bytes": memory_map.settings.worker_l1_bytes,
    }


def _read_grid(grid: Grid) -> tuple[int, int]:
    return grid.columns, grid.rows


_MEMORIES = ("DRAM", "L1")


def render_terminal(boards: Boards, *, width: int = 100, color: bool = False) -> str:
    """Render one line per board; sizes are those of one chip."""
    columns = [text_column("board"), number_column("chips"), text_column("grid")]
    for memory in _MEMORIES:
        columns += [
            number_column(f"{memory} banks", unknown="not measured" if memory == "DRAM" else ""),
            number_column("B per bank", unknown=""),
            mib_column("MiB", decimals=1, unknown="", spare=1),
        ]
    rows = []
    for board in boards.boards:
        figures: list[int | None] = []
        for memory in _MEMORIES:
            pool = (board.memories or {}).get(memory)
            figures += [pool.banks, pool.bytes_per_bank, pool.total_bytes] if pool else [None] * 3
        rows.append([board.name, board.chips, format_shape(board.grid), *figures, board.description])
    report = TextReport(width, color=color)
    report.print(Table([*columns, text_column("", spare=2)], rows))
    report.print("", f"Bank sizes of ttnn {boards.release}, per chip.")
    return report.render()


def format_opened_board(board: OpenedBoard) -> str:
    """Return one line: the board, how it was opened, and the origin of its sizes."""
    regions = {
        "L1_SMALL {:,} B per bank": board.l1_small_bytes_per_bank,
        "TRACE {:,} B per bank": board.trace_region_bytes_per_bank,
        "worker_l1_size {:,} B": board.worker_l1_bytes,
    }
    parts = [f"{board.board} ({board.architecture}, grid {format_shape(board.grid)})"]
    parts += [text.format(amount) for text, amount in regions.items() if amount]
    return f"{', '.join(parts)}; bank sizes: {board.bank_sizes_from}"
