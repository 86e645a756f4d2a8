# SPDX-License-Identifier: Apache-2.0
"""The boards for a person, and the line that says which one was opened."""

from ttmem.reports.boards.document import Boards, OpenedBoard
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Table, mib_column, number_column, text_column
from ttmem.reports.kit.units import shape_text

_MEMORIES = ("DRAM", "L1")


def render(boards: Boards, *, width: int = 100, color: bool = False) -> str:
    """One line per board; sizes are those of one chip."""
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
        rows.append([board.name, board.chips, shape_text(board.grid), *figures, board.description])
    report = TextReport(width, color=color)
    report.print(Table([*columns, text_column("", spare=2)], rows))
    report.print("", f"Bank sizes of ttnn {boards.release}, per chip.")
    return report.text()


def opened(board: OpenedBoard) -> str:
    """One line: which board, opened how, sizes from where."""
    regions = {
        "L1_SMALL {:,} B per bank": board.l1_small_bytes_per_bank,
        "TRACE {:,} B per bank": board.trace_region_bytes_per_bank,
        "worker_l1_size {:,} B": board.worker_l1_bytes,
    }
    parts = [f"{board.board} ({board.architecture}, grid {shape_text(board.grid)})"]
    parts += [text.format(amount) for text, amount in regions.items() if amount]
    return f"{', '.join(parts)}; bank sizes: {board.bank_sizes_from}"
