# SPDX-License-Identifier: Apache-2.0
"""Offline pages: the app of ``web/`` with its data in one file.

Python prepares values; ``web/src/views/document.ts`` draws them. The data is text that the app alone unpacks, so
nothing in it can become markup. The policy in the page's head lets exactly this script and this style sheet run.
"""

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from ttmem._version import __version__
from ttmem.base.formatting import flatten_text
from ttmem.base.text_safety import encode_json
from ttmem.reports.kit.charts import Lanes, LineChart, Matrix
from ttmem.reports.kit.tables import Table, format_plain
from ttmem.reports.kit.templates import mark_safe, read_asset, render_template

_LEVEL = 6


@dataclass(slots=True)
class PackedColumns:
    """The content of one block: a JSON header and columns, in the order in which they were added."""

    header: dict[str, Any]
    columns: list[dict[str, Any]] = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)

    def add_integers(self, name: str, values: ArrayLike, *, steps: bool = False) -> None:
        """Add a column of integers; ``steps`` when neighbours are near each other."""
        column = np.asarray(values, np.int64).reshape(-1)
        if steps and len(column):
            column = np.diff(column, prepend=np.int64(0))
        folded = ((column << 1) ^ (column >> 63)).view(np.uint64)
        highest = int(folded.max(initial=0))
        width = next(width for width in (1, 2, 4, 8) if highest < 1 << (8 * width))
        planes = folded.astype(f"<u{width}").view(np.uint8).reshape(-1, width).T
        self.columns.append({"name": name, "width": width, "steps": steps, "count": len(column)})
        self.parts.append(np.ascontiguousarray(planes).tobytes())

    def add_table(self, prefix: str, columns: Mapping[str, ArrayLike], *, steps: bool = False) -> None:
        """Add several columns of one table, named ``prefix.column``."""
        for name, values in columns.items():
            self.add_integers(f"{prefix}.{name}", values, steps=steps)

    def add_texts(self, name: str, pool: bytes, ends: ArrayLike) -> None:
        """Add texts, concatenated in UTF-8, and their ends."""
        self.columns.append({"name": name, "width": 0, "steps": False, "count": len(pool)})
        self.parts.append(pool)
        self.add_integers(f"{name}.end", ends, steps=True)

    def compress(self) -> bytes:
        """Return the length of the header, the header and the columns, compressed by zlib."""
        header = encode_json({**self.header, "columns": self.columns})
        pressed = zlib.compressobj(_LEVEL)
        parts = [pressed.compress(part) for part in (len(header).to_bytes(4, "little"), header, *self.parts)]
        return b"".join((*parts, pressed.flush()))


def encode_base64(compressed: bytes) -> str:
    """Return Base64, which cannot end a script element."""
    return base64.b64encode(compressed).decode("ascii")


_LONGEST_TEXT = 20_000


def render_frame(kind: str, title: str, blocks: Sequence[bytes], *, plain: str = "", served: bool = False) -> str:
    """Render a page; ``plain`` is shown without scripts, ``served`` lets it ask its own server."""
    style, script = read_asset("app.css"), read_asset("app.js")
    return render_template(
        "page.html.j2",
        kind=kind,
        title=flatten_text(title),
        plain=plain,
        blocks=[encode_base64(block) for block in blocks],
        style=mark_safe(style),
        script=mark_safe(script),
        style_hash=_hash("app.css"),
        script_hash=_hash("app.js"),
        served=served,
    )


def render_data_page(kind: str, title: str, data: dict[str, Any], *, plain: str = "", served: bool = False) -> str:
    """Render a page whose data is a document only."""
    return render_frame(kind, title, [PackedColumns(build_header(data)).compress()], plain=plain, served=served)


def build_header(data: dict[str, Any]) -> dict[str, Any]:
    """Build the header of a page, with printable texts."""
    cleaned: dict[str, Any] = clean_text({**data, "ttmem": __version__})
    return cleaned


def clean_text(value: Any) -> Any:
    """Replace control, escape and bidi characters in all nested texts of a page."""
    if isinstance(value, str):
        if value.isprintable() and len(value) <= _LONGEST_TEXT:
            return value
        return "".join(char if char.isprintable() else " " for char in value[:_LONGEST_TEXT])
    if isinstance(value, dict):
        return {clean_text(str(key)): clean_text(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_text(item) for item in value]
    return value


@cache
def _hash(name: str) -> str:
    digest = hashlib.sha256(read_asset(name).encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


LONGEST_NAME = 160
"""The longest name in a cell or a heading."""


@dataclass(frozen=True, slots=True)
class Card:
    """A headline figure."""

    title: str
    figure: str
    unit: str = ""
    detail: str = ""
    bar_percent: float | None = None
    level: Literal["ok", "warn", "alarm"] = "ok"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with an optional text, drawing and tables."""

    key: str
    title: str
    tables: Sequence[Table] = ()
    about: str = ""
    remarks: Sequence[str] = ()
    drawing: LineChart | Matrix | Lanes | None = None
    drawing_role: str = "drawing"


def render_page(
    *,
    title: str,
    subtitle: str = "",
    cards: Sequence[Card] = (),
    notes: Sequence[str] = (),
    sections: Sequence[Section] = (),
    foot: str = "",
) -> str:
    """Render the page; without scripts its tables are shown as text."""
    data = {
        "part": "document",
        "title": title,
        "subtitle": subtitle,
        "cards": [msgspec.to_builtins(card) for card in cards],
        "notes": list(notes),
        "sections": [_describe_section(section) for section in sections],
        "foot": foot,
    }
    return render_data_page("document", title, data, plain=_render_plain(subtitle, cards, notes, sections))


def _describe_section(section: Section) -> dict[str, Any]:
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
                "rows": table.format_cells(LONGEST_NAME),
                "bars": table.bar_column,
                "left_out": table.left_out,
            }
            for table in section.tables
        ],
    }


def _render_plain(subtitle: str, cards: Sequence[Card], notes: Sequence[str], sections: Sequence[Section]) -> str:
    lines = [subtitle, *(f"{card.title}: {card.figure} {card.unit} {card.detail}".strip() for card in cards), *notes]
    for section in sections:
        lines += ["", section.title, section.about, *section.remarks]
        for table in section.tables:
            lines += [table.title, format_plain(table.take(200)), table.left_out]
    text: str = "\n".join(lines)
    return text
