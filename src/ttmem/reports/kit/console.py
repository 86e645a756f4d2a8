# SPDX-License-Identifier: Apache-2.0
"""Text for a person: one console for all reports, at least 40 columns wide, coloured only where asked."""

import io

from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from ttmem._gate import Styled, visible
from ttmem.reports.kit.tables import Table

NARROWEST = 40


class TextReport:
    """What is printed here becomes one text, without blanks at the ends of lines.

    Nothing is interpreted on the way (no markup, no emoji codes, no highlighting): names come from logs.
    """

    def __init__(self, width: int = 100, *, color: bool = False) -> None:
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
        """Each part on lines of its own; nothing at all is an empty line."""
        for part in parts or ("",):
            self._console.print(gated(rich_table(part) if isinstance(part, Table) else part), style=style or None)

    def print_unfolded(self, line: str) -> None:
        """A line of a drawing: cut at the edge, because a folded one shows nothing."""
        self._console.print(gated(line), no_wrap=True, overflow="crop")

    def titled(self, table: Table, *, spaced: bool = True) -> None:
        """A table below its title, after an empty line."""
        if spaced:
            self.print()
        self.print(table.title, style="bold")
        self.print(table)
        if table.left_out:
            self.print(table.left_out)

    def text(self) -> str:
        """All of it; nothing in it but our own colours is obeyed by a terminal."""
        lines = self._file.getvalue().removesuffix("\n").split("\n")
        return Styled("\n".join(line.rstrip() for line in lines) + "\n")


class _Gated:
    def __init__(self, drawn: RenderableType) -> None:
        self._drawn = drawn

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._drawn, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def gated(drawn: RenderableType) -> RenderableType:
    """The same, with every text in it gone through the gate before colours are added."""
    return _Gated(Text(drawn) if isinstance(drawn, str) else drawn)


def rich_table(table: Table) -> RichTable:
    """For a terminal: no borders, figures to the right, names folded where the width ends."""
    drawn = RichTable(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in table.columns:
        is_number = column.kind == "number"
        justify: JustifyMethod = "right" if is_number else "left"
        drawn.add_column(Text(column.head), justify=justify, no_wrap=is_number, overflow="fold")
    for row, cells in zip(table.rows, table.cells(), strict=True):
        styles = (column.style(value) if column.style else "" for column, value in zip(table.columns, row, strict=True))
        drawn.add_row(*map(Text, cells, styles))
    return drawn
