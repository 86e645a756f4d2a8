# SPDX-License-Identifier: Apache-2.0
"""What changed between two sweeps, for a person: operators first, then the cases that matter most."""

from collections import Counter

from ttmem.operators.sweeps.comparison import CHANGES, NEWLY_FAILS, NEWLY_PASSES
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Table, name_column, number_column, percent_column, text_column
from ttmem.reports.kit.units import counted, thousands
from ttmem.reports.sweep_diff.document import SweepDiff

_MOST_ROWS = 20
_STYLES = {NEWLY_FAILS: "bold red", NEWLY_PASSES: "green"}


def render(found: SweepDiff, *, width: int = 100, color: bool = False) -> str:
    """A table of operators by kind of change, and the largest changes."""
    report = TextReport(width, color=color)
    report.print(f"{found.before} -> {found.after}", style="bold")
    report.print(f"{counted(found.compared, 'result')} compared, {thousands(found.unchanged)} as before")
    for count, name in ((found.only_before, found.before), (found.only_after, found.after)):
        if count:
            report.print(f"{counted(count, 'result')} only in {name}", style="yellow")
    if not found.changes:
        return report.text()
    kinds = [change for change in CHANGES if found.counts[change]]
    by_operator: dict[str, Counter[str]] = {}
    for one in found.changes:
        by_operator.setdefault(one.op, Counter())[one.change] += 1
    rows = sorted(by_operator.items(), key=lambda item: ([-item[1][kind] for kind in kinds], item[0]))
    heads = [name_column("Operator"), *(number_column(kind.replace("-", " ").capitalize()) for kind in kinds)]
    report.titled(Table(heads, [(op, *(counts[kind] or None for kind in kinds)) for op, counts in rows], "By operator"))
    columns = [
        text_column("Change", style=lambda change: _STYLES.get(change, "")),
        name_column("Operator"),
        text_column("Board", spare=2),
        text_column("Memory"),
        text_column("Before"),
        text_column("After"),
        number_column("B per bank", lambda growth: f"{growth:+,}"),
        percent_column("Growth", signed=True),
        name_column("Case", spare=1),
    ]
    shown = [
        (
            one.change, one.op, one.board, one.memory, one.before.status, one.after.status,
            one.growth_bytes_per_bank, one.growth_percent, one.id,
        )
        for one in found.changes[:_MOST_ROWS]
    ]  # fmt: skip
    more = len(found.changes) - len(shown)
    left_out = f"and {thousands(more)} more (--json lists all)" if more else ""
    report.titled(Table(columns, shown, "The largest changes", left_out))
    return report.text()
