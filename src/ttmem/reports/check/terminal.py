# SPDX-License-Identifier: Apache-2.0
"""Verdicts for a person: one line each, what broke first."""

from collections.abc import Sequence

from ttmem.analysis.budget import Verdict
from ttmem.reports.kit.units import counted, one_line


def render(verdicts: Sequence[Verdict]) -> str:
    """``FAIL max-dram  DRAM peak ...``, then the operation to look at."""
    width = max((len(verdict.rule) for verdict in verdicts), default=0)
    lines = []
    for verdict in sorted(verdicts, key=lambda verdict: verdict.ok):
        lines.append(f"{'ok  ' if verdict.ok else 'FAIL'}  {verdict.rule:<{width}}  {one_line(verdict.message)}")
        if not verdict.ok and (place := verdict.operation):
            at = f" at {one_line(place.location)}" if place.location else ""
            line = f", line {verdict.line}" if verdict.line else ""
            lines.append(f"{'':<{width + 8}}#{place.index} {one_line(place.name)}{at}{line}")
    broken = sum(not verdict.ok for verdict in verdicts)
    if broken:
        lines.append(f"{broken} of {counted(len(verdicts), 'limit')} broken")
    elif len(verdicts) > 1:
        lines.append(f"all {len(verdicts)} limits hold")
    else:
        lines.append("the limit holds" if verdicts else "no limit was given")
    return "\n".join(lines) + "\n"
