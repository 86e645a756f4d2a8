# SPDX-License-Identifier: Apache-2.0
"""What a source says about circular buffers, for a person at a terminal."""

from ttmem.circular_buffers.measured_facts import Evidence
from ttmem.reports.cb_profile.tables import instead, sentences, tables
from ttmem.reports.kit.console import TextReport


def render(evidence: Evidence, *, width: int = 100, color: bool = False) -> str:
    """Sentences first, tables after them, and what to capture instead at the end."""
    report = TextReport(width, color=color)
    first, *others = sentences(evidence)
    report.print(first, style="bold")
    for line in others:
        report.print(line)
    for table in tables(evidence):
        report.titled(table)
    if hints := instead(evidence):
        report.print("", "To see circular buffers:", *(f"  {hint}" for hint in hints))
    return report.text()
