# SPDX-License-Identifier: Apache-2.0
"""The boards for a person, and the line that says which one was opened."""

from __future__ import annotations

from ttmem.reports.boards.document import Boards, OpenedBoard, Pool
from ttmem.reports.kit.tables import Table, mib_column, number_column, plain, text_column
from ttmem.reports.kit.units import shape_text

_MEMORIES = ("DRAM", "L1")


def render(boards: Boards) -> str:
    """One line per board; sizes are those of one chip."""
    columns = [text_column("board"), number_column("chips"), text_column("grid")]
    for memory in _MEMORIES:
        columns += [
            number_column(f"{memory} banks", unknown="not measured" if memory == "DRAM" else ""),
            number_column("B per bank", unknown=""),
            mib_column("MB", decimals=1, unknown=""),
        ]
    rows = []
    for board in boards.boards:
        pools = [(board.memories or {}).get(memory) for memory in _MEMORIES]
        figures = [figure for pool in pools for figure in _figures(pool)]
        rows.append([board.name, board.chips, shape_text(board.grid), *figures, board.description])
    table = plain(Table([*columns, text_column("")], rows))
    return f"{table}\n\nBank sizes of ttnn {boards.release}, per chip; MB is 2^20 bytes."


def _figures(pool: Pool | None) -> list[int | None]:
    return [pool.banks, pool.bytes_per_bank, pool.total_bytes] if pool else [None] * 3


def opened(board: OpenedBoard) -> str:
    """One line: which board, opened how, sizes from where."""
    parts = [f"{board.board} ({board.architecture}, grid {shape_text(board.grid)})"]
    if board.l1_small_bytes_per_bank:
        parts.append(f"L1_SMALL {board.l1_small_bytes_per_bank:,} B per bank")
    if board.trace_region_bytes_per_bank:
        parts.append(f"TRACE {board.trace_region_bytes_per_bank:,} B per bank")
    if board.worker_l1_bytes:
        parts.append(f"worker_l1_size {board.worker_l1_bytes:,} B")
    return f"{', '.join(parts)}; bank sizes: {board.bank_sizes_from}"
