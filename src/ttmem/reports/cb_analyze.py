# SPDX-License-Identifier: Apache-2.0
"""The answer of ``ttmem cb analyze``: simulation, source code and evidence in one report."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from ttmem.base.formatting import flatten_text, format_count, format_kib_number, format_range, pluralize, shorten
from ttmem.circular_buffers.analyze import Analysis, cross_checks
from ttmem.circular_buffers.kernels import ThroughputCurve
from ttmem.circular_buffers.scan.model import KernelFigures
from ttmem.circular_buffers.scan.scanning import Scan
from ttmem.circular_buffers.simulate import Simulation, critical_points, nominal_spans
from ttmem.circular_buffers.stall_time import DEADLOCK
from ttmem.reports import cb_profile, cb_scan, cb_simulate, cb_simulate_document
from ttmem.reports.cb_scan import DeclarationRow
from ttmem.reports.kit.charts import Lane, Lanes
from ttmem.reports.kit.documents import Document
from ttmem.reports.kit.pages import Card, Section, render_page
from ttmem.reports.kit.tables import Table, escape_markup, format_markdown


class ScannedSource(Document, frozen=True):
    """A file or folder of C++ code."""

    name: str
    strategies: Mapping[str, int]
    known_bytes: int
    open_sizes: int
    scan: cb_scan.CbScan


class CbAnalysis(Document, frozen=True, tag_field="schema", tag="ttmem.cb-analysis/1"):
    """Simulation, source code and evidence next to each other."""

    cross_checks: Sequence[str]
    simulation: cb_simulate_document.CbSimulation | None
    sources: Sequence[ScannedSource]
    evidence: Sequence[cb_profile.CbProfile]


def build_document(analysis: Analysis, *, multi: bool) -> CbAnalysis:
    """Build the document of all parts of the analysis."""
    simulation = None
    if multi:
        simulation = cb_simulate_document.build_multi(analysis.simulations, critical_points(analysis.simulations))
    elif analysis.simulations:
        simulation = cb_simulate_document.build_single(analysis.simulations[0], analysis.curves)
    return CbAnalysis(
        cross_checks=cross_checks(analysis),
        simulation=simulation,
        sources=[summarize_scan(found) for found in analysis.sources],
        evidence=[cb_profile.build_document(evidence) for evidence in analysis.evidence],
    )


def summarize_scan(found: Scan) -> ScannedSource:
    """Summarize a scan; borrowed buffers take no memory of their own and are not summed."""
    scan = cb_scan.build_document(found)
    own = [one.total_bytes for one in scan.declarations if not one.borrowed]
    return ScannedSource(
        name=found.path,
        strategies=Counter(one.strategy for one in scan.declarations),
        known_bytes=sum(size for size in own if size is not None),
        open_sizes=own.count(None),
        scan=scan,
    )


_MOST_ROWS = 200
_EXPRESSION_CHARACTERS = 80


def build_sections(analysis: Analysis) -> list[Section]:
    """Build the sections in the order of the questions: does it matter, why, what the code does, what was measured."""
    found: list[Section] = []
    if checks := cross_checks(analysis):
        found.append(Section("checks", "Cross-checks", remarks=checks))
    simulations = analysis.simulations
    if len(simulations) > 1:
        lines = [
            *cb_simulate.list_critical_points(critical_points(simulations)),
            *cb_simulate.explain_causes(simulations),
        ]
        table = cb_simulate.build_scaling(simulations)
        found.append(Section("scaling", "Scaling over workloads", [table], remarks=lines))
    for one in simulations if len(simulations) == 1 else ():
        lines = [*cb_simulate.list_headlines(one), *cb_simulate.explain_causes([one]), *cb_simulate.list_failures(one)]
        found.append(
            Section("simulation", cb_simulate.format_title(one), cb_simulate.build_workload_tables(one), remarks=lines)
        )
    if analysis.curves:
        found.append(_build_depth(analysis.curves))
    sources = [summarize_scan(scan) for scan in analysis.sources]
    if len(sources) > 1:
        found.append(_compare_sources(sources))
    found += [_describe_source(source, number) for number, source in enumerate(sources)]
    for number, evidence in enumerate(analysis.evidence):
        lines = [*cb_profile.list_sentences(evidence), *cb_profile.list_hints(evidence)]
        tables = cb_profile.build_tables(evidence)
        found.append(Section(f"evidence-{number}", f"Evidence: {flatten_text(evidence.name)}", tables, remarks=lines))
    if simulations:
        assumed = cb_simulate.list_assumptions(simulations[0].assumptions)
        found.append(Section("assumptions", "What the simulation assumes", remarks=assumed))
    return found


def _build_depth(curves: Sequence[ThroughputCurve]) -> Section:
    """Build the drawing, and its figures as a table for formats without drawings."""
    depths = sorted({depth for curve in curves for depth in curve.depth_tiles})
    rows = []
    for curve in curves:
        known = {depth: format_range(rates, 2) for depth, rates in curve.points}
        rows.append((str(curve.tiles_per_barrier), *(known.get(depth, "-") for depth in depths)))
    heads = ("Tiles per barrier", *(f"depth {depth}" for depth in depths))
    about = (
        "One tile in, one tile out, both buffers equally deep. Lines: constant transfer times; bands: times that "
        "vary by 0.6 of their mean."
    )
    return Section(
        "depth",
        "Throughput over depth (simulated)",
        [Table.build(heads, rows, left=1, title="Tiles per 1000 cycles")],
        remarks=[about],
        drawing=cb_simulate.build_chart(curves),
        drawing_role="depth-chart",
    )


def _compare_sources(sources: Sequence[ScannedSource]) -> Section:
    """Compare two versions of a program, question by question."""
    questions: dict[str, Callable[[ScannedSource], str]] = {
        "Files": lambda one: format_count(one.scan.files),
        "Declarations": lambda one: format_count(len(one.scan.declarations)),
        "Fixed sizes": lambda one: format_count(one.strategies.get("fixed", 0)),
        "Adaptive sizes": lambda one: format_count(one.strategies.get("adaptive", 0)),
        "Unknown sizes": lambda one: format_count(one.strategies.get("unknown", 0)),
        "KiB in known sizes": lambda one: format_kib_number(one.known_bytes),
        "Sizes left open": lambda one: format_count(one.open_sizes),
        "Findings": lambda one: format_count(len(one.scan.findings)),
    }
    names = tuple(shorten(one.name, 40) for one in sources)
    rows = [(title, *(ask(one) for one in sources)) for title, ask in questions.items()]
    overview = Table.build(("", *names), rows, left=1, title="Side by side")
    indices = list(dict.fromkeys(_format_index(one) for source in sources for one in source.scan.declarations))
    rows = [(index, *(_format_sizes(source, index) for source in sources)) for index in indices[:_MOST_ROWS]]
    sizes = Table.build(("Index", *names), rows, title="Size by buffer index")
    return Section("sources", "Source code side by side", [overview, sizes])


def _describe_source(source: ScannedSource, number: int) -> Section:
    scan = source.scan
    strategies = ", ".join(f"{count} {name}" for name, count in Counter(source.strategies).most_common())
    line = (
        f"{pluralize(scan.files, 'file')}, {pluralize(len(scan.declarations), 'declaration')}"
        f"{f' ({strategies})' if strategies else ''}; "
        f"{format_kib_number(source.known_bytes)} KiB in sizes that are known, "
        f"{source.open_sizes} left open; {pluralize(len(scan.findings), 'finding')}"
    )
    rows = tuple(
        (
            f"{one.file}:{one.line}",
            one.api,
            _format_index(one),
            _format_size(one),
            one.strategy,
            "yes" if one.borrowed else "",
        )
        for one in scan.declarations[:_MOST_ROWS]
    )
    heads = ("Where", "API", "Index", "Size", "Strategy", "Borrowed")
    tables = [Table.build(heads, rows, title="Declarations (read from the code)")]
    if scan.findings:
        found = tuple(
            (one.rule, f"{one.file}:{one.line}", shorten(one.message, 300)) for one in scan.findings[:_MOST_ROWS]
        )
        tables.append(Table.build(("Rule", "Where", "What"), found, title="Findings"))
    if scan.kernels:
        tables.append(_build_kernel_table(scan.kernels))
    left_out = []
    if scan.bindings:
        left_out.append(f"bound: {', '.join(f'{name} = {value}' for name, value in scan.bindings.items())}")
    if len(scan.declarations) > _MOST_ROWS:
        left_out.append(f"{format_count(len(scan.declarations) - _MOST_ROWS)} declarations are not listed here")
    return Section(f"source-{number}", f"Source code: {flatten_text(source.name)}", tables, remarks=[line, *left_out])


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


def _build_kernel_table(kernels: Sequence[KernelFigures]) -> Table:
    """Build the table of source size and complexity; the bytes in the kernel ring are known only after a build."""
    rows = [(one.file, *(str(getattr(one, key)) for key in _KERNEL_FIGURES)) for one in kernels[:_MOST_ROWS]]
    return Table.build(("File", *_KERNEL_FIGURES.values()), rows, left=1, title="Kernels (read from the code)")


def _format_index(declaration: DeclarationRow) -> str:
    return "?" if declaration.index is None else shorten(str(declaration.index), 40)


def _format_sizes(source: ScannedSource, index: str) -> str:
    return "; ".join(_format_size(one) for one in source.scan.declarations if _format_index(one) == index) or "-"


def _format_size(declaration: DeclarationRow) -> str:
    size = declaration.total_bytes
    return shorten(declaration.total, _EXPRESSION_CHARACTERS) if size is None else f"{format_count(size)} B"


def render_markdown(analysis: Analysis) -> str:
    """Render headings, sentences and tables; the drawing is a table here."""
    blocks = ["# Circular buffers", *(_render_section(section) for section in build_sections(analysis))]
    blocks.append(
        "Figures are labelled: measured (on a card), computed (exact), simulated (a range), heuristic (the guide's)."
    )
    return "\n\n".join(blocks) + "\n"


def _render_section(section: Section) -> str:
    blocks = [f"## {escape_markup(section.title)}"]
    if section.remarks:
        blocks.append("\n".join(f"- {escape_markup(line)}" for line in section.remarks))
    for table in section.tables:
        lines = format_markdown(table, aligned=True, markup=False)
        blocks.append("\n".join([f"**{escape_markup(table.title)}**", "", *lines]))
    return "\n\n".join(blocks)


_FOOT = (
    "measured: on a card · computed: exact · simulated: a range over what is assumed · heuristic: as the guide counts"
)
_MOST_NAMES = 12
_MOST_CARDS = 6
_MUCH_PERCENT = 25.0
"""Share of the time from which on waiting is highlighted."""
_MOST_SPANS = 160


def render_html(analysis: Analysis) -> str:
    """Render the page with the drawings."""
    names = [str(one.workload) for one in analysis.simulations]
    names += [scan.path for scan in analysis.sources] + [evidence.name for evidence in analysis.evidence]
    subtitle = " · ".join(names[:_MOST_NAMES])
    parts = build_sections(analysis)
    if len(analysis.simulations) == 1:
        after = next(number for number, part in enumerate(parts) if part.key == "simulation") + 1
        parts[after:after] = _build_pipelines(analysis.simulations[0])
    cards = _build_cards(analysis.simulations[0]) if len(analysis.simulations) == 1 else []
    return render_page(title="Circular buffers", subtitle=subtitle, cards=cards, sections=parts, foot=_FOOT)


def _build_cards(simulation: Simulation) -> list[Card]:
    """Build one card per strategy with the time that compute waits, and the recommended one."""
    cards = []
    for name, result in list(simulation.results.items())[:_MOST_CARDS]:
        stall, hangs = result.stall, result.stall.cause == DEADLOCK
        cards.append(
            Card(
                flatten_text(name),
                "hangs" if hangs else format_range(stall.stall_percent),
                "" if hangs else "% waiting",
                f"{stall.cause}; {format_kib_number(result.total_bytes)} KiB, {result.l1.used_percent:.1f} % of L1",
                None if hangs else stall.stall_percent[1],
                "alarm" if hangs or result.l1.failure else "warn" if stall.stall_percent[0] > _MUCH_PERCENT else "ok",
            )
        )
    best = simulation.best
    detail = (
        f"{cb_simulate.format_tiles(best.tiles)}, {format_kib_number(best.total_bytes)} KiB; "
        f"{format_range(best.cycles_per_pair, 0)} cycles per pair of tiles"
    )
    return [*cards, Card("Recommended", str(best.tiles_per_barrier), "tiles per barrier", detail)]


def _build_pipelines(simulation: Simulation) -> Iterator[Section]:
    """Draw the busy and waiting times of each strategy; only the start, because the rest repeats it."""
    about = "Constant transfer times, from the start. A kernel waits for pages (wait front) or for room (reserve back)."
    for number, (name, result) in enumerate(simulation.results.items()):
        kernels = nominal_spans(simulation.workload, result, simulation.assumptions)
        ends = [spans[:_MOST_SPANS][-1].end_cycle for spans in kernels.values() if spans]
        end = max(ends, default=0.0)
        lanes = [
            Lane(kernel, [(first, min(last, end), kind) for first, last, kind in spans if first < end])
            for kernel, spans in kernels.items()
        ]
        title = f"Pipeline with {flatten_text(name)}"
        drawing = Lanes(title, "cycles", end, lanes)
        yield Section(f"pipeline-{number}", title, about=about, drawing=drawing, drawing_role="pipeline")
