# SPDX-License-Identifier: Apache-2.0
"""The parts of pages other than a profile's: cards, notes, sections with drawings and tables, drawn by the app.

Python prepares values; ``web/src/views/document.ts`` draws them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from ttmem.reports.kit import page_bundle
from ttmem.reports.kit.charts import LineChart
from ttmem.reports.kit.drawings import Lanes, Matrix
from ttmem.reports.kit.tables import Table, plain

LONGEST_NAME = 160
"""The longest name in a cell or a heading."""


@dataclass(frozen=True, slots=True)
class Card:
    """One headline figure."""

    title: str
    figure: str
    unit: str = ""
    detail: str = ""
    bar_percent: float | None = None
    level: Literal["ok", "warn", "alarm"] = "ok"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, a text, a drawing and tables; each is optional."""

    key: str
    title: str
    tables: Sequence[Table] = ()
    about: str = ""
    remarks: Sequence[str] = ()
    drawing: LineChart | Matrix | Lanes | None = None
    drawing_role: str = "drawing"


def page(
    *,
    title: str,
    subtitle: str = "",
    cards: Sequence[Card] = (),
    notes: Sequence[str] = (),
    sections: Sequence[Section] = (),
    foot: str = "",
) -> str:
    """The page; without scripts its tables are there as text."""
    data = {
        "part": "document",
        "title": title,
        "subtitle": subtitle,
        "cards": [msgspec.to_builtins(card) for card in cards],
        "notes": list(notes),
        "sections": [_section(section) for section in sections],
        "foot": foot,
    }
    return page_bundle.data_frame("document", title, data, plain=_plain(subtitle, cards, notes, sections))


def _section(section: Section) -> dict[str, Any]:
    return {
        "key": section.key,
        "title": section.title,
        "about": section.about,
        "remarks": list(section.remarks),
        "role": section.drawing_role,
        "drawing": section.drawing and {"type": section.drawing.TYPE, **msgspec.to_builtins(section.drawing)},
        "tables": [
            {
                "title": table.title,
                "columns": [{"head": column.head, "kind": column.kind} for column in table.columns],
                "rows": table.cells(LONGEST_NAME),
                "bars": table.bar_column,
                "left_out": table.left_out,
            }
            for table in section.tables
        ],
    }


def _plain(subtitle: str, cards: Sequence[Card], notes: Sequence[str], sections: Sequence[Section]) -> str:
    lines = [subtitle, *(f"{card.title}: {card.figure} {card.unit} {card.detail}".strip() for card in cards), *notes]
    for section in sections:
        lines += ["", section.title, section.about, *section.remarks]
        for table in section.tables:
            lines += [table.title, plain(table.first(200)), table.left_out]
    text: str = "\n".join(lines)
    return text
