# SPDX-License-Identifier: Apache-2.0
"""A diff for a person: which peak moved, and the tensors and operations that did it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

from ttmem.analysis.diff import MemoryChange, MemoryDiff
from ttmem.analysis.tensor_diff import TensorChange
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Table, mib_column, name_column, text_column
from ttmem.reports.kit.units import megabytes, one_line, operation_label, percent, thousands
from ttmem.reports.profile.tables import Columns, table_of

_ROWS = 10


def render(diff: MemoryDiff, *, width: int = 100, color: bool = False) -> str:
    """Text for a terminal of this width."""
    report = TextReport(width, color=color)
    report.print(f"{one_line(diff.before_name)} -> {one_line(diff.after_name)}", style="bold")
    report.print("", memories(diff))
    for text in diff.remarks:
        report.print(f"! {one_line(text)}", style="yellow")
    for text in notes(diff):
        report.print(one_line(text), style="dim")
    for title, changes in (("Grew", diff.grew), ("Shrank", diff.shrank)):
        if changes:
            report.print("", tensors(title, changes, report.width))
    if diff.operation_counts:
        report.print("", "Operation counts: " + counts(diff))
    if is_the_same(diff):
        report.print("", "No difference in memory.")
    return report.text()


def is_the_same(diff: MemoryDiff) -> bool:
    """Whether there is nothing to report; what is not known is no such thing."""
    changes = diff.memories.values()
    return not (diff.grew or diff.shrank) and all(change.delta_bytes_per_bank == 0 for change in changes)


def memories(diff: MemoryDiff) -> Table:
    """The peaks of both profiles."""
    columns: Columns = [
        (text_column("Peak, MiB per bank"), attrgetter("memory")),
        (mib_column("Before"), attrgetter("before_bytes_per_bank")),
        (mib_column("After"), attrgetter("after_bytes_per_bank")),
        (mib_column("Change", signed=True, unknown="unknown"), attrgetter("delta_bytes_per_bank")),
        (text_column(""), _share),
        (mib_column("Not attributed", signed=True), _unattributed),
    ]
    return table_of(diff.memories.values(), columns)


def notes(diff: MemoryDiff) -> Iterator[str]:
    """What the table cannot say: chip totals where banks differ, L1 with what programs take."""
    for change in diff.memories.values():
        before, after = change.before_peak, change.after_peak
        used = change.before_bytes_per_bank or change.after_bytes_per_bank
        if before and after and before.banks != after.banks and used:
            totals = (megabytes(change.before_device_bytes or 0), megabytes(change.after_device_bytes or 0))
            yield f"{change.memory} over all banks of a chip: {totals[0]} -> {totals[1]}"
        if change.before_programs and change.after_programs:
            first, second = change.before_programs, change.after_programs
            yield (
                f"L1 with programs: {megabytes(first.total_bytes_per_core)} ({first.name}) -> "
                f"{megabytes(second.total_bytes_per_core)} ({second.name}) per core; a limit is held against this"
            )


def _share(change: MemoryChange) -> str:
    if not change.is_known:
        return ""
    return "new" if change.delta_percent is None else percent(change.delta_percent, signed=True)


def _unattributed(change: MemoryChange) -> int | None:
    """Part of the change that no tensor explains, unless rounding explains it."""
    left = change.unattributed_delta_bytes_per_bank
    return left if left is not None and abs(left) > 2 * change.error_bytes else None


def tensors(title: str, changes: Sequence[TensorChange], width: int, *, rows: int = _ROWS) -> Table:
    """What changed, the first suspects."""
    columns: Columns = [
        (text_column(title), attrgetter("memory")),
        (mib_column("MiB/bank", signed=True, unknown=""), attrgetter("delta_bytes_per_bank")),
        (text_column("Why"), attrgetter("reason")),
        (name_column("Tensor", most=max(20, width // 2 - 12)), lambda change: f"{change.tensor} {change.describe()}"),
        (name_column("Operation", most=max(20, width // 2 - 16)), _operation),
    ]
    table = table_of(changes[:rows], columns)
    if len(changes) <= rows:
        return table
    return replace(table, rows=[*table.rows, ["", None, "", f"{thousands(len(changes) - rows)} more", ""]])


def _operation(change: TensorChange) -> str:
    label = operation_label(change.operation_index, change.operation_name) or "resident"
    return f"{label} at {change.location}" if change.location else label


def counts(diff: MemoryDiff) -> str:
    """Which operations ran more or less often."""
    shown = [f"{one_line(item.name)} {item.before} -> {item.after}" for item in diff.operation_counts[:_ROWS]]
    more = len(diff.operation_counts) - len(shown)
    return ", ".join(shown) + (f", {more} more" if more else "")
