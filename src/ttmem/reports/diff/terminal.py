# SPDX-License-Identifier: Apache-2.0
"""A diff for a person: which peak moved, and the tensors and operations that did it."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

from ttmem.analysis.diff import MemoryChange, MemoryDiff, TensorChange
from ttmem.reports.kit.units import mib, one_line, operation_label, percent, short, thousands

_ROWS = 10


def render(diff: MemoryDiff, *, width: int = 100, color: bool = False) -> str:
    """Text for a terminal of this width."""
    width = max(width, 60)
    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(f"{one_line(diff.before_name)} -> {one_line(diff.after_name)}", style="bold")
    console.print()
    console.print(_memories(diff))
    for title, changes in (("Grew", diff.grew), ("Shrank", diff.shrank)):
        if changes:
            console.print()
            console.print(_tensors(title, changes, width))
    if diff.operation_counts:
        console.print()
        console.print("Operation counts: " + _counts(diff))
    if _nothing(diff):
        console.print()
        console.print("No difference in memory.")
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _nothing(diff: MemoryDiff) -> bool:
    return not (diff.grew or diff.shrank) and all(not change.delta_bytes_per_bank for change in diff.memories.values())


def _memories(diff: MemoryDiff) -> Table:
    table = _table("Peak, MB per bank", "Before", "After", "Change", "", "Not attributed")
    for memory, change in diff.memories.items():
        share = "new" if change.delta_percent is None else percent(change.delta_percent, signed=True)
        table.add_row(
            memory,
            _figure(change.before_bytes_per_bank),
            _figure(change.after_bytes_per_bank),
            mib(change.delta_bytes_per_bank, signed=True),
            share,
            _unattributed(change),
        )
    return table


def _unattributed(change: MemoryChange) -> str:
    """Part of the change that no tensor explains, unless rounding explains it."""
    left = change.unattributed_delta_bytes_per_bank
    return mib(left, signed=True) if abs(left) > 2 * change.error_bytes else "-"


def _figure(amount_bytes: int | None) -> str:
    return "-" if amount_bytes is None else mib(amount_bytes)


def _tensors(title: str, changes: tuple[TensorChange, ...], width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column, right in ((title, False), ("MB/bank", True), ("Why", False), ("Tensor", False), ("Operation", False)):
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for change in changes[:_ROWS]:
        operation = operation_label(change.operation_index, change.operation_name) or "resident"
        place = f" at {change.location}" if change.location else ""
        table.add_row(
            change.memory,
            mib(change.delta_bytes_per_bank, signed=True),
            change.reason,
            short(f"{change.tensor} {change.describe()}", max(20, width // 2 - 12)),
            short(f"{operation}{place}", max(20, width // 2 - 16)),
        )
    if len(changes) > _ROWS:
        table.add_row("", "", "", f"{thousands(len(changes) - _ROWS)} more", "")
    return table


def _counts(diff: MemoryDiff) -> str:
    shown = [f"{one_line(item.name)} {item.before} -> {item.after}" for item in diff.operation_counts[:_ROWS]]
    more = len(diff.operation_counts) - len(shown)
    return ", ".join(shown) + (f", {more} more" if more else "")


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position else "left", no_wrap=True)
    return table
