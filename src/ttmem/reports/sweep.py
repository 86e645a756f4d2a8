# SPDX-License-Identifier: Apache-2.0
"""The answers of ``ttmem sweep run`` and ``sweep limits``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, floor, log2
from typing import TYPE_CHECKING, Any

import msgspec

from ttmem.base.formatting import (
    flatten_text,
    format_bytes,
    format_count,
    format_mib_number,
    format_shape_list,
    pluralize,
)
from ttmem.failures.outcome import STATUSES
from ttmem.operators.sweeps.comparison import Deviation
from ttmem.operators.sweeps.limits import Frontier
from ttmem.operators.sweeps.result import Result
from ttmem.operators.sweeps.run import Finished
from ttmem.reports.kit.charts import Axis, Curve, LineChart, Tick, draw_svg
from ttmem.reports.kit.console import TextReport, build_rich_table
from ttmem.reports.kit.documents import Document
from ttmem.reports.kit.pages import Card, Section, render_page
from ttmem.reports.kit.tables import Table, number_column, text_column
from ttmem.reports.sweep_tables import render_markdown_table
from ttmem.twin.operations import BOUNDED, UNKNOWN

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ttmem.operators.sweeps.limits import SizeLimit
    from ttmem.operators.sweeps.run import Progress


LIMITS_NOTE = (
    "Found by doubling one dimension until it fails and bisecting: the shape passes alone on an empty device, one more "
    "along the grown dimension does not. The residents of a model leave less."
)


class Unexpected(Document, frozen=True):
    """A result that differs from the expected one."""

    id: str
    """Of the case."""
    board: str
    memory: str
    layout: str
    op: str
    status: str
    message: str
    expected: str


class SweepRunDocument(Document, frozen=True, tag_field="schema", tag="ttmem.sweep-run/1"):
    """The result of a sweep."""

    folder: str
    results: str
    """The file with a line per case, board, memory and layout."""
    total: int = msgspec.field(name="cases")
    asked: int
    """By this command."""
    resumed: int
    """Results of earlier commands."""
    seconds: float
    statuses: Mapping[str, Mapping[str, Mapping[str, int]]]
    """Board -> memory -> status -> number of results."""
    not_judged: int
    """Results, all of status ``unsupported``, that say neither pass nor failure."""
    unexpected: Sequence[Unexpected]


def build_run(finished: Finished, results: Iterable[Result], unexpected: Sequence[Deviation]) -> SweepRunDocument:
    """Build the document of a sweep."""
    statuses: dict[str, dict[str, dict[str, int]]] = {}
    not_judged = 0
    for result in results:
        not_judged += not result.is_judged
        here = statuses.setdefault(result.board, {}).setdefault(result.memory, {})
        here[result.status] = here.get(result.status, 0) + 1
    return SweepRunDocument(
        folder=str(finished.folder),
        results=str(finished.results),
        total=finished.total,
        asked=finished.asked,
        resumed=finished.resumed,
        seconds=round(finished.seconds, 3),
        statuses=statuses,
        not_judged=not_judged,
        unexpected=[
            Unexpected(
                id=one.result.id,
                board=one.result.board,
                memory=one.result.memory,
                layout=one.result.layout,
                op=one.result.op,
                status=one.result.status,
                message=one.result.message,
                expected=one.expected,
            )
            for one in unexpected
        ],
    )


class SweepLimits(Document, frozen=True, tag_field="schema", tag="ttmem.sweep-limits/1"):
    """The largest shapes that pass."""

    limits: Sequence[Frontier]
    note: str


def build_limits(frontiers: Sequence[Frontier]) -> SweepLimits:
    """Build the document of frontiers."""
    return SweepLimits(limits=frontiers, note=LIMITS_NOTE)


_COLORS = {"pass": "green", "oom": "red", "clash": "red", "overflow": "red", "crash": "magenta", "timeout": "magenta"}
_MOST_DEVIATIONS = 20
_MOST_LIMITS = 8


def render_run(results: Sequence[Result], finished: Finished, deviations: Sequence[Deviation]) -> str:
    """Render the statuses per board and memory, the file of the results, and what was not expected."""
    report = TextReport(120)
    report.print(_build_status_table(Counter((one.board, one.memory, one.status) for one in results)))
    lines = [report.render().rstrip("\n")]
    not_judged = sum(not one.is_judged for one in results)
    if not_judged:
        lines.append(
            f"{pluralize(not_judged, 'result')} not judged (unsupported by the twin, neither pass nor failure): "
            "--engine mock asks the library"
        )
    if bounded := sum(one.confidence in (BOUNDED, UNKNOWN) and one.is_judged for one in results):
        lines.append(f"{pluralize(bounded, 'result')} not exact: the status is certain, the peak is a lower bound")
    resumed = f", {format_count(finished.resumed)} done earlier" if finished.resumed else ""
    rate = finished.asked / finished.seconds if finished.seconds > 0 else 0.0
    lines.append(
        f"{pluralize(finished.asked, 'case')} asked in {finished.seconds:.1f} s ({rate:,.0f}/s){resumed}; "
        "each ran alone on an empty device"
    )
    for deviation in deviations[:_MOST_DEVIATIONS]:
        one = deviation.result
        lines.append(
            f"unexpected: {one.id} {one.board} {one.memory} {one.layout}: {one.status}, expected {deviation.expected}"
            + (f" ({flatten_text(one.message)[:120]})" if one.message else "")
        )
    if len(deviations) > _MOST_DEVIATIONS:
        lines.append(f"unexpected: {format_count(len(deviations) - _MOST_DEVIATIONS)} more")
    lines.append(f"results: {finished.results}")
    return "\n".join(lines)


def build_progress(progress: Progress) -> RenderableType:
    """Build the live table of a running sweep."""
    from rich.console import Group
    from rich.text import Text

    done = progress.done_before + progress.done_now
    left = progress.seconds_left
    head = Text(
        f"{format_count(done)} of {format_count(progress.total)} cases, {progress.rate_per_second:,.0f}/s"
        + (f", about {_format_duration(left)} left" if left is not None else "")
    )
    parts: list[RenderableType] = [head, build_rich_table(_build_status_table(progress.statuses))]
    if progress.largest_pass:
        best = sorted(progress.largest_pass.items(), key=lambda item: -item[1])[:_MOST_LIMITS]
        words = [f"{op} {memory} {format_mib_number(size, decimals=1)} MiB" for (op, _, memory), size in best]
        parts.append(Text(f"largest inputs that passed: {', '.join(words)}", style="dim"))
    return Group(*parts)


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _build_status_table(counts: Mapping[tuple[str, str, str], int]) -> Table:
    used = [status for status in STATUSES if any(key[2] == status for key in counts)]
    columns = [text_column("board"), text_column("memory")]
    columns += [number_column(status, style=_pick_color(status)) for status in used]
    rows: list[list[Any]] = [
        [board, memory, *(counts.get((board, memory, status)) or None for status in used)]
        for board, memory in dict.fromkeys((board, memory) for board, memory, _ in sorted(counts))
    ]
    return Table(columns, rows)


def _pick_color(status: str) -> Callable[[Any], str]:
    return lambda _: _COLORS.get(status, "")


_HEADS = ("Operator", "Board", "Memory", "Layout", "Largest that passes", "Inputs", "Fails at", "Status", "Confidence")
_MOST_CARDS = 8
_SPARE = {"Inputs": 4, "Layout": 3, "Confidence": 2, "Fails at": 1}


def _build_limits_table(limits: Sequence[SizeLimit]) -> Table:
    columns = [text_column(head, whole=True, spare=_SPARE.get(head, 0)) for head in _HEADS]
    rows = [
        (
            limit.op,
            limit.board,
            limit.memory,
            limit.layout,
            format_shape_list(limit.shape or (), unknown="none"),
            format_bytes(limit.padded_bytes),
            format_shape_list(limit.fails_at or ()),
            _describe_end(limit),
            limit.confidence,
        )
        for limit in limits
    ]
    return Table(columns, rows)


def _describe_end(limit: SizeLimit) -> str:
    """Describe what follows the largest shape that passes, or from where on the twin gives no verdict."""
    if limit.not_judged_at:
        begin = f"not judged from {format_shape_list(limit.not_judged_at)}"
        return f"{begin}, then {limit.status}" if limit.fails_at else begin
    return limit.status if limit.status != "none" else "no limit found"


def render_limits_terminal(frontiers: Sequence[Frontier], *, width: int = 100, color: bool = False) -> str:
    """Render the maximum sizes per operator, then the frontier of each where it has one."""
    report = TextReport(width, color=color)
    report.print(_build_limits_table(frontiers))
    for one in frontiers:
        if len(one.frontier) > 1:
            rows = [
                (str(limit.shape[-1] if limit.shape else "-"), format_shape_list(limit.shape or (), unknown="none"),
                 format_bytes(limit.padded_bytes), _describe_end(limit))
                for limit in one.frontier
            ]  # fmt: skip
            title = f"{one.op} {one.board} {one.memory} {one.layout}"
            report.print_titled(Table.build(("Width", "Largest that passes", "Inputs", "Then"), rows, title=title))
    report.print("", LIMITS_NOTE)
    return report.render()


def render_limits_markdown(frontiers: Sequence[Frontier]) -> str:
    """Render the table only, for documentation."""
    sizes = render_markdown_table(_build_limits_table(frontiers))
    return f"# Maximum supported sizes per operator\n\n{sizes}\n\n{LIMITS_NOTE}\n"


def render_limits_html(frontiers: Sequence[Frontier]) -> str:
    """Render the page."""
    every = [limit for one in frontiers for limit in one.frontier]
    return render_page(
        title="Limits of operators",
        subtitle="The largest shape of each operator that passes, and the smallest that was seen to fail.",
        cards=[_build_card(one) for one in frontiers[:_MOST_CARDS]],
        sections=[
            Section("limits", "Maximum supported sizes per operator", [_build_limits_table(frontiers)]),
            Section(
                "frontier",
                "Frontier: rows that pass, by width",
                drawing=_build_limits_chart(frontiers),
                drawing_role="frontier",
            ),
            Section("widths", "Every width", [_build_limits_table(every)]),
        ],
        foot=LIMITS_NOTE,
    )


def _build_card(one: Frontier) -> Card:
    """Build the card with the largest shape that passes."""
    return Card(
        f"{one.op}, {one.board} {one.memory} {one.layout}",
        format_bytes(one.padded_bytes) if one.shape else "none",
        "of inputs" if one.shape else "",
        f"{format_shape_list(one.shape or (), unknown='no shape')} passes; then {_describe_end(one)}",
        level="ok" if one.shape else "alarm",
    )


def render_limits_svg(frontiers: Sequence[Frontier]) -> str:
    """Render the frontier as a complete SVG; empty when there is none."""
    chart = _build_limits_chart(frontiers)
    return draw_svg(chart) if chart else ""


def _build_limits_chart(frontiers: Sequence[Frontier]) -> LineChart | None:
    """Build the chart of other elements over width, both in powers of two; below a line everything passes."""
    curves = []
    for one in frontiers:
        shapes = sorted(
            (limit.shape[-1], limit.elements, limit.shape) for limit in one.frontier if limit.shape and limit.shape[-1]
        )
        if shapes:
            points = [(log2(width), log2(max(elements // width, 1))) for width, elements, _ in shapes]
            remarks = [format_shape_list(shape) for *_, shape in shapes]
            curves.append(Curve(f"{one.op} {one.board} {one.memory}", points, remarks))
    if not curves:
        return None
    across = [x for curve in curves for x, _ in curve.points]
    upwards = [y for curve in curves for _, y in curve.points]
    left, right = floor(min(across)) - 1, ceil(max(across)) + 1
    low, high = max(floor(min(upwards)) - 1, 0), ceil(max(upwards)) + 1
    step = max((high - low) // 10, 1)
    x = Axis("width", left, right, [Tick(at, f"{2**at:,}") for at in range(left, right + 1)])
    y = Axis(
        "elements above the width", low, high, [Tick(at, _format_power(2**at)) for at in range(low, high + 1, step)]
    )
    return LineChart("Largest shapes that pass, by width", x, y, curves)


def _format_power(number: int) -> str:
    for unit, name in ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")):
        if number >= unit:
            return f"{number / unit:g} {name}"
    return str(number)
