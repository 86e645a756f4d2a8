# SPDX-License-Identifier: Apache-2.0
"""One memory over the operations of one process, drawn as an SVG that stands alone.

Its history is made small enough to draw without ever losing a peak.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttmem.analysis.peaks import Peak
from ttmem.analysis.states import state_column
from ttmem.base.errors import BadInputError
from ttmem.profile.model import Profile
from ttmem.profile.operation_forms import Int64
from ttmem.reports.kit import charts
from ttmem.reports.kit.charts import Tick
from ttmem.reports.kit.units import MIB, mib, percent
from ttmem.reports.profile.analyses import analyses

_MOST_POINTS = 2000
_CAPACITY_SHOWN_FROM_PERCENT = 40.0
"""Below this the line of the full bank would press the curve flat against the floor."""


def svg(profile: Profile, memory: str = "DRAM") -> str:
    """A drawing that stands alone, for a notebook or a document."""
    peaks = analyses(profile).peaks
    peak = peaks.get(memory.upper())
    if peak is None:
        known = ", ".join(peaks) or "none"
        raise BadInputError(f"'{profile.name}' has no states of {memory}", hint=f"memories with states: {known}")
    states = series(profile, peak.timeline, peak.memory)
    return charts.drawing(_line_chart(states, downsampled(states.allocated, _MOST_POINTS), peak))


@dataclass(frozen=True, slots=True)
class Series:
    """One memory of one process: bytes per bank over operations."""

    operation: Int64
    """Per state: how many operations had been started before it, so that submit states fall between operations."""
    allocated: Int64
    state: NDArray[np.intp]
    """Position of the state in the timeline."""


def series(profile: Profile, timeline_index: int, memory: str) -> Series:
    """Every state that shows the memory."""
    timeline = profile.timelines[timeline_index]
    states = state_column(profile, timeline, memory)
    printed_before = timeline.state_operation[states.state].astype(np.int64)
    # A submit state has no operation of its own: it stands after the last one that was named before it.
    named = np.maximum.accumulate(printed_before) if len(printed_before) else printed_before
    place = np.where(printed_before >= 0, printed_before, np.maximum(named + 1, timeline.first_index))
    return Series(operation=place, allocated=states.value, state=states.state)


def downsampled(values: Int64, most: int) -> NDArray[np.intp]:
    """Positions of at most ``most`` points: the first lowest and first highest of each stretch, in order.

    Averages and nearest-point sampling would lose the one state that decides whether a model fits.
    """
    count = len(values)
    if count <= most:
        return np.arange(count)
    edges = np.linspace(0, count, most // 2 + 1).astype(np.intp)
    kept: set[int] = set()
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        stretch = values[start:end]
        kept.add(start + int(stretch.argmin()))
        kept.add(start + int(stretch.argmax()))
    return np.array(sorted(kept), dtype=np.intp)


def highest_per_column(values: Int64, columns: int) -> Int64:
    """The highest state in each of so many equal stretches (fewer columns when there are fewer states)."""
    columns = min(columns, len(values))
    if not columns:
        return values[:0]
    edges = np.linspace(0, len(values), columns + 1).astype(np.intp)[:-1]
    highest: Int64 = np.maximum.reduceat(values, edges)
    return highest


def _line_chart(states: Series, kept: NDArray[np.intp], peak: Peak) -> charts.LineChart:
    first, last = int(states.operation[0]), max(int(states.operation[-1]), int(states.operation[0]) + 1)
    distance = int(charts.round_step(max((last - first) / 6, 1), (1, 2, 5, 10)))
    first_tick = -(-first // distance) * distance
    step, ticks = _scale(max(peak.peak_bytes_per_bank, 1), peak.bytes_per_bank)
    heights = [step * number for number in range(ticks + 1)]
    line = list(zip(states.operation[kept].tolist(), states.allocated[kept].tolist(), strict=True))
    return charts.LineChart(
        title=f"{peak.memory} over operations, peak {_peak_label(peak)}",
        x=charts.Axis("operation", first, last, [Tick(at, f"#{at:,}") for at in range(first_tick, last + 1, distance)]),
        y=charts.Axis("MiB per bank", 0, heights[-1], [Tick(height, _axis_label(height, step)) for height in heights]),
        curves=[charts.Curve(f"peak {mib(peak.peak_bytes_per_bank)} MiB", line, steps=True)],
        height=300.0,
        right=130.0,
    )


def _peak_label(peak: Peak) -> str:
    place = "within" if peak.within_operation else "before"
    moment = peak.at_name if peak.at_index is None else f"{place} #{peak.at_index}"
    return f"{mib(peak.peak_bytes_per_bank)} MiB/bank ({percent(peak.peak_percent)}) {moment}"


def _scale(highest: int, bank: int) -> tuple[float, int]:
    """Tick distance in bytes (round MiB) and number of ticks: up to the peak, or to the bank when it is near."""
    if bank and highest >= bank * _CAPACITY_SHOWN_FROM_PERCENT / 100:
        highest = max(highest, bank)
    step = charts.round_step(highest / MIB / 4)
    return step * MIB, max(math.ceil(highest / MIB / step - 1e-9), 1)


def _axis_label(amount_bytes: float, step_bytes: float) -> str:
    decimals = max(0, -math.floor(math.log10(step_bytes / MIB)) + (1 if step_bytes / MIB % 1 else 0))
    return mib(amount_bytes, decimals=min(decimals, 6)) if amount_bytes else "0"
