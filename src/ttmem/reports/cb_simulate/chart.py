# SPDX-License-Identifier: Apache-2.0
"""Throughput over depth, drawn as an SVG and as bars for a terminal."""

import math
from collections.abc import Sequence

from ttmem.circular_buffers.buffer_depths import Curve
from ttmem.reports.kit import charts
from ttmem.reports.kit.units import bounds_text


def svg(curves: Sequence[Curve]) -> str:
    """A drawing that stands alone."""
    return charts.drawing(line_chart(curves))


def line_chart(curves: Sequence[Curve]) -> charts.LineChart:
    """Depth on a logarithmic axis, because each doubling brings less.

    A line is the rate with constant transfer times, the band below it reaches down to the rate with varying ones.
    """
    depths = sorted({depth for curve in curves for depth in curve.depth_tiles})
    top = charts.round_step(_highest(curves), (1, 2, 4, 6, 8, 10))
    ticks = [charts.Tick(top * step / 4, f"{top * step / 4:g}") for step in range(5)]
    return charts.LineChart(
        title="Throughput over the depth of both circular buffers",
        x=charts.Axis(
            "depth of both buffers, tiles",
            0.0,
            max(math.log2(depths[-1]), 1.0),
            [charts.Tick(math.log2(depth), str(depth)) for depth in depths],
        ),
        y=charts.Axis("tiles per 1000 cycles", 0.0, top, ticks),
        curves=[
            charts.Curve(
                f"{curve.tiles_per_barrier} per barrier",
                [(math.log2(depth), high) for depth, (_, high) in curve.points],
                [f"depth {depth}: {bounds_text(rates, 2)} tiles per 1000 cycles" for depth, rates in curve.points],
                low=[low for low, _ in curve.tiles_per_kilocycle],
            )
            for curve in curves
        ],
        width=640.0,
        height=300.0,
        right=130.0,
    )


def bars(curves: Sequence[Curve], width: int) -> list[str]:
    """For a terminal: full blocks up to the rate with varying times, light ones up to the rate with constant times."""
    highest = _highest(curves)
    room = max(10, width - 34)
    lines = []
    for curve in curves:
        for number, (depth, rates) in enumerate(curve.points):
            low, high = (round(room * rate / highest) for rate in rates)
            head = f"{curve.tiles_per_barrier} per barrier" if number == 0 else ""
            lines.append(f"{head:<14}{depth:>4}  {'█' * low}{'░' * (high - low)} {bounds_text(rates, 2)}")
    return lines


def _highest(curves: Sequence[Curve]) -> float:
    return max(high for curve in curves for _, high in curve.tiles_per_kilocycle)
