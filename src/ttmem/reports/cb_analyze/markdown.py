# SPDX-License-Identifier: Apache-2.0
"""The whole report as Markdown, for people and agents alike."""

from __future__ import annotations

from ttmem.circular_buffers.analyze import Analysis
from ttmem.reports.cb_analyze.sections import Part, parts
from ttmem.reports.cb_simulate.tables import CbTable
from ttmem.reports.kit.units import one_line


def render(analysis: Analysis) -> str:
    """Headings, sentences and tables; the drawing is a table here."""
    blocks = ["# Circular buffers", *(_part(part) for part in parts(analysis))]
    blocks.append(
        "Figures are labelled: measured (on a card), computed (exact), simulated (a range), heuristic (the guide's)."
    )
    return "\n\n".join(blocks) + "\n"


def _part(part: Part) -> str:
    blocks = [f"## {_plain(part.title)}"]
    if part.lines:
        blocks.append("\n".join(f"- {_plain(line)}" for line in part.lines))
    blocks += [_table(table) for table in part.tables]
    return "\n\n".join(blocks)


def _table(table: CbTable) -> str:
    rule = ["---" if number < table.left else "---:" for number in range(len(table.heads))]
    rows = [table.heads, tuple(rule), *table.rows]
    return f"**{_plain(table.title)}**\n\n" + "\n".join(
        f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows
    )


def _cell(text: str) -> str:
    """Expressions of C++ code hold bars and stars; a cell must stay a cell."""
    return _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    return one_line(text).replace("<", "&lt;").replace("*", "\\*")
