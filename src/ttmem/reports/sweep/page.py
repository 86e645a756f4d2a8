# SPDX-License-Identifier: Apache-2.0
"""One offline page for sweeps: cards, notes and tables in the looks of the memory report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ttmem._version import __version__

_TEMPLATES = Path(__file__).parents[1] / "templates"


@dataclass(frozen=True, slots=True)
class Card:
    """One figure."""

    label: str
    figure: str
    detail: str = ""
    mood: str = ""
    """``warn`` or ``alarm``."""


@dataclass(frozen=True, slots=True)
class Section:
    """A table, with a drawing above it where there is one."""

    key: str
    title: str
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    numbers: frozenset[int] = frozenset()
    """Columns that hold figures."""
    says: str = ""
    drawing: str = ""
    """SVG of our own making."""


def render_page(
    *,
    title: str,
    subtitle: str,
    cards: Sequence[Card] = (),
    notes: Sequence[str] = (),
    sections: Sequence[Section] = (),
    foot: str = "",
) -> str:
    """The page; every text that came from outside is escaped by the template."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawn = [
        {
            "key": one.key,
            "title": one.title,
            "heads": one.heads,
            "rows": one.rows,
            "numbers": one.numbers,
            "says": one.says,
            "drawing": Markup(one.drawing),
        }
        for one in sections
    ]
    return environment.get_template("sweep.html.j2").render(
        version=__version__,
        title=title,
        subtitle=subtitle,
        cards=cards,
        notes=notes,
        sections=drawn,
        foot=foot,
        style=Markup((_TEMPLATES / "report.css").read_text("utf-8")),
        script=Markup((_TEMPLATES / "report.js").read_text("utf-8")),
    )
