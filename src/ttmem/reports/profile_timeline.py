# SPDX-License-Identifier: Apache-2.0
"""A memory over the operations of one process: an SVG without losing a peak, and CSV with one row per state."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttmem.analysis.peaks import Peak
from ttmem.analysis.states import state_column
from ttmem.base.errors import BadInputError
from ttmem.base.formatting import MIB, format_mib_number, format_percent
from ttmem.profile.model import MEMORIES, STATE_NAMES, VIEW_ALLOCATED, VIEW_FREE, VIEW_LARGEST_FREE, Profile, Timeline
from ttmem.profile.operation_forms import Int64
from ttmem.profile.runs import find_timeline_runs
from ttmem.reports.kit import charts
from ttmem.reports.kit.charts import Tick
from ttmem.reports.kit.tables import format_csv_line
from ttmem.reports.profile_analyses import analyze

_MOST_POINTS = 2000
_CAPACITY_SHOWN_FROM_PERCENT = 40.0
"""Below this share the line of the full bank would flatten the curve."""


def render_svg(profile: Profile, memory: str = "DRAM") -> str:
    """Render a complete SVG, for a notebook or a document."""
    peaks = analyze(profile).peaks
    peak = peaks.get(memory.upper())
    if peak is None:
        known = ", ".join(peaks) or "none"
        raise BadInputError(f"'{profile.name}' has no states of {memory}", hint=f"memories with states: {known}")
    states = read_series(profile, peak.timeline, peak.memory)
    return charts.draw_svg(_build_chart(states, downsample(states.allocated, _MOST_POINTS), peak))


@dataclass(frozen=True, slots=True)
class StateSeries:
    """A memory of one process: bytes per bank over operations."""

    operation: Int64
    """Per state: the number of operations started before it, so that submit states are between operations."""
    allocated: Int64
    state: NDArray[np.intp]
    """Position of the state in the timeline."""


def read_series(profile: Profile, timeline_index: int, memory: str) -> StateSeries:
    """Read the states that show the memory."""
    timeline = profile.timelines[timeline_index]
    states = state_column(profile, timeline, memory)
    printed_before = timeline.state_operation[states.state].astype(np.int64)
    # A submit state has no operation of its own: it follows the last operation named before it.
    named = np.maximum.accumulate(printed_before) if len(printed_before) else printed_before
    place = np.where(printed_before >= 0, printed_before, np.maximum(named + 1, timeline.first_index))
    return StateSeries(operation=place, allocated=states.value, state=states.state)


def downsample(values: Int64, most: int) -> NDArray[np.intp]:
    """Return at most ``most`` positions: the first lowest and first highest of each range, in order.

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


def find_column_peaks(values: Int64, columns: int) -> Int64:
    """Return the highest value of each of ``columns`` equal ranges (fewer when there are fewer states)."""
    columns = min(columns, len(values))
    if not columns:
        return values[:0]
    edges = np.linspace(0, len(values), columns + 1).astype(np.intp)[:-1]
    highest: Int64 = np.maximum.reduceat(values, edges)
    return highest


def _build_chart(states: StateSeries, kept: NDArray[np.intp], peak: Peak) -> charts.LineChart:
    first, last = int(states.operation[0]), max(int(states.operation[-1]), int(states.operation[0]) + 1)
    distance = int(charts.round_step(max((last - first) / 6, 1), (1, 2, 5, 10)))
    first_tick = -(-first // distance) * distance
    step, ticks = _find_scale(max(peak.peak_bytes_per_bank, 1), peak.bytes_per_bank)
    heights = [step * number for number in range(ticks + 1)]
    line = list(zip(states.operation[kept].tolist(), states.allocated[kept].tolist(), strict=True))
    return charts.LineChart(
        title=f"{peak.memory} over operations, peak {_format_peak(peak)}",
        x=charts.Axis("operation", first, last, [Tick(at, f"#{at:,}") for at in range(first_tick, last + 1, distance)]),
        y=charts.Axis(
            "MiB per bank", 0, heights[-1], [Tick(height, _format_axis_label(height, step)) for height in heights]
        ),
        curves=[charts.Curve(f"peak {format_mib_number(peak.peak_bytes_per_bank)} MiB", line, steps=True)],
        height=300.0,
        right=130.0,
    )


def _format_peak(peak: Peak) -> str:
    place = "within" if peak.within_operation else "before"
    moment = peak.at_name if peak.at_index is None else f"{place} #{peak.at_index}"
    return f"{format_mib_number(peak.peak_bytes_per_bank)} MiB/bank ({format_percent(peak.peak_percent)}) {moment}"


def _find_scale(highest: int, bank: int) -> tuple[float, int]:
    """Tick distance in bytes (round MiB) and number of ticks: up to the peak, or to the bank when it is near."""
    if bank and highest >= bank * _CAPACITY_SHOWN_FROM_PERCENT / 100:
        highest = max(highest, bank)
    step = charts.round_step(highest / MIB / 4)
    return step * MIB, max(math.ceil(highest / MIB / step - 1e-9), 1)


def _format_axis_label(amount_bytes: float, step_bytes: float) -> str:
    decimals = max(0, -math.floor(math.log10(step_bytes / MIB)) + (1 if step_bytes / MIB % 1 else 0))
    return format_mib_number(amount_bytes, decimals=min(decimals, 6)) if amount_bytes else "0"


_FIGURES = (("allocated", VIEW_ALLOCATED), ("free", VIEW_FREE), ("largest_free", VIEW_LARGEST_FREE))
CSV_HEADER = (
    *("index", "op", "location", "program", "run", "rank", "line"),
    *(f"{memory.lower()}_{figure}_bytes_per_bank" for memory in MEMORIES for figure, _ in _FIGURES),
    *("state", "caused_by_index"),
)


def render_csv(profile: Profile) -> str:
    """Render one row per state; empty cells are unknown, and a submit state has no operation.

    A log repeats few operations and states many times, so each distinct one is formatted once.
    """
    lines = [format_csv_line(CSV_HEADER)]
    views = [
        ",".join(str(row[column]) for _, column in _FIGURES)
        for row in profile.views.tolist()  # plain integers are quicker to print than numpy ones
    ]
    views.append(",,")  # a state without a line for this memory (-1)
    operations: dict[int, str] = {}
    for index, timeline in enumerate(profile.timelines):
        lines.extend(_build_csv_rows(profile, timeline, index, views, operations))
    return "\n".join(lines) + "\n"


def _build_csv_rows(
    profile: Profile, timeline: Timeline, timeline_index: int, views: Sequence[str], operations: dict[int, str]
) -> Iterator[str]:
    run_of_state = np.full(len(timeline.state_kind), -1, dtype=np.int64)
    for run in find_timeline_runs(timeline, timeline_index):
        run_of_state[run.first_state : run.end_state] = run.number
    program_names = [format_csv_line([program.name]) for program in timeline.programs]
    program_names.append("")  # outside any program (-1)
    rank = str(timeline.rank) if timeline.rank >= 0 else ""
    forms, programs, first = timeline.form.tolist(), timeline.program.tolist(), timeline.first_index
    for kind, operation, cause, run_number, line, (dram, l1, l1_small, trace) in zip(
        timeline.state_kind.tolist(),
        timeline.state_operation.tolist(),
        timeline.state_cause.tolist(),
        run_of_state.tolist(),
        timeline.state_line.tolist(),
        timeline.state_view.tolist(),
        strict=True,
    ):
        if operation >= 0:
            form = forms[operation - first]
            label = operations.get(form)
            if label is None:
                name, place = profile.forms.name_of(form), profile.forms.location(form)
                label = operations[form] = format_csv_line([name, place])
            head = f"{operation},{label},{program_names[programs[operation - first]]}"
        else:
            head = ",,,"
        yield (
            f"{head},{run_number if run_number >= 0 else ''},{rank},{line},"
            f"{views[dram]},{views[l1]},{views[l1_small]},{views[trace]},"
            f"{STATE_NAMES[kind]},{cause if cause >= 0 else ''}"
        )
