# SPDX-License-Identifier: Apache-2.0
"""What offline pages are made of: cards, notes, sections with tables and drawings, in one frame.

No network, no library. Python prepares values; the templates draw them and escape every text that came from outside.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ttmem.reports.kit import templates
from ttmem.reports.kit.tables import Table

LONGEST_NAME = 160
"""What a name may take of a cell or a heading."""


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
    """A heading, what is said below it, a drawing and tables; whatever of these there is."""

    key: str
    title: str
    tables: Sequence[Table] = ()
    about: str = ""
    remarks: Sequence[str] = ()
    drawing: str = ""
    """SVG of our own making (``charts.drawing``)."""
    drawing_role: str = "drawing"


def page(
    *,
    title: str,
    subtitle: str = "",
    cards: Sequence[Card] = (),
    notes: Sequence[str] = (),
    sections: Sequence[Section] = (),
    foot: str = "",
    template: str = "page.html.j2",
    **more: Any,
) -> str:
    """The page; ``template`` names one that extends the frame, ``more`` is what it wants on top."""
    return templates.render(
        template,
        title=title,
        subtitle=subtitle,
        cards=cards,
        notes=notes,
        sections=sections,
        foot=foot,
        longest_name=LONGEST_NAME,
        markup=templates.markup,
        **more,
    )
