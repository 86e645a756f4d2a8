# SPDX-License-Identifier: Apache-2.0
"""The whole report as one offline page, with the drawings."""

from collections.abc import Iterator

from ttmem.circular_buffers.analyze import Analysis
from ttmem.circular_buffers.simulate import Simulation
from ttmem.circular_buffers.spans import nominal_spans
from ttmem.reports.cb_analyze.sections import sections
from ttmem.reports.kit.figures import Lane, Lanes
from ttmem.reports.kit.pages import Section, page
from ttmem.reports.kit.units import one_line

_FOOT = (
    "measured: on a card · computed: exact · simulated: a range over what is assumed · heuristic: as the guide counts"
    " · KB means 1024 bytes"
)
_MOST_NAMES = 12
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
    return page(title="Circular buffers", subtitle=subtitle, sections=parts, foot=_FOOT)


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
