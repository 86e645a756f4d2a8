# SPDX-License-Identifier: Apache-2.0
"""Verdicts for a person: one line each, what broke first."""

from collections.abc import Sequence

from ttmem.analysis.budget import Verdict
from ttmem.analysis.failure import RunEnd
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Table, name_column, text_column
from ttmem.reports.kit.units import counted, one_line

_STYLES = {"FAIL": "bold red", "ok": "green"}
_COLUMNS = (text_column("", style=lambda word: _STYLES.get(word, "")), text_column(""), name_column(""))


def render(verdicts: Sequence[Verdict], ended: RunEnd | None = None, *, width: int = 100, color: bool = False) -> str:
    """``FAIL max-dram  DRAM peak ...``, then the operation to look at."""
    rows = []
    for verdict in sorted(verdicts, key=lambda verdict: verdict.ok):
        rows.append(("ok" if verdict.ok else "FAIL", verdict.rule, verdict.message))
        if not verdict.ok and (place := verdict.operation):
            at = f" at {one_line(place.location)}" if place.location else ""
            line = f", line {verdict.line}" if verdict.line else ""
            rows.append(("", "", f"#{place.index} {place.name}{at}{line}"))
    report = TextReport(width, color=color)
    if rows:
        report.print(Table(_COLUMNS, rows))
    broken = sum(not verdict.ok for verdict in verdicts)
    if broken:
        report.print(f"{broken} of {counted(len(verdicts), 'limit')} broken", style="bold red")
    elif len(verdicts) > 1:
        report.print(f"all {len(verdicts)} limits hold")
    else:
        report.print("the limit holds" if verdicts else "no limit was given")
    if ended is not None and not ended.is_for_memory:
        report.print(f"{'' if broken else 'fits as far as it ran; '}{one_line(ended.sentence)}", style="yellow")
    return report.text()
