# SPDX-License-Identifier: Apache-2.0
"""The whole report as one offline page, with the drawings."""

from collections.abc import Iterator

from ttmem.circular_buffers.analyze import Analysis
from ttmem.circular_buffers.busy_intervals import nominal_spans
from ttmem.circular_buffers.simulate import Simulation
from ttmem.circular_buffers.stall_time import DEADLOCK
from ttmem.reports.cb_analyze.sections import sections
from ttmem.reports.cb_simulate import tables as cb_tables
from ttmem.reports.kit.drawings import Lane, Lanes
from ttmem.reports.kit.pages import Card, Section, page
from ttmem.reports.kit.units import bounds_text, kib, one_line

_FOOT = (
    "measured: on a card · computed: exact · simulated: a range over what is assumed · heuristic: as the guide counts"
)
_MOST_NAMES = 12
_MOST_CARDS = 6
_MUCH_PERCENT = 25.0
"""Of the time at least, from which on waiting is worth a look."""
_MOST_SPANS = 160


def render(analysis: Analysis) -> str:
    """Whatever parts there are."""
    names = [str(one.workload) for one in analysis.simulations]
    names += [scan.path for scan in analysis.sources] + [evidence.name for evidence in analysis.evidence]
    subtitle = " · ".join(names[:_MOST_NAMES])
    parts = sections(analysis)
    if len(analysis.simulations) == 1:
        after = next(number for number, part in enumerate(parts) if part.key == "simulation") + 1
        parts[after:after] = _pipelines(analysis.simulations[0])
    cards = _cards(analysis.simulations[0]) if len(analysis.simulations) == 1 else []
    return page(title="Circular buffers", subtitle=subtitle, cards=cards, sections=parts, foot=_FOOT)


def _cards(simulation: Simulation) -> list[Card]:
    """How long compute waits with each strategy, and what to choose instead."""
    cards = []
    for name, result in list(simulation.results.items())[:_MOST_CARDS]:
        stall, hangs = result.stall, result.stall.cause == DEADLOCK
        cards.append(
            Card(
                one_line(name),
                "hangs" if hangs else bounds_text(stall.stall_percent),
                "" if hangs else "% waiting",
                f"{stall.cause}; {kib(result.total_bytes)} KiB, {result.l1.used_percent:.1f} % of L1",
                None if hangs else stall.stall_percent[1],
                "alarm" if hangs or result.l1.failure else "warn" if stall.stall_percent[0] > _MUCH_PERCENT else "ok",
            )
        )
    best = simulation.best
    detail = (
        f"{cb_tables.tiles_text(best.tiles)}, {kib(best.total_bytes)} KiB; "
        f"{bounds_text(best.cycles_per_pair, 0)} cycles per pair of tiles"
    )
    return [*cards, Card("Recommended", str(best.tiles_per_barrier), "tiles per barrier", detail)]


def _pipelines(simulation: Simulation) -> Iterator[Section]:
    """Who was busy and who waited, strategy by strategy; the start of it, because the rest repeats it."""
    about = "Constant transfer times, from the start. A kernel waits for pages (wait front) or for room (reserve back)."
    for number, (name, result) in enumerate(simulation.results.items()):
        kernels = nominal_spans(simulation.workload, result, simulation.assumptions)
        ends = [spans[:_MOST_SPANS][-1].end_cycle for spans in kernels.values() if spans]
        end = max(ends, default=0.0)
        lanes = [
            Lane(kernel, [(first, min(last, end), kind) for first, last, kind in spans if first < end])
            for kernel, spans in kernels.items()
        ]
        title = f"Pipeline with {one_line(name)}"
        drawing = Lanes(title, "cycles", end, lanes)
        yield Section(f"pipeline-{number}", title, about=about, drawing=drawing, drawing_role="pipeline")
