# SPDX-License-Identifier: Apache-2.0
"""The parts of the whole report, once for Markdown and for the page."""

from collections import Counter
from collections.abc import Callable, Sequence

from ttmem.circular_buffers.analyze import Analysis, cross_checks
from ttmem.circular_buffers.buffer_depths import Curve
from ttmem.circular_buffers.scan import KernelFigures
from ttmem.circular_buffers.simulate import critical_points
from ttmem.reports.cb_analyze.document import ScannedSource, scanned
from ttmem.reports.cb_profile import tables as cb_profile_tables
from ttmem.reports.cb_scan.document import Declaration
from ttmem.reports.cb_simulate import chart
from ttmem.reports.cb_simulate import tables as cb_tables
from ttmem.reports.kit.pages import Section
from ttmem.reports.kit.tables import Table
from ttmem.reports.kit.units import bounds_text, counted, kib, one_line, short, thousands

_MOST_ROWS = 200
_EXPRESSION_CHARACTERS = 80


def sections(analysis: Analysis) -> list[Section]:
    """What there is, in the order of the questions: does it matter, why, what does the code do, what was seen."""
    found: list[Section] = []
    if checks := cross_checks(analysis):
        found.append(Section("checks", "What the parts say of each other", remarks=checks))
    simulations = analysis.simulations
    if len(simulations) > 1:
        lines = [*cb_tables.critical_lines(critical_points(simulations)), *cb_tables.causes(simulations)]
        table = cb_tables.scaling(simulations)
        found.append(Section("scaling", "Scaling over workloads", [table], remarks=lines))
    for one in simulations if len(simulations) == 1 else ():
        lines = [*cb_tables.headline(one), *cb_tables.causes([one]), *cb_tables.failures(one)]
        found.append(Section("simulation", cb_tables.title(one), cb_tables.of_workload(one), remarks=lines))
    if analysis.curves:
        found.append(_depth(analysis.curves))
    sources = [scanned(scan) for scan in analysis.sources]
    if len(sources) > 1:
        found.append(_side_by_side(sources))
    found += [_source(source, number) for number, source in enumerate(sources)]
    for number, evidence in enumerate(analysis.evidence):
        lines = [*cb_profile_tables.sentences(evidence), *cb_profile_tables.instead(evidence)]
        tables = cb_profile_tables.tables(evidence)
        found.append(Section(f"evidence-{number}", f"Evidence: {one_line(evidence.name)}", tables, remarks=lines))
    if simulations:
        assumed = cb_tables.assumption_lines(simulations[0].assumptions)
        found.append(Section("assumptions", "What the simulation assumes", remarks=assumed))
    return found


def _depth(curves: Sequence[Curve]) -> Section:
    """The drawing, and its figures as a table for formats that do not draw."""
    depths = sorted({depth for curve in curves for depth in curve.depth_tiles})
    rows = []
    for curve in curves:
        known = {depth: bounds_text(rates, 2) for depth, rates in curve.points}
        rows.append((str(curve.tiles_per_barrier), *(known.get(depth, "-") for depth in depths)))
    heads = ("Tiles per barrier", *(f"depth {depth}" for depth in depths))
    about = (
        "One tile in, one tile out, both buffers equally deep. Lines: constant transfer times; bands: times that "
        "vary by 0.6 of their mean."
    )
    return Section(
        "depth",
        "Throughput over depth (simulated)",
        [Table.of_texts(heads, rows, left=1, title="Tiles per 1000 cycles")],
        remarks=[about],
        drawing=chart.line_chart(curves),
        drawing_role="depth-chart",
    )


def _side_by_side(sources: Sequence[ScannedSource]) -> Section:
    """Two versions of a program: the same question to each."""
    questions: dict[str, Callable[[ScannedSource], str]] = {
        "Files": lambda one: thousands(one.scan.files),
        "Declarations": lambda one: thousands(len(one.scan.declarations)),
        "Fixed sizes": lambda one: thousands(one.strategies.get("fixed", 0)),
        "Adaptive sizes": lambda one: thousands(one.strategies.get("adaptive", 0)),
        "Unknown sizes": lambda one: thousands(one.strategies.get("unknown", 0)),
        "KiB in known sizes": lambda one: kib(one.known_bytes),
        "Sizes left open": lambda one: thousands(one.open_sizes),
        "Findings": lambda one: thousands(len(one.scan.findings)),
    }
    names = tuple(short(one.name, 40) for one in sources)
    rows = [(title, *(ask(one) for one in sources)) for title, ask in questions.items()]
    overview = Table.of_texts(("", *names), rows, left=1, title="Side by side")
    indices = list(dict.fromkeys(_index(one) for source in sources for one in source.scan.declarations))
    rows = [(index, *(_sizes_at(source, index) for source in sources)) for index in indices[:_MOST_ROWS]]
    sizes = Table.of_texts(("Index", *names), rows, title="Size by buffer index")
    return Section("sources", "Source code side by side", [overview, sizes])


def _source(source: ScannedSource, number: int) -> Section:
    scan = source.scan
    strategies = ", ".join(f"{count} {name}" for name, count in Counter(source.strategies).most_common())
    line = (
        f"{counted(scan.files, 'file')}, {counted(len(scan.declarations), 'declaration')}"
        f"{f' ({strategies})' if strategies else ''}; {kib(source.known_bytes)} KiB in sizes that are known, "
        f"{source.open_sizes} left open; {counted(len(scan.findings), 'finding')}"
    )
    rows = tuple(
        (
            f"{one.file}:{one.line}",
            one.api,
            _index(one),
            _size(one),
            one.strategy,
            "yes" if one.borrowed else "",
        )
        for one in scan.declarations[:_MOST_ROWS]
    )
    heads = ("Where", "API", "Index", "Size", "Strategy", "Borrowed")
    tables = [Table.of_texts(heads, rows, title="Declarations (read from the code)")]
    if scan.findings:
        found = tuple(
            (one.rule, f"{one.file}:{one.line}", short(one.message, 300)) for one in scan.findings[:_MOST_ROWS]
        )
        tables.append(Table.of_texts(("Rule", "Where", "What"), found, title="Findings"))
    if scan.kernels:
        tables.append(_kernels(scan.kernels))
    left_out = []
    if scan.bindings:
        left_out.append(f"bound: {', '.join(f'{name} = {value}' for name, value in scan.bindings.items())}")
    if len(scan.declarations) > _MOST_ROWS:
        left_out.append(f"{thousands(len(scan.declarations) - _MOST_ROWS)} declarations are not listed here")
    return Section(f"source-{number}", f"Source code: {one_line(source.name)}", tables, remarks=[line, *left_out])


_KERNEL_FIGURES = {
    "lines": "Lines",
    "code_lines": "Code",
    "buffer_operations": "CB ops",
    "loops": "Loops",
    "deepest_loop": "Deepest",
    "branches": "Branches",
    "noc_calls": "NoC calls",
    "barriers": "Barriers",
}


def _kernels(kernels: Sequence[KernelFigures]) -> Table:
    """Size and complexity of the source; what a binary takes of the kernel ring only a build tells."""
    rows = [(one.file, *(str(getattr(one, key)) for key in _KERNEL_FIGURES)) for one in kernels[:_MOST_ROWS]]
    return Table.of_texts(("File", *_KERNEL_FIGURES.values()), rows, left=1, title="Kernels (read from the code)")


def _index(declaration: Declaration) -> str:
    return "?" if declaration.index is None else short(str(declaration.index), 40)


def _sizes_at(source: ScannedSource, index: str) -> str:
    return "; ".join(_size(one) for one in source.scan.declarations if _index(one) == index) or "-"


def _size(declaration: Declaration) -> str:
    size = declaration.total_bytes
    return short(declaration.total, _EXPRESSION_CHARACTERS) if size is None else f"{thousands(size)} B"
