# SPDX-License-Identifier: Apache-2.0
"""Limits of operators: a table "maximum supported sizes per operator", and the frontier as a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log2
from typing import TYPE_CHECKING

from ttmem.reports.kit.charts import Axis, Curve, LineChart, Tick, drawing
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.pages import Card, Section
from ttmem.reports.kit.pages import page as render_page
from ttmem.reports.kit.tables import Table, text_column
from ttmem.reports.kit.units import bytes_text, shape_list
from ttmem.reports.sweep.document import LIMITS_NOTE
from ttmem.reports.sweep.tables import as_markdown

if TYPE_CHECKING:
    from ttmem.operators.sweeps.frontier import Frontier, Limit

_HEADS = ("Operator", "Board", "Memory", "Layout", "Largest that passes", "Inputs", "Fails at", "Status", "Confidence")
_MOST_CARDS = 8
_SPARE = {"Inputs": 4, "Layout": 3, "Confidence": 2, "Fails at": 1}


def _table(limits: Sequence[Limit]) -> Table:
    columns = [text_column(head, whole=True, spare=_SPARE.get(head, 0)) for head in _HEADS]
    rows = [
        (
            limit.op,
            limit.board,
            limit.memory,
            limit.layout,
            shape_list(limit.shape or (), unknown="none"),
            bytes_text(limit.padded_bytes),
            shape_list(limit.fails_at or ()),
            _then(limit),
            limit.confidence,
        )
        for limit in limits
    ]
    return Table(columns, rows)


def _then(limit: Limit) -> str:
    """What comes after the largest that passes; where the twin does not judge that, from where on."""
    if limit.not_judged_at:
        begin = f"not judged from {shape_list(limit.not_judged_at)}"
        return f"{begin}, then {limit.status}" if limit.fails_at else begin
    return limit.status if limit.status != "none" else "no limit found"


def text(frontiers: Sequence[Frontier], *, width: int = 100, color: bool = False) -> str:
    """Maximum supported sizes per operator, then the frontier of each where it has one."""
    report = TextReport(width, color=color)
    report.print(_table(frontiers))
    for one in frontiers:
        if len(one.frontier) > 1:
            rows = [
                (str(limit.shape[-1] if limit.shape else "-"), shape_list(limit.shape or (), unknown="none"),
                 bytes_text(limit.padded_bytes), _then(limit))
                for limit in one.frontier
            ]  # fmt: skip
            title = f"{one.op} {one.board} {one.memory} {one.layout}"
            report.titled(Table.of_texts(("Width", "Largest that passes", "Inputs", "Then"), rows, title=title))
    report.print("", LIMITS_NOTE)
    return report.text()


def markdown(frontiers: Sequence[Frontier]) -> str:
    """The table alone, for documentation."""
    sizes = as_markdown(_table(frontiers))
    return f"# Maximum supported sizes per operator\n\n{sizes}\n\n{LIMITS_NOTE}\n"


def page(frontiers: Sequence[Frontier]) -> str:
    """One offline page."""
    every = [limit for one in frontiers for limit in one.frontier]
    return render_page(
        title="Limits of operators",
        subtitle="The largest shape of each operator that passes, and the smallest that was seen to fail.",
        cards=[_card(one) for one in frontiers[:_MOST_CARDS]],
        sections=[
            Section("limits", "Maximum supported sizes per operator", [_table(frontiers)]),
            Section(
                "frontier", "Frontier: rows that pass, by width", drawing=_chart(frontiers), drawing_role="frontier"
            ),
            Section("widths", "Every width", [_table(every)]),
        ],
        foot=LIMITS_NOTE,
    )


def _card(one: Frontier) -> Card:
    """The answer at a glance: what still passes."""
    return Card(
        f"{one.op}, {one.board} {one.memory} {one.layout}",
        bytes_text(one.padded_bytes) if one.shape else "none",
        "of inputs" if one.shape else "",
        f"{shape_list(one.shape or (), unknown='no shape')} passes; then {_then(one)}",
        level="ok" if one.shape else "alarm",
    )


def svg(frontiers: Sequence[Frontier]) -> str:
    """The frontier as a drawing that stands alone; empty when there is none."""
    chart = _chart(frontiers)
    return drawing(chart) if chart else ""


def _chart(frontiers: Sequence[Frontier]) -> LineChart | None:
    """Width across, all other elements upwards, both in powers of two; below a line everything passes."""
    curves = []
    for one in frontiers:
        shapes = sorted(
            (limit.shape[-1], limit.elements, limit.shape) for limit in one.frontier if limit.shape and limit.shape[-1]
        )
        if shapes:
            points = [(log2(width), log2(max(elements // width, 1))) for width, elements, _ in shapes]
            remarks = [shape_list(shape) for *_, shape in shapes]
            curves.append(Curve(f"{one.op} {one.board} {one.memory}", points, remarks))
    if not curves:
        return None
    across = [x for curve in curves for x, _ in curve.points]
    upwards = [y for curve in curves for _, y in curve.points]
    left, right = floor(min(across)) - 1, ceil(max(across)) + 1
    low, high = max(floor(min(upwards)) - 1, 0), ceil(max(upwards)) + 1
    step = max((high - low) // 10, 1)
    x = Axis("width", left, right, [Tick(at, f"{2**at:,}") for at in range(left, right + 1)])
    y = Axis("elements above the width", low, high, [Tick(at, _short(2**at)) for at in range(low, high + 1, step)])
    return LineChart("Largest shapes that pass, by width", x, y, curves)


def _short(number: int) -> str:
    for unit, name in ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")):
        if number >= unit:
            return f"{number / unit:g} {name}"
    return str(number)
