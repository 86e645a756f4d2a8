# SPDX-License-Identifier: Apache-2.0
"""The whole report as Markdown, for people and agents alike."""

from ttmem.circular_buffers.analyze import Analysis
from ttmem.reports.cb_analyze.sections import sections
from ttmem.reports.kit.pages import Section
from ttmem.reports.kit.tables import markdown, without_markup


def render(analysis: Analysis) -> str:
    """Headings, sentences and tables; the drawing is a table here."""
    blocks = ["# Circular buffers", *(_section(section) for section in sections(analysis))]
    blocks.append(
        "Figures are labelled: measured (on a card), computed (exact), simulated (a range), heuristic (the guide's)."
    )
    return "\n\n".join(blocks) + "\n"


def _section(section: Section) -> str:
    blocks = [f"## {without_markup(section.title)}"]
    if section.remarks:
        blocks.append("\n".join(f"- {without_markup(line)}" for line in section.remarks))
    for table in section.tables:
        lines = markdown(table, aligned=True, markup=False)
        blocks.append("\n".join([f"**{without_markup(table.title)}**", "", *lines]))
    return "\n\n".join(blocks)
