# SPDX-License-Identifier: Apache-2.0
"""What a source says about circular buffers, for a person at a terminal."""

from __future__ import annotations

from ttmem.circular_buffers.evidence import Evidence
from ttmem.reports.cb_profile import tables as cb_profile_tables
from ttmem.reports.cb_simulate import terminal as cb_terminal


def render(evidence: Evidence, *, width: int = 100, color: bool = False) -> str:
    """Sentences first, tables after them, and what to capture instead at the end."""
    console, file = cb_terminal.paper(width, color)
    for number, line in enumerate(cb_profile_tables.sentences(evidence)):
        console.print(line, style="" if number else "bold")
    for table in cb_profile_tables.tables(evidence):
        cb_terminal.show(console, table)
    if hints := cb_profile_tables.instead(evidence):
        console.print()
        console.print("To see circular buffers:")
        for hint in hints:
            console.print(f"  {hint}")
    return cb_terminal.text(file)
