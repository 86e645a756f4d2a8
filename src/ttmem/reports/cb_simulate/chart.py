# SPDX-License-Identifier: Apache-2.0
"""Throughput over depth, drawn: the geometry of an SVG and bars for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ttmem.circular_buffers.depths import Curve
from ttmem.reports.kit.charts import Tick

WIDTH, HEIGHT = 640.0, 300.0
_LEFT, _TOP, _RIGHT, _BOTTOM = 56.0, 16.0, 130.0, 44.0
_COLORS = ("#2563c9", "#0f8a6d", "#b26a00", "#c42b32")
_TEMPLATES = Path(__file__).parents[1] / "templates"


@dataclass(frozen=True, slots=True)
class DrawnCurve:
    """One batch size: a line for constant times and the band below it for varying ones."""

    label: str
    color: str
    line: str
    band: str
    points: tuple[tuple[float, float, str], ...]
    """x, y and what the pointer shows."""
    end_y: float


@dataclass(frozen=True, slots=True)
class DepthChart:
    """Everything that the template draws."""

    width: float
    height: float
    left: float
    top: float
    right: float
    bottom: float
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    curves: tuple[DrawnCurve, ...]


def depth_chart(curves: Sequence[Curve]) -> DepthChart:
    """Depth on a logarithmic axis, because each doubling brings less."""
    depths = sorted({point.depth_tiles for curve in curves for point in curve.points})
    highest = max(point.tiles_per_kilocycle[1] for curve in curves for point in curve.points)
    top = _nice(highest)
    span = max(math.log2(depths[-1]), 1.0)

    def x(depth: int) -> float:
        return round(_LEFT + math.log2(depth) / span * (WIDTH - _LEFT - _RIGHT), 1)

    def y(rate: float) -> float:
        return round(HEIGHT - _BOTTOM - rate / top * (HEIGHT - _TOP - _BOTTOM), 1)

    drawn = []
    ends: list[float] = []
    for number, curve in enumerate(curves):
        upper = [(x(point.depth_tiles), y(point.tiles_per_kilocycle[1])) for point in curve.points]
        lower = [(x(point.depth_tiles), y(point.tiles_per_kilocycle[0])) for point in curve.points]
        end_y = upper[-1][1]
        while any(abs(end_y - other) < 13 for other in ends):  # labels at the right end must not cover each other
            end_y += 1
        ends.append(end_y)
        drawn.append(
            DrawnCurve(
                label=f"{curve.tiles_per_barrier} per barrier",
                color=_COLORS[number % len(_COLORS)],
                line=_path(upper),
                band=f"{_path(upper)}{_path(lower[::-1]).replace('M', 'L', 1)}Z",
                points=tuple(
                    (*place, f"depth {point.depth_tiles}: {rates(point.tiles_per_kilocycle)} tiles per 1000 cycles")
                    for place, point in zip(upper, curve.points, strict=True)
                ),
                end_y=end_y,
            )
        )
    steps = [top * step / 4 for step in range(5)]
    return DepthChart(
        WIDTH,
        HEIGHT,
        _LEFT,
        _TOP,
        WIDTH - _RIGHT,
        HEIGHT - _BOTTOM,
        tuple(Tick(x(depth), str(depth)) for depth in depths),
        tuple(Tick(y(step), f"{step:g}") for step in steps),
        tuple(drawn),
    )


def svg(curves: Sequence[Curve]) -> str:
    """A drawing that stands alone."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("cb_depth.svg.j2").render(chart=depth_chart(curves))


def bars(curves: Sequence[Curve], width: int) -> list[str]:
    """For a terminal: full blocks up to the rate with varying times, light ones up to the rate with constant times."""
    highest = max(point.tiles_per_kilocycle[1] for curve in curves for point in curve.points)
    room = max(10, width - 34)
    lines = []
    for curve in curves:
        for number, point in enumerate(curve.points):
            low, high = (round(room * rate / highest) for rate in point.tiles_per_kilocycle)
            head = f"{curve.tiles_per_barrier} per barrier" if number == 0 else ""
            bar = "█" * low + "░" * (high - low)
            lines.append(f"{head:<14}{point.depth_tiles:>4}  {bar} {rates(point.tiles_per_kilocycle)}")
    return lines


def rates(bounds: tuple[float, float]) -> str:
    """``1.48-1.68``."""
    low, high = (f"{rate:.2f}" for rate in bounds)
    return low if low == high else f"{low}-{high}"


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "".join(f"{'L' if number else 'M'}{x:g} {y:g}" for number, (x, y) in enumerate(places))


def _nice(value: float) -> float:
    magnitude = 10.0 ** math.floor(math.log10(value))
    return next(factor * magnitude for factor in (1, 2, 4, 6, 8, 10) if factor * magnitude >= value)
