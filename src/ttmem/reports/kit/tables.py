# SPDX-License-Identifier: Apache-2.0
"""A table as values: its columns know how a value is written, so every format writes the same rows.

A report builds one ``Table``; a renderer picks the columns it has room for (``select``), the rows (``take``), how long
a name may be, and turns it into text, Markdown, CSV or the rows of a page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ttmem.base import formatting

Kind = Literal["text", "name", "number"]
Row = Sequence[Any]

_WIDEST = 400
"""Cells of plain text are padded to at most this width: one very long cell would make all others as long."""
_CSV_SPECIAL = re.compile(r'[",\r\n]')


@dataclass(frozen=True, slots=True)
class Column:
    """A fact about each row.

    ``number`` is set to the right and sorts as one, ``name`` is cut where there is no room for it (or folded, when it
    is several words), ``text`` stays on its line.
    """

    head: str
    kind: Kind = "text"
    write: Callable[[Any], str] = str
    """Writes a value, without its unit: the head names that."""
    unknown: str = "-"
    """The text for None."""
    style: Callable[[Any], str] | None = None
    """The terminal's colour for a value; by meaning only, so that nothing is lost without it."""
    most: int | None = None
    """The longest text in this column, whatever the renderer allows."""
    whole: bool = False
    """Never cut: a place such as ``#12-#340`` says nothing without its end."""
    spare: int = 0
    """Left out where a terminal is too narrow for all columns, the highest first; 0: never."""

    def format_values(self, values: Sequence[Any], longest: int | None = None) -> list[str]:
        """Format the column's cells; names and texts are cut to fit, and stay distinct where possible."""
        texts = [self.unknown if value is None else formatting.flatten_text(self.write(value)) for value in values]
        widths = [width for width in (self.most, longest) if width is not None]
        if self.kind == "number" or self.whole or not widths:
            return texts
        return formatting.shorten_all(texts, min(widths))


def text_column(head: str, **more: Any) -> Column:
    return Column(head, "text", **more)


def name_column(head: str, **more: Any) -> Column:
    """A column of names of any length."""
    return Column(head, "name", **more)


def number_column(head: str, write: Callable[[Any], str] = formatting.format_count, **more: Any) -> Column:
    """A column of counts, or of any figure that ``write`` writes."""
    return Column(head, "number", write, **more)


def mib_column(head: str, *, decimals: int = 3, signed: bool = False, **more: Any) -> Column:
    """A column of bytes, written in MiB."""
    return number_column(
        head, lambda value: formatting.format_mib_number(value, decimals=decimals, signed=signed), **more
    )


def percent_column(head: str, *, signed: bool = False, **more: Any) -> Column:
    return number_column(head, lambda value: formatting.format_percent(value, signed=signed), **more)


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows of values."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""
    left_out: str = ""
    """A note on rows that are not shown: ``12 more ...``."""
    bars: str | None = None
    """The head of the column whose figure a page also draws as a bar."""
    names_omitted: bool = True
    """Whether a terminal that is too narrow lists the columns that it leaves out."""

    @classmethod
    def build(cls, heads: Sequence[str], rows: Iterable[Row], *, left: int | None = None, title: str = "") -> Table:
        """Build a table of formatted cells; the first ``left`` columns are words, the others figures."""
        left = len(heads) if left is None else left
        columns = [name_column(head) if number < left else Column(head, "number") for number, head in enumerate(heads)]
        return cls(columns, list(rows), title)

    def select(self, *heads: str) -> Table:
        """Return the table with these columns, in this order."""
        places = [self._place(head) for head in heads]
        return replace(
            self,
            columns=[self.columns[place] for place in places],
            rows=[[row[place] for place in places] for row in self.rows],
        )

    def change_column(self, head: str, /, **changes: Any) -> Table:
        """Return the table with one column changed (``unknown=``, ``most=``, ``write=``, ``head=``)."""
        place = self._place(head)
        columns = [replace(column, **changes) if at == place else column for at, column in enumerate(self.columns)]
        return replace(self, columns=columns)

    def take(self, most: int) -> Table:
        return replace(self, rows=self.rows[:most])

    def format_cells(self, longest: int | None = None) -> list[list[str]]:
        """Format all rows; ``longest`` limits names and texts."""
        columns = zip(*self.rows, strict=True) if self.rows else ()
        texts = [column.format_values(values, longest) for column, values in zip(self.columns, columns, strict=False)]
        return [list(row) for row in zip(*texts, strict=True)]

    def drop(self, place: int) -> Table:
        """Return the table without the column at this position."""
        columns = [column for at, column in enumerate(self.columns) if at != place]
        return replace(self, columns=columns, rows=[[*row[:place], *row[place + 1 :]] for row in self.rows])

    @property
    def heads(self) -> list[str]:
        return [column.head for column in self.columns]

    @property
    def bar_column(self) -> int | None:
        """The position of the column with bars."""
        return None if self.bars is None else self._place(self.bars)

    def _place(self, head: str) -> int:
        if head not in self.heads:
            raise ValueError(f"no column '{head}' in {self.heads}")
        return self.heads.index(head)


def format_markdown(
    table: Table, *, longest: int | None = None, aligned: bool = False, markup: bool = True
) -> list[str]:
    """Format the lines of a Markdown table; without rows there is none.

    ``aligned`` sets figures to the right; without ``markup`` the markup in cells is escaped.
    """
    if not table.rows:
        return []
    rule = ["---:" if aligned and column.kind == "number" else "---" for column in table.columns]
    lines = [table.heads, rule, *table.format_cells(longest)]
    return ["| " + " | ".join(_escape_cell(cell, markup) for cell in line) + " |" for line in lines]


def escape_markup(text: str) -> str:
    """Escape elements and emphasis of Markdown: C++ code is full of text that looks like them."""
    return formatting.flatten_text(text).replace("<", "&lt;").replace("*", "\\*")


def _escape_cell(text: str, markup: bool) -> str:
    """Escape what Markdown takes for the end of a cell."""
    text = text.replace("\\", "\\\\").replace("|", "\\|")
    return text if markup else escape_markup(text)


def format_plain(table: Table, *, gap: str = "  ", rule: str = "") -> str:
    """Format columns of plain text as wide as their cells: nothing is cut or folded, because names are copied.

    ``rule`` joins the dashes of a line below the heads.
    """
    rows = [table.heads, *table.format_cells()]
    widths = [min(_WIDEST, max(map(len, column))) for column in zip(*rows, strict=True)]
    right = [column.kind == "number" for column in table.columns]
    lines = [
        gap.join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], *([rule.join("-" * width for width in widths)] if rule else []), *lines[1:]])


def format_csv_line(cells: Iterable[str]) -> str:
    """Format a line as in RFC 4180: only cells with separators are quoted."""
    return ",".join('"' + cell.replace('"', '""') + '"' if _CSV_SPECIAL.search(cell) else cell for cell in cells)


def format_csv(table: Table) -> str:
    """Format heads and bare values; unknown values are empty cells."""
    rows = [table.heads, *(["" if value is None else str(value) for value in row] for row in table.rows)]
    return "".join(f"{format_csv_line(row)}\n" for row in rows)
