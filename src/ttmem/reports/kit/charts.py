# SPDX-License-Identifier: Apache-2.0
"""Drawings: values in, geometry out; the templates and the app of ``web/`` draw them.

``draw_svg`` returns a complete SVG. A page that adds marks and a cursor of its own takes the paths and ticks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ttmem.reports.kit.templates import render_template

COLORS = ("#2563c9", "#0f8a6d", "#b26a00", "#c42b32", "#7a4fc9", "#008aa6", "#8a6d0f", "#c92591")
_LEFT, _TOP, _BOTTOM, _LINE_HEIGHT = 70.0, 22.0, 46.0, 13.0


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled position on an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values and its ticks, in the chart's own values (logarithms where they read better)."""

    label: str
    first: float
    last: float
    ticks: Sequence[Tick]

    def locate(self, value: float) -> float:
        """Return the position of a value, from 0 to 1."""
        return (value - self.first) / ((self.last - self.first) or 1.0)


@dataclass(frozen=True, slots=True)
class Curve:
    """A line: its label, its points in order, and what the pointer shows at each."""

    label: str
    points: Sequence[tuple[float, float]]
    remarks: Sequence[str] = ()
    low: Sequence[float] = ()
    """The lower edge of a band below the line, one value per point."""
    steps: bool = False
    """A value holds until the next one, so the line has steps, not slopes, and is filled down to the axis."""


@dataclass(frozen=True, slots=True)
class LineChart:
    """Curves over two axes."""

    TYPE: ClassVar[str] = "lines"
    title: str
    x: Axis
    y: Axis
    curves: Sequence[Curve]
    width: float = 860.0
    height: float = 420.0
    right: float = 210.0
    """Room at the right for the labels of the curves."""


def draw_svg(chart: LineChart) -> str:
    """Return the chart as a complete SVG; labels of curves are at their ends and never overlap."""
    right, bottom = chart.width - chart.right, chart.height - _BOTTOM

    def place_x(value: float) -> float:
        return round(_LEFT + chart.x.locate(value) * (right - _LEFT), 1)

    def place_y(value: float) -> float:
        return round(bottom - chart.y.locate(value) * (bottom - _TOP), 1)

    drawn: list[dict[str, Any]] = []
    heights: list[float] = []
    for number, curve in enumerate(chart.curves):
        places = [(place_x(x), place_y(y)) for x, y in curve.points]
        line = draw_steps(places) if curve.steps else draw_path(places)
        fill = f"{line}L{places[-1][0]:g} {bottom:g}L{places[0][0]:g} {bottom:g}Z" if curve.steps else ""
        if curve.low:
            edge = [(x, place_y(low)) for (x, _), low in zip(places, curve.low, strict=True)]
            fill = f"{line}{draw_path(edge[::-1]).replace('M', 'L', 1)}Z"
        remarks = curve.remarks or [""] * len(places)
        points = () if curve.steps else [(x, y, remark) for (x, y), remark in zip(places, remarks, strict=True)]
        height = places[-1][1]
        while any(abs(height - other) < _LINE_HEIGHT for other in heights):
            height += 1
        heights.append(height)
        look = {"color": COLORS[number % len(COLORS)], "line": line, "fill": fill, "points": points}
        drawn.append({"label": curve.label, "label_y": height, **look})
    return render_template(
        "chart.svg.j2",
        chart=chart,
        curves=drawn,
        x_ticks=[Tick(place_x(tick.at), tick.label) for tick in chart.x.ticks],
        y_ticks=[Tick(place_y(tick.at), tick.label) for tick in chart.y.ticks],
        left=_LEFT,
        right=right,
        top=_TOP,
        bottom=bottom,
    )


def draw_path(places: Sequence[tuple[float, float]]) -> str:
    """Return the path of straight lines between the points."""
    return "".join(f"{'L' if number else 'M'}{x:g} {y:g}" for number, (x, y) in enumerate(places))


def draw_steps(places: Sequence[tuple[float, float]]) -> str:
    """Return the path of a line whose levels hold until the next point."""
    if not places:
        return "M0 0"
    parts = [f"M{places[0][0]:g} {places[0][1]:g}"]
    level = places[0][1]
    for x, y in places[1:]:
        parts.append(f"H{x:g}" if y == level else f"H{x:g}V{y:g}")
        level = y
    return "".join(parts)


def round_step(rough: float, factors: Sequence[float] = (1, 2, 2.5, 5, 10)) -> float:
    """Return the next round number: a distance of ticks that people read without counting."""
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return next(factor * magnitude for factor in factors if factor * magnitude >= rough * 0.999)


@dataclass(frozen=True, slots=True)
class MatrixOutcome:
    """A kind of cell."""

    name: str
    level: Literal["ok", "warn", "alarm", "none"]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows by columns, each cell coloured by what happened there."""

    TYPE: ClassVar[str] = "matrix"
    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    cells: Sequence[Sequence[int]]
    """Per row and column: index into ``outcomes``, -1 where nothing was tried."""
    remarks: Sequence[Sequence[str]]
    outcomes: Sequence[MatrixOutcome]


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of periods: (from, to, kind)."""

    name: str
    spans: Sequence[tuple[float, float, str]]


@dataclass(frozen=True, slots=True)
class Lanes:
    """Several actors over one clock."""

    TYPE: ClassVar[str] = "lanes"
    title: str
    unit: str
    end: float
    lanes: Sequence[Lane]
