# SPDX-License-Identifier: Apache-2.0
"""What came of an allocation script, for a person: the failures and the memories at the end."""

from ttmem.reports.boards.terminal import opened
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Table, number_column, text_column
from ttmem.reports.replay.document import ReplayedScript

_MOST_FAILURES = 10


def render(script: ReplayedScript, *, width: int = 100, color: bool = False) -> str:
    """The first failures in the library's own words."""
    failed = script.failures
    lines = [
        f"{len(script.steps):,} steps on {opened(script)}",
        f"{len(failed):,} failed" if failed else "all succeeded",
        *(f"  step {number}: {step.message}" for number, step in failed[:_MOST_FAILURES]),
    ]
    if len(failed) > _MOST_FAILURES:
        lines.append(f"  and {len(failed) - _MOST_FAILURES:,} more (--json lists all)")
    columns = [text_column("per bank, B"), *map(number_column, ("allocated", "free", "largest free"))]
    rows = [
        (name, use.allocated_bytes_per_bank, use.free_bytes_per_bank, use.largest_free_bytes_per_bank)
        for name, use in script.memories.items()
        if use.total_bytes_per_bank
    ]
    report = TextReport(width, color=color)
    report.print(*lines, "", Table(columns, rows))
    return report.text()
