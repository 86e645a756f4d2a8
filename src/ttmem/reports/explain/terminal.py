# SPDX-License-Identifier: Apache-2.0
"""A diagnosis for a person at a terminal: one sentence, a picture to scale, the arithmetic, then what to do."""

import textwrap
from collections.abc import Iterator, Sequence

from ttmem.failures import Diagnosis, Remedy
from ttmem.reports.explain.picture import Line, draw
from ttmem.reports.explain.sentences import board_text, live_lines, place_text, saving_text
from ttmem.reports.kit.units import counted, one_line, thousands

_MOST_REMEDIES = 5
_MOST_GENERAL = 3
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
            lines += [(), (("-" * columns, "dim"),), ()]
        lines += _lines(diagnosis, columns, ascii_only)
    if len(diagnoses) > _MOST_SHOWN:
        more = counted(len(diagnoses) - _MOST_SHOWN, "more failure")
        lines += [(), ((f"{more}; --json lists all", "dim"),)]
    return _text(lines, color)


def _lines(diagnosis: Diagnosis, width: int, ascii_only: bool) -> Iterator[Line]:
    failure, nearest = diagnosis.failure, diagnosis.nearest
    yield ((place_text(diagnosis), "dim"),)
    yield from _wrapped(one_line(diagnosis.headline), width, style="bold")
    if diagnosis.picture is not None:
        yield ()
        for drawn in draw(diagnosis.picture, width=width, ascii_only=ascii_only):
            yield from _fitted(drawn, width)
    if diagnosis.arithmetic:
        yield ()
        yield from _arithmetic(diagnosis, width)
    yield from _listed("Why", list(_remarks(diagnosis)), width)
    yield from _listed("Alive when it failed", live_lines(diagnosis, _MOST_LIVE), width)
    if diagnosis.remedies:
        yield from _remedies(diagnosis.remedies, width)
    if failure.failure_class == "none" and failure.message:  # for the reader to judge
        yield from _titled("The text")
        yield from _wrapped(one_line(failure.message), width, first="  ", rest="  ")
    if nearest is not None:
        yield from _titled(
            f"The nearest known message ({nearest.template}, {round(100 * nearest.share)}% of its words)"
        )
        yield from _wrapped(nearest.text, width, first="  ", rest="  ")


def _titled(title: str) -> tuple[Line, Line]:
    return (), ((title, "bold"),)


def _listed(title: str, texts: Sequence[str], width: int) -> Iterator[Line]:
    if texts:
        yield from _titled(title)
    for text in texts:
        yield from _wrapped(text, width, first="  - ", rest="    ")


def _arithmetic(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    labels = max(len(figure.label) for figure in diagnosis.arithmetic)
    values = max(len(thousands(figure.value)) for figure in diagnosis.arithmetic)
    for figure in diagnosis.arithmetic:
        row = f"  {figure.label:<{labels}}  {thousands(figure.value):>{values}}  "
        yield from _wrapped(figure.note, width, first=row, rest=" " * len(row)) if figure.note else [((row, ""),)]


def _remarks(diagnosis: Diagnosis) -> Iterator[str]:
    yield from (one_line(finding.text) for finding in diagnosis.findings)
    if board := board_text(diagnosis.board):
        yield one_line(f"Board: {board}.")
    context = diagnosis.context
    named = [f"operation {context.operation}"] if context.operation else []
    named += [f"test {context.test}"] if context.test else []
    named += [f"{name}={value}" for name, value in context.settings.items()]
    if named:
        yield f"The text names {', '.join(map(one_line, named))}."


def _remedies(remedies: Sequence[Remedy], width: int) -> Iterator[Line]:
    """Those for this failure in full; general advice in a line each."""
    particular = [remedy for remedy in remedies if not remedy.is_general]
    shown = particular[:_MOST_REMEDIES] or remedies[:_MOST_GENERAL]
    yield from _titled("What to do")
    for number, remedy in enumerate(shown, 1):
        yield from _remedy(number, remedy, width)
    general = [remedy for remedy in remedies if remedy.is_general and remedy not in shown][:_MOST_GENERAL]
    yield from _listed("In general", [one_line(remedy.do) for remedy in general], width)
    left = len(remedies) - len(shown) - len(general)
    if left > 0:
        yield ((f"  {left} more: --llm lists all", "dim"),)


def _remedy(number: int, remedy: Remedy, width: int) -> Iterator[Line]:
    indent = " " * 5
    yield from _wrapped(one_line(remedy.do), width, first=f"{number:>3}. ", rest=indent)
    below = [(saving_text(remedy), "green" if remedy.solves else ""), (one_line(remedy.why), "dim")]
    if remedy.caution:
        below.append((f"Careful: {remedy.caution}", "dim"))
    if remedy.evidence:
        below.append((f"Shown by {', '.join(remedy.evidence)}", "dim"))
    for text, style in below:
        yield from _wrapped(text, width, first=indent, rest=indent, style=style)


def _wrapped(text: str, width: int, *, first: str = "", rest: str = "", style: str = "") -> Iterator[Line]:
    for line in textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False):
        yield ((line, style),)


def _fitted(line: Line, width: int) -> Iterator[Line]:
    """A line of the picture: the bar is made to fit, a legend that is too long goes on below itself."""
    if sum(len(text) for text, _ in line) + 2 <= width or len(line) != 1:
        yield (("  ", ""), *line)
    else:
        yield from _wrapped(line[0][0], width, first="  ", rest=" " * 6, style=line[0][1])


def _text(lines: Sequence[Line], color: bool) -> str:
    if not color:
        return "\n".join("".join(text for text, _ in line).rstrip() for line in lines) + "\n"
    from rich.text import Text  # a pipe needs none of it

    from ttmem.reports.kit.console import TextReport

    report = TextReport(_WIDEST + 10, color=True)
    for line in lines:
        report.print(Text.assemble(*line))
    return report.text()
