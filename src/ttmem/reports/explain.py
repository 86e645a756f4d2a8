# SPDX-License-Identifier: Apache-2.0
"""A diagnosis as text for a terminal, as Markdown for an agent and as an issue report."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ttmem.base.formatting import (
    flatten_text,
    format_bytes,
    format_count,
    format_operation,
    format_shape,
    pluralize,
    shorten,
)
from ttmem.failures.diagnosis.board_guess import BoardGuess
from ttmem.failures.diagnosis.diagnose import Diagnosis, Remedy
from ttmem.failures.diagnosis.failure_state import LiveTensor
from ttmem.failures.diagnosis.memory_diagram import Picture, Stretch
from ttmem.reports.explain_privacy import Mask
from ttmem.reports.kit import tables, templates
from ttmem.reports.kit.tables import Table, name_column, number_column, text_column

_OWNER = "tenstorrent"


def describe_saving(remedy: Remedy) -> str:
    """Describe the bytes that a remedy saves and whether that is enough; empty when neither is known."""
    parts = []
    per_bank, whole = remedy.saves_bytes_per_bank, remedy.saves_bytes
    if per_bank is not None:
        is_of_core = whole is None or whole == per_bank
        where = "per core" if is_of_core else f"per bank, {format_bytes(whole or 0)} on the chip"
        parts.append(f"saves {format_bytes(per_bank)} {where}")
    if remedy.solves is not None:
        parts.append("enough by itself" if remedy.solves else "not enough by itself")
    return "; ".join(parts)


def find_thread_url(thread: str) -> str:
    """Return the URL of a thread: ``tt-metal#15746`` is an issue (or pull request) of that repository."""
    repository, _, number = thread.partition("#")
    return f"https://github.com/{_OWNER}/{repository}/issues/{number}"


def describe_board(board: BoardGuess) -> str:
    """Describe the inferred board and build: ``n150, n300, t3k or galaxy (wormhole, likely); ...``."""
    if board.architecture is None:
        return ""
    listed = " or ".join(filter(None, (", ".join(board.boards[:-1]), *board.boards[-1:])))
    text = f"{listed} ({board.architecture}, {board.confidence})" if listed else f"{board.architecture} (possible)"
    details = [*(f"from {reason}" for reason in board.reasons), *board.build]
    return "; ".join([text, *details])


def build_figures_table(diagnosis: Diagnosis) -> Table:
    """Build the table of the arithmetic; allocator figures are per bank."""
    columns = [text_column("Figure"), number_column("Bytes"), name_column("How")]
    return Table(columns, [[figure.label, figure.value, figure.note] for figure in diagnosis.arithmetic])


def describe_place(diagnosis: Diagnosis) -> str:
    """Return class, memory and line: ``oom/fragmented in DRAM, line 2``."""
    failure = diagnosis.failure
    text = failure.failure_class + (f" in {failure.memory}" if failure.memory else "")
    if failure.line:
        text += f", line {format_count(failure.line)}"
    return text + (" (a warning: the program went on)" if failure.is_warning else "")


def describe_live_tensor(tensor: LiveTensor, *, with_name: bool = True) -> str:
    """``%5 1x32x64 (bf16), 2.00 MiB per bank, from #12 ttnn.add at model.py:41``."""
    shape = format_shape(tensor.shape, tensor.dtype) if tensor.shape else tensor.dtype
    parts = [f"{flatten_text(tensor.name)} {shape}".strip() if with_name else shape or "a buffer"]
    parts.append(f"{format_bytes(tensor.bytes_per_bank)} per bank")
    if tensor.is_weight:
        parts.append("a weight")
    if tensor.producer:
        made = f"from {flatten_text(format_operation(tensor.producer_index, tensor.producer))}"
        if with_name and tensor.location:
            made += f" at {flatten_text(tensor.location)}"
        if with_name and tensor.line and not tensor.location.endswith(f":{tensor.line}"):
            made += f", line {format_count(tensor.line)}"
        parts.append(made)
    return ", ".join(parts)


def list_advice(diagnosis: Diagnosis, most: int = 3) -> list[str]:
    """List the first remedies, one line each: the action, its saving, its evidence."""
    lines = []
    for remedy in diagnosis.remedies[:most]:
        notes = "; ".join(filter(None, (describe_saving(remedy), ", ".join(remedy.evidence[:3]))))
        lines.append(flatten_text(remedy.do) + (f" ({notes})" if notes else ""))
    return lines


def list_live_lines(diagnosis: Diagnosis, most: int, *, with_names: bool = True) -> list[str]:
    """List the largest live tensors, one line each, and one line for the rest."""
    ordered = sorted(diagnosis.live, key=lambda tensor: -tensor.bytes_per_bank)
    lines = [describe_live_tensor(tensor, with_name=with_names) for tensor in ordered[:most]]
    if rest := ordered[most:]:
        left = format_bytes(sum(tensor.bytes_per_bank for tensor in rest))
        lines.append(f"{pluralize(len(rest), 'smaller tensor')}, {left} per bank")
    return lines


_LOOKS = {
    "reserved": (".", "░", "dim"),
    "buffers": ("#", "▓", "yellow"),
    "overlap": ("X", "X", "bold red"),
    "tensors": ("@", "█", "cyan"),
    "free": ("_", "_", "green"),
    "scattered": (":", ":", "green"),
    "l1_small": ("s", "s", "blue"),
    "beyond": (">", ">", "bold red"),
    "request": ("R", "R", "magenta"),
    "unknown": ("?", "?", ""),
}
"""Kind -> (ASCII, with block characters, colour): kinds differ by character, so that nothing is lost without colour."""

Line = tuple[tuple[str, str], ...]
"""Texts with their styles."""


def draw_picture(picture: Picture, *, width: int, ascii_only: bool = False) -> list[Line]:
    """Draw the title, the bar, the request below it to the same scale, and a legend."""
    cells = max(20, width - 4)
    if picture.end is None:
        scale, columns = "not to scale", [(one, cells // len(picture.stretches)) for one in picture.stretches]
    else:
        scale = f"one cell is {format_count(max(1, (picture.end - picture.start) // cells))} B"
        columns = _scale_columns(picture.stretches, picture.start, picture.end, cells)
    bar = [(_find_look(stretch, ascii_only), count) for stretch, count in columns]
    lines: list[Line] = [
        ((f"{picture.title}; {scale}", ""),),
        tuple((cell * count, style) for (cell, style), count in bar),
    ]
    shown = [stretch for stretch, _ in columns]
    if picture.request is not None and picture.end is not None:
        width_bytes = picture.end - picture.start
        cell, style = _find_look(picture.request, ascii_only)
        wide = max(1, round(picture.request.bytes * cells / width_bytes))
        lines.append(((cell * min(wide, cells), style),))
        shown.append(picture.request)
    lines += _build_legend(shown, ascii_only, addresses=not picture.is_schematic)
    notes = list(picture.notes)
    if picture.is_schematic:
        notes.append("amounts are to scale; the message does not say where in the bank they are")
    return lines + [((f"({note})", "dim"),) for note in notes]


def _find_look(stretch: Stretch, ascii_only: bool) -> tuple[str, str]:
    is_scattered = stretch.kind == "free" and stretch.label.startswith("all other")
    plain, block, style = _LOOKS["scattered" if is_scattered else stretch.kind]
    return plain if ascii_only else block, style


def _scale_columns(every: Sequence[Stretch], start: int, end: int, cells: int) -> list[tuple[Stretch, int]]:
    """Assign cells to each stretch, at least one; borders are rounded, so that errors do not add up."""
    stretches = [stretch for stretch in every if stretch.bytes > 0]
    counts: list[int] = []
    for stretch in stretches:
        border = round((stretch.end - start) * cells / (end - start))
        counts.append(max(1, border - sum(counts)))
    while sum(counts) > cells and max(counts) > 1:
        counts[counts.index(max(counts))] -= 1  # tiny stretches got a cell each: the largest gives them up
    return list(zip(stretches, counts, strict=True))


def _build_legend(stretches: list[Stretch], ascii_only: bool, *, addresses: bool) -> list[Line]:
    """Build the legend, with one row for all tensors with known addresses: the list of live tensors names them."""
    merged: dict[tuple[str, str], list[Stretch]] = {}
    for stretch in stretches:
        is_one_of_many = addresses and stretch.kind == "tensors" and not stretch.label.startswith("tensors")
        label = "tensors, growing down" if is_one_of_many else stretch.label
        merged.setdefault((stretch.kind, label), []).append(stretch)
    totals = [sum(stretch.bytes for stretch in group) for group in merged.values()]
    amounts = [f"{format_count(total)} B" if total else "unknown" for total in totals]
    wide = max(map(len, amounts), default=0)
    lines: list[Line] = []
    for amount, ((kind, label), group) in zip(amounts, merged.items(), strict=True):
        has_place = addresses and len(group) == 1 and kind != "request"
        upper = format_count(group[-1].end) if group[-1].bytes else "?"
        place = f"  {format_count(group[0].start)} to {upper}" if has_place else ""
        cell, style = _find_look(group[0], ascii_only)
        lines.append(((f"{cell} {amount:>{wide}}  {label}{place}", style),))
    return lines


_MOST_REMEDIES = 5
_MOST_GENERAL = 3
_MOST_LIVE = 5
_MOST_SHOWN = 20
_NARROWEST, _WIDEST = 40, 110
"""Longer lines are hard to read, however wide the terminal is."""


def render_terminal(
    diagnoses: Sequence[Diagnosis], *, width: int = 80, color: bool = False, ascii_only: bool = False
) -> str:
    """Render the diagnoses: a sentence, a picture to scale, the arithmetic, then what to do."""
    columns = min(max(width, _NARROWEST), _WIDEST)
    lines: list[Line] = []
    for number, diagnosis in enumerate(diagnoses[:_MOST_SHOWN]):
        if number:
            lines += [(), (("-" * columns, "dim"),), ()]
        lines += _build_lines(diagnosis, columns, ascii_only)
    if len(diagnoses) > _MOST_SHOWN:
        more = pluralize(len(diagnoses) - _MOST_SHOWN, "more failure")
        lines += [(), ((f"{more}; --json lists all", "dim"),)]
    return _join_lines(lines, color)


def _build_lines(diagnosis: Diagnosis, width: int, ascii_only: bool) -> Iterator[Line]:
    failure, nearest = diagnosis.failure, diagnosis.nearest
    yield ((describe_place(diagnosis), "dim"),)
    yield from _wrap(flatten_text(diagnosis.headline), width, style="bold")
    if diagnosis.picture is not None:
        yield ()
        for drawn in draw_picture(diagnosis.picture, width=width, ascii_only=ascii_only):
            yield from _fit_line(drawn, width)
    if diagnosis.arithmetic:
        yield ()
        yield from _build_arithmetic(diagnosis, width)
    yield from _build_list("Why", list(_list_remarks(diagnosis)), width)
    yield from _build_list("Alive when it failed", list_live_lines(diagnosis, _MOST_LIVE), width)
    if diagnosis.remedies:
        yield from _build_remedies(diagnosis.remedies, width)
    if failure.failure_class == "none" and failure.message:  # for the reader to judge
        yield from _build_heading("The text")
        yield from _wrap(flatten_text(failure.message), width, first="  ", rest="  ")
    if nearest is not None:
        yield from _build_heading(
            f"The nearest known message ({nearest.template}, {round(100 * nearest.share)}% of its words)"
        )
        yield from _wrap(nearest.text, width, first="  ", rest="  ")


def _build_heading(title: str) -> tuple[Line, Line]:
    return (), ((title, "bold"),)


def _build_list(title: str, texts: Sequence[str], width: int) -> Iterator[Line]:
    if texts:
        yield from _build_heading(title)
    for text in texts:
        yield from _wrap(text, width, first="  - ", rest="    ")


def _build_arithmetic(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    labels = max(len(figure.label) for figure in diagnosis.arithmetic)
    values = max(len(format_count(figure.value)) for figure in diagnosis.arithmetic)
    for figure in diagnosis.arithmetic:
        row = f"  {figure.label:<{labels}}  {format_count(figure.value):>{values}}  "
        yield from _wrap(figure.note, width, first=row, rest=" " * len(row)) if figure.note else [((row, ""),)]


def _list_remarks(diagnosis: Diagnosis) -> Iterator[str]:
    yield from (flatten_text(finding.text) for finding in diagnosis.findings)
    if board := describe_board(diagnosis.board):
        yield flatten_text(f"Board: {board}.")
    context = diagnosis.context
    named = [f"operation {context.operation}"] if context.operation else []
    named += [f"test {context.test}"] if context.test else []
    named += [f"{name}={value}" for name, value in context.settings.items()]
    if named:
        yield f"The text names {', '.join(map(flatten_text, named))}."


def _build_remedies(remedies: Sequence[Remedy], width: int) -> Iterator[Line]:
    """Render the remedies for this failure in full, and general advice in one line each."""
    particular = [remedy for remedy in remedies if not remedy.is_general]
    shown = particular[:_MOST_REMEDIES] or remedies[:_MOST_GENERAL]
    yield from _build_heading("What to do")
    for number, remedy in enumerate(shown, 1):
        yield from _build_remedy(number, remedy, width)
    general = [remedy for remedy in remedies if remedy.is_general and remedy not in shown][:_MOST_GENERAL]
    yield from _build_list("In general", [flatten_text(remedy.do) for remedy in general], width)
    left = len(remedies) - len(shown) - len(general)
    if left > 0:
        yield ((f"  {left} more: --llm lists all", "dim"),)


def _build_remedy(number: int, remedy: Remedy, width: int) -> Iterator[Line]:
    indent = " " * 5
    yield from _wrap(flatten_text(remedy.do), width, first=f"{number:>3}. ", rest=indent)
    below = [(describe_saving(remedy), "green" if remedy.solves else ""), (flatten_text(remedy.why), "dim")]
    if remedy.caution:
        below.append((f"Careful: {remedy.caution}", "dim"))
    if remedy.evidence:
        below.append((f"Shown by {', '.join(remedy.evidence)}", "dim"))
    for text, style in below:
        yield from _wrap(text, width, first=indent, rest=indent, style=style)


def _wrap(text: str, width: int, *, first: str = "", rest: str = "", style: str = "") -> Iterator[Line]:
    for line in textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False):
        yield ((line, style),)


def _fit_line(line: Line, width: int) -> Iterator[Line]:
    """Fit a line of the picture: the bar has the right width, a legend that is too long is wrapped."""
    if sum(len(text) for text, _ in line) + 2 <= width or len(line) != 1:
        yield (("  ", ""), *line)
    else:
        yield from _wrap(line[0][0], width, first="  ", rest=" " * 6, style=line[0][1])


def _join_lines(lines: Sequence[Line], color: bool) -> str:
    if not color:
        return "\n".join("".join(text for text, _ in line).rstrip() for line in lines) + "\n"
    from rich.text import Text  # a pipe needs none of it

    from ttmem.reports.kit.console import TextReport

    report = TextReport(_WIDEST + 10, color=True)
    for line in lines:
        report.print(Text.assemble(*line))
    return report.render()


_MOST_BYTES = 24_000
_MESSAGE_WIDTH = 600
_MOST_LIVE_IN_MARKDOWN = 10


def render_markdown(diagnoses: Sequence[Diagnosis]) -> str:
    """Render compact Markdown for an LLM agent; failures beyond its limit are counted, not shown."""
    parts: list[str] = []
    size = 0
    for number, diagnosis in enumerate(diagnoses):
        message = shorten(diagnosis.failure.message, _MESSAGE_WIDTH)
        part = fill_template("explanation", diagnosis, message=message, most_live=_MOST_LIVE_IN_MARKDOWN)
        size += len(part.encode("utf-8", "replace"))
        if parts and size > _MOST_BYTES:
            parts.append(f"{len(diagnoses) - number} more failures (`--json` lists all)")
            break
        parts.append(part)
    return "\n\n".join(parts) + "\n"


def fill_template(template: str, diagnosis: Diagnosis, **more: Any) -> str:
    """Render a Markdown template about one diagnosis."""
    return templates.render_template(
        f"{template}.md.j2",
        diagnosis=diagnosis,
        describe_place=describe_place,
        describe_board=describe_board,
        build_figures_table=build_figures_table,
        list_live_lines=list_live_lines,
        describe_saving=describe_saving,
        find_thread_url=find_thread_url,
        format_markdown=tables.format_markdown,
        flatten_text=flatten_text,
        in_brackets=lambda text: f" ({text})" if text else "",
        **more,
    ).rstrip()


_MOST_LIVE_IN_ISSUE = 15
_MOST_REMEDIES_IN_ISSUE = 5


def render_issue(diagnoses: Sequence[Diagnosis], *, private_names: Iterable[str] = (), mask: Mask | None = None) -> str:
    """Render an issue report; ``mask`` removes private text from the user's words and records it."""
    mask = mask or Mask(private_names)
    reports = (
        fill_template(
            "issue",
            diagnosis,
            facts=_list_facts(diagnosis, mask),
            public=mask.mask_sentence,
            quoted=mask.mask_quotation,
            most_live=_MOST_LIVE_IN_ISSUE,
            most_remedies=_MOST_REMEDIES_IN_ISSUE,
        )
        for diagnosis in diagnoses
    )
    return "\n\n".join(reports) + "\n"


def _list_facts(diagnosis: Diagnosis, mask: Mask) -> dict[str, str]:
    failure, context = diagnosis.failure, diagnosis.context
    return {
        "Class": f"{failure.failure_class}, {diagnosis.confidence}",
        "Raised at": mask.mask_quotation(failure.texts.get("file", "")),
        "Operation": mask.mask_quotation(context.operation),
        "Test": mask.mask_quotation(re.sub(r"^[^\s\[]*/", "", context.test)),
        "Board and build (inferred)": describe_board(diagnosis.board),
        "Tensor (inferred)": diagnosis.tensor.text if diagnosis.tensor else "",
        "Settings named in the log": ", ".join(f"{name}={value}" for name, value in context.settings.items()),
    }
