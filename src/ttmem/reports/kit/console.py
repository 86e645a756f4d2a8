# SPDX-License-Identifier: Apache-2.0
"""Text for a person: one console for all reports, at least 40 columns wide, coloured only where asked."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from ttmem.base.text_safety import Styled, escape_control_characters
from ttmem.reports.kit.tables import Table

if TYPE_CHECKING:  # rich takes longer to load than a JSON answer to compute
    from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
    from rich.table import Table as RichTable

NARROWEST = 40
_GAP = 2
_NARROWEST_NAME = 14


class TextReport:
    """Collects what is printed into one text, without blanks at the ends of lines.

    Nothing is interpreted on the way (no markup, no emoji codes, no highlighting): names come from logs.
    """

    def __init__(self, width: int = 100, *, color: bool = False) -> None:
        from rich.console import Console

        self.width = max(width, NARROWEST)
        self._file = io.StringIO()
        self._console = Console(
            file=self._file,
            width=self.width,
            force_terminal=color,
            color_system="standard" if color else None,
            no_color=not color,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def print(self, *parts: RenderableType | Table, style: str = "") -> None:
        """Print each part on its own lines; without parts an empty line."""
        for part in parts or ("",):
            if isinstance(part, Table):
                self._print_table(part)
            else:
                self._console.print(escape_renderable(part), style=style or None)

    def _print_table(self, table: Table) -> None:
        """Print a table; lines may be longer than the terminal, because a figure must not be broken."""
        drawn = build_rich_table(table, self.width)
        needed = sum((column.width or 0) + _GAP for column in drawn.columns)
        self._console.width = max(needed, self.width)  # print(width=...) never goes beyond the console's own
        self._console.print(escape_renderable(drawn))
        self._console.width = self.width
        shown = [str(column.header) for column in drawn.columns]
        missing = list(dict.fromkeys(head for head in table.heads if head and head not in shown))
        if missing and table.names_omitted:
            self.print(f"(columns left out: {', '.join(missing)})", style="dim")

    def print_unfolded(self, line: str) -> None:
        """Print a line of a drawing, cut at the edge: a folded one shows nothing."""
        self._console.print(escape_renderable(line), no_wrap=True, overflow="crop")

    def print_whole(self, line: str) -> None:
        """Print a line to be copied; it may be longer than the terminal."""
        self._console.print(escape_renderable(line), no_wrap=True, overflow="ignore", crop=False)

    def print_titled(self, table: Table, *, spaced: bool = True) -> None:
        """Print a table below its title, after an empty line."""
        if spaced:
            self.print()
        self.print(table.title, style="bold")
        self.print(table)
        if table.left_out:
            self.print(table.left_out)

    def render(self) -> str:
        """Return the whole text; a terminal obeys nothing in it but our own colours."""
        lines = self._file.getvalue().removesuffix("\n").split("\n")
        return Styled("\n".join(line.rstrip() for line in lines) + "\n")


class _EscapedRenderable:
    def __init__(self, drawn: RenderableType) -> None:
        self._drawn = drawn

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        for segment in console.render(self._drawn, options):
            yield segment if segment.control else Segment(escape_control_characters(segment.text), segment.style)


def escape_renderable(drawn: RenderableType) -> RenderableType:
    """Return the renderable with control characters escaped before colours are added."""
    from rich.text import Text

    return _EscapedRenderable(Text(drawn) if isinstance(drawn, str) else drawn)


def build_rich_table(table: Table, width: int = 100) -> RichTable:
    """Build a table for a terminal of this width: no borders, figures to the right and never broken.

    Columns that can be spared are left out first, then names are cut.
    """
    from rich.table import Table as RichTable
    from rich.text import Text

    table, widths = _fit_columns(table, width)
    drawn = RichTable(
        box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0), show_header=any(table.heads)
    )
    cells: list[list[str]] = []
    for column, values, fitting in zip(table.columns, _split_columns(table), widths, strict=True):
        texts = column.format_values(values)
        is_cut = column.kind == "name" and not column.whole and fitting < max(map(len, texts), default=0)
        if is_cut and not any(" " in text for text in texts):
            texts = column.format_values(values, fitting)
            is_cut = False
        justify: JustifyMethod = "right" if column.kind == "number" else "left"
        drawn.add_column(Text(column.head), justify=justify, width=fitting, no_wrap=not is_cut, overflow="fold")
        cells.append(texts)
    for row, texts_of_row in zip(table.rows, zip(*cells, strict=True), strict=True):
        styles = (column.style(value) if column.style else "" for column, value in zip(table.columns, row, strict=True))
        drawn.add_row(*map(Text, texts_of_row, styles))
    return drawn


def _split_columns(table: Table) -> list[tuple[Any, ...]]:
    return list(zip(*table.rows, strict=True)) if table.rows else [()] * len(table.columns)


def _fit_columns(table: Table, width: int) -> tuple[Table, list[int]]:
    """Return the columns that fit, and their widths."""
    while True:
        natural = [
            max(len(column.head), *(len(text) for text in column.format_values(values)), 0)
            for column, values in zip(table.columns, _split_columns(table), strict=True)
        ]
        narrowest = [
            min(size, max(_NARROWEST_NAME, len(column.head))) if column.kind == "name" and not column.whole else size
            for column, size in zip(table.columns, natural, strict=True)
        ]
        room = width - _GAP * (len(natural) - 1)
        spare = [(column.spare, place) for place, column in enumerate(table.columns) if column.spare]
        if sum(narrowest) <= room or not spare:
            break
        table = table.drop(max(spare)[1])
    widths = list(natural)
    while sum(widths) > room:
        widest = max(range(len(widths)), key=lambda at: (widths[at] > narrowest[at], widths[at]))
        if widths[widest] <= narrowest[widest]:
            break
        widths[widest] -= 1
    return table, widths
