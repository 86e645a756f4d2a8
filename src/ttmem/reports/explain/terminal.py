# SPDX-License-Identifier: Apache-2.0
"""A diagnosis for a person at a terminal: one sentence, a picture to scale, the arithmetic, then what to do."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from ttmem.explain import Diagnosis, Remedy
from ttmem.reports.explain.picture import Line, Span, draw
from ttmem.reports.explain.sentences import (
    board_text,
    live_lines,
    place_text,
    saving_text,
    threads_text,
)
from ttmem.reports.kit.units import counted, one_line, thousands

_MOST_REMEDIES = 6
_MOST_LIVE = 5
_MOST_SHOWN = 20
_NARROWEST, _WIDEST = 40, 110
"""Longer lines than that are hard to read, however wide the terminal is."""


def render(diagnoses: Sequence[Diagnosis], *, width: int = 80, color: bool = False, ascii_only: bool = False) -> str:
    """The answer as text; colour by meaning only, so that nothing is lost without it."""
    columns = min(max(width, _NARROWEST), _WIDEST)
    lines: list[Line] = []
    for number, diagnosis in enumerate(diagnoses[:_MOST_SHOWN]):
        if number:
            lines += [(), (Span("-" * columns, "dim"),), ()]
        lines += _lines(diagnosis, columns, ascii_only)
    if len(diagnoses) > _MOST_SHOWN:
        more = counted(len(diagnoses) - _MOST_SHOWN, "more failure")
        lines += [(), (Span(f"{more}; --json lists all", "dim"),)]
    return _text(lines, color)


def _lines(diagnosis: Diagnosis, width: int, ascii_only: bool) -> Iterator[Line]:
    yield (Span(place_text(diagnosis), "dim"),)
    yield from _wrapped(one_line(diagnosis.headline), width, style="bold")
    if diagnosis.picture is not None:
        yield ()
        for drawn in draw(diagnosis.picture, width=width, ascii_only=ascii_only):
            yield from _fitted(drawn, width)
    if diagnosis.arithmetic:
        yield ()
        yield from _arithmetic(diagnosis, width)
    yield from _remarks(diagnosis, width)
    if diagnosis.live:
        yield ()
        yield (Span("Alive when it failed", "bold"),)
        for line in live_lines(diagnosis, _MOST_LIVE):
            yield from _wrapped(line, width, first="  - ", rest="    ")
    if diagnosis.remedies:
        yield ()
        yield (Span("What to do", "bold"),)
        for number, remedy in enumerate(diagnosis.remedies[:_MOST_REMEDIES], 1):
            yield from _remedy(number, remedy, width)
        left = len(diagnosis.remedies) - _MOST_REMEDIES
        if left > 0:
            yield (Span(f"  {left} more: --llm lists all", "dim"),)
    yield from _unknown(diagnosis, width)


def _arithmetic(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    labels = max(len(figure.label) for figure in diagnosis.arithmetic)
    values = max(len(thousands(figure.value)) for figure in diagnosis.arithmetic)
    for figure in diagnosis.arithmetic:
        row = f"  {figure.label:<{labels}}  {thousands(figure.value):>{values}}  "
        yield from _wrapped(figure.note, width, first=row, rest=" " * len(row)) if figure.note else [(Span(row),)]


def _remarks(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    remarks = [finding.text for finding in diagnosis.findings]
    if board := board_text(diagnosis.board):
        remarks.append(f"Board: {board}.")
    context = diagnosis.context
    named = [f"operation {context.operation}"] if context.operation else []
    named += [f"test {context.test}"] if context.test else []
    named += [f"{name}={value}" for name, value in context.settings.items()]
    if named:
        remarks.append(f"The text names {', '.join(map(one_line, named))}.")
    if remarks:
        yield ()
        yield (Span("Why", "bold"),)
    for remark in remarks:
        yield from _wrapped(one_line(remark), width, first="  - ", rest="    ")


def _remedy(number: int, remedy: Remedy, width: int) -> Iterator[Line]:
    indent = " " * 5
    yield from _wrapped(one_line(remedy.do), width, first=f"{number:>3}. ", rest=indent)
    if saving := saving_text(remedy):
        yield from _wrapped(saving, width, first=indent, rest=indent, style="green" if remedy.solves else "")
    yield from _wrapped(one_line(remedy.why), width, first=indent, rest=indent, style="dim")
    if remedy.caution:
        yield from _wrapped(f"Careful: {remedy.caution}", width, first=indent, rest=indent, style="dim")
    if remedy.evidence:
        text = f"Shown by {threads_text(remedy.evidence)}"
        yield from _wrapped(text, width, first=indent, rest=indent, style="dim")


def _unknown(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    """What the text says, for the reader to judge, and the known sentence that comes nearest."""
    if diagnosis.failure.failure_class != "none":
        return
    if diagnosis.failure.message:
        yield ()
        yield (Span("The text", "bold"),)
        yield from _wrapped(one_line(diagnosis.failure.message), width, first="  ", rest="  ")
    if diagnosis.nearest is not None:
        nearest = diagnosis.nearest
        yield ()
        share = f"{round(100 * nearest.share)}% of its words"
        yield (Span(f"The nearest known message ({nearest.template}, {share})", "bold"),)
        yield from _wrapped(nearest.text, width, first="  ", rest="  ")


def _wrapped(text: str, width: int, *, first: str = "", rest: str = "", style: str = "") -> Iterator[Line]:
    for line in textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=True
    ):
        yield (Span(line, style),)


def _fitted(line: Line, width: int) -> Iterator[Line]:
    """A line of the picture: the bar is made to fit, a legend that is too long goes on below itself."""
    if sum(len(span.text) for span in line) + 2 <= width or len(line) != 1:
        yield (Span("  "), *line)
        return
    yield from _wrapped(line[0].text, width, first="  ", rest=" " * 6, style=line[0].style)


def _text(lines: Sequence[Line], color: bool) -> str:
    if not color:
        return "\n".join("".join(span.text for span in line).rstrip() for line in lines) + "\n"
    from rich.text import Text  # a pipe needs none of it

    from ttmem.reports.kit.console import TextReport

    report = TextReport(_WIDEST + 10, color=True)
    for line in lines:
        report.print(Text.assemble(*((span.text, span.style) for span in line)))
    return report.text()
