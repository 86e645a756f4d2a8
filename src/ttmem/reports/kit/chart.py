# SPDX-License-Identifier: Apache-2.0
"""The geometry of a memory chart: numbers and path strings; the markup around them is the template's."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ttmem.analysis.peaks import Peak
from ttmem.analysis.runs import Run
from ttmem.profile import BLOCK_NAMES, WITHIN_OPERATION, Profile
from ttmem.reports.kit.units import MIB, mib, operation_label, percent
from ttmem.reports.profile.timeline import downsampled, series

WIDTH, HEIGHT = 1000.0, 200.0
"""Of the drawing; the page stretches it."""
_MOST_POINTS = 2000
_MOST_RUN_MARKS = 120
_CAPACITY_SHOWN_FROM_PERCENT = 40.0
"""Below this the line of the full bank would press the curve flat against the floor."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled place on an axis, in percent of its length."""

    at_percent: float
    label: str


@dataclass(frozen=True, slots=True)
class Points:
    """What the page shows under the pointer: columns over the drawn points."""

    x_percent: list[float]
    megabytes: list[str]
    label: list[str]


@dataclass(frozen=True, slots=True)
class Chart:
    """One memory over the operations of one process."""

    memory: str
    title: str
    line: str
    area: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    peak_x_percent: float
    peak_y_percent: float
    peak_label: str
    capacity_y_percent: float | None
    run_marks_percent: list[float]
    failure_x_percent: float | None
    points: Points


def chart(profile: Profile, peak: Peak, runs: list[Run], failure_index: int | None) -> Chart:
    """The states of the peak's own process, at most 2000 points and always the peak."""
    timeline = profile.timelines[peak.timeline]
    states = series(profile, peak.timeline, peak.memory)
    first = int(states.operation[0])
    span = max(int(states.operation[-1]) - first, 1)
    step, top = _scale(max(peak.peak_bytes_per_bank, 1), peak.bytes_per_bank)
    kept = downsampled(states.allocated, _MOST_POINTS)
    x = (states.operation[kept] - first) * (WIDTH / span)
    y = HEIGHT - states.allocated[kept] * (HEIGHT / top)
    line = _steps(np.round(x, 1).tolist(), np.round(y, 1).tolist())
    peak_position = int(np.searchsorted(states.block, peak.block))

    def x_percent(operation: int) -> float:
        return round(100 * (operation - first) / span, 3)

    mine = [run for run in runs if run.timeline == peak.timeline]
    marks = [x_percent(run.first_index) for run in mine[1:]] if len(mine) <= _MOST_RUN_MARKS else []
    reaches = (peak.peak_percent or 0.0) >= _CAPACITY_SHOWN_FROM_PERCENT
    end = round(float(x[-1]), 1) if len(x) else 0.0
    in_range = failure_index is not None and first <= failure_index <= first + span
    return Chart(
        memory=peak.memory,
        title=f"{peak.memory} over operations",
        line=line,
        area=f"{line}L{end} {HEIGHT}L0 {HEIGHT}Z",
        x_ticks=[Tick(x_percent(operation), f"#{operation:,}") for operation in _x_ticks(first, first + span)],
        y_ticks=[
            Tick(round(100 - 100 * step * number / top, 3), _axis_label(step * number, step))
            for number in range(int(top / step) + 1)
        ],
        peak_x_percent=x_percent(int(states.operation[peak_position])),
        peak_y_percent=round(100 - 100 * peak.peak_bytes_per_bank / top, 3),
        peak_label=f"{mib(peak.peak_bytes_per_bank)} MB/bank ({percent(peak.peak_percent)}) " + _moment(peak),
        capacity_y_percent=round(100 - 100 * peak.bytes_per_bank / top, 3) if reaches else None,
        run_marks_percent=marks,
        failure_x_percent=x_percent(failure_index) if in_range and failure_index is not None else None,
        points=Points(
            x_percent=np.round(x / (WIDTH / 100), 2).tolist(),
            megabytes=[mib(value) for value in states.allocated[kept].tolist()],
            label=[
                _state_label(
                    profile, peak.timeline, int(timeline.block_operation[block]), int(timeline.block_kind[block])
                )
                for block in states.block[kept].tolist()
            ],
        ),
    )


def _state_label(profile: Profile, timeline_index: int, operation: int, kind: int) -> str:
    timeline = profile.timelines[timeline_index]
    position = operation - timeline.first_index
    if operation < 0 or not 0 <= position < len(timeline):
        return BLOCK_NAMES[kind]
    place = "within" if kind == WITHIN_OPERATION else "before"
    return f"{place} {operation_label(operation, profile.forms.name_of(int(timeline.form[position])))}"


def _moment(peak: Peak) -> str:
    if peak.at_index is None:
        return peak.at_name
    return f"{'within' if peak.within_operation else 'before'} #{peak.at_index}"


def _steps(x: list[float], y: list[float]) -> str:
    """A state holds until the next one is printed, so the line has steps, not slopes."""
    if not x:
        return "M0 0"
    parts = [f"M{x[0]:g} {y[0]:g}"]
    level = y[0]
    for place, value in zip(x[1:], y[1:], strict=True):
        parts.append(f"H{place:g}" if value == level else f"H{place:g}V{value:g}")
        level = value
    return "".join(parts)


def _scale(highest: int, bank: int) -> tuple[float, float]:
    """Tick distance and axis end in bytes: round MiB a little above the peak, or above the bank when it is near."""
    if bank and highest >= bank * _CAPACITY_SHOWN_FROM_PERCENT / 100:
        highest = max(highest, bank)
    rough = highest / MIB / 4
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= rough * 0.999)
    ticks = math.ceil(highest / MIB / step * 0.999)
    return step * MIB, max(ticks, 1) * step * MIB


def _axis_label(amount_bytes: float, step_bytes: float) -> str:
    decimals = max(0, -math.floor(math.log10(step_bytes / MIB)) + (1 if step_bytes / MIB % 1 else 0))
    return mib(amount_bytes, decimals=min(decimals, 6)) if amount_bytes else "0"


def _x_ticks(first: int, last: int) -> list[int]:
    rough = max((last - first) / 6, 1)
    magnitude = 10 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= rough)
    start = -(-first // step) * step
    return list(range(int(start), last + 1, int(step)))
