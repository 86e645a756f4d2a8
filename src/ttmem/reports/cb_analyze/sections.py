# SPDX-License-Identifier: Apache-2.0
"""The parts of the whole report, once for Markdown and for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ttmem.circular_buffers.analyze import Analysis, SourceFacts, cross_checks
from ttmem.circular_buffers.depths import Curve
from ttmem.circular_buffers.simulate import Simulation, critical_points
from ttmem.reports.cb_profile import tables as cb_profile_tables
from ttmem.reports.cb_simulate import tables as cb_tables
from ttmem.reports.cb_simulate import terminal as cb_terminal
from ttmem.reports.cb_simulate.tables import CbTable, kib
from ttmem.reports.kit.units import counted, one_line, short, thousands

_MOST_ROWS = 200
_EXPRESSION_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Part:
    """One section: sentences, tables, perhaps the drawing."""

    key: str
    title: str
    lines: tuple[str, ...] = ()
    tables: tuple[CbTable, ...] = ()
    curves: tuple[Curve, ...] = ()


def parts(analysis: Analysis) -> list[Part]:
    """What there is, in the order of the questions: does it matter, why, what does the code do, what was seen."""
    found: list[Part] = []
    checks = cross_checks(analysis)
    if checks:
        found.append(Part("checks", "What the parts say of each other", tuple(map(one_line, checks))))
    if len(analysis.simulations) > 1:
        found.append(_scaling(analysis.simulations))
    elif analysis.simulations:
        found.append(_single(analysis.simulations[0]))
    if analysis.curves:
        title = "Throughput over depth (simulated)"
        about = (
            "One tile in, one tile out, both buffers equally deep. Lines: constant transfer times; bands: times that "
            "vary by 0.6 of their mean."
        )
        found.append(Part("depth", title, (about,), (_curve_table(analysis.curves),), analysis.curves))
    if len(analysis.sources) > 1:
        found.append(_side_by_side(analysis.sources))
    found += [_source(source, number) for number, source in enumerate(analysis.sources)]
    for number, evidence in enumerate(analysis.evidence):
        lines = (*cb_profile_tables.sentences(evidence), *cb_profile_tables.instead(evidence))
        tables = tuple(cb_profile_tables.tables(evidence))
        found.append(
            Part(f"evidence-{number}", f"Evidence: {one_line(evidence.name)}", tuple(map(one_line, lines)), tables)
        )
    if analysis.simulations:
        assumed = cb_tables.assumption_lines(analysis.simulations[0].assumptions)
        found.append(Part("assumptions", "What the simulation assumes", tuple(assumed)))
    return found


def _single(simulation: Simulation) -> Part:
    workload = simulation.workload
    builders = (cb_tables.predicted, cb_tables.allocated, cb_tables.compatible, cb_tables.choices)
    lines = [*cb_tables.headline(simulation), *cb_tables.causes([simulation]), *cb_terminal.failures(simulation)]
    title = f"{workload} tiles ({workload.class_name} workload)"
    return Part("simulation", title, tuple(lines), tuple(build(simulation) for build in builders))


def _scaling(simulations: Sequence[Simulation]) -> Part:
    lines = [*cb_tables.critical_lines(critical_points(simulations)), *cb_tables.causes(simulations)]
    return Part("scaling", "Scaling over workloads", tuple(lines), (cb_tables.scaling(simulations),))


def _curve_table(curves: Sequence[Curve]) -> CbTable:
    from ttmem.reports.cb_simulate.chart import rates

    depths = sorted({point.depth_tiles for curve in curves for point in curve.points})
    rows = []
    for curve in curves:
        known = {point.depth_tiles: rates(point.tiles_per_kilocycle) for point in curve.points}
        rows.append((str(curve.tiles_per_barrier), *(known.get(depth, "-") for depth in depths)))
    heads = ("Tiles per barrier", *(f"depth {depth}" for depth in depths))
    return CbTable("Tiles per 1000 cycles", heads, tuple(rows))


def _side_by_side(sources: Sequence[SourceFacts]) -> Part:
    """Two versions of a program: the same question to each."""
    questions: list[tuple[str, Any]] = [
        ("Files", lambda one: thousands(int(_files(one)))),
        ("Declarations", lambda one: thousands(len(one.declarations))),
        ("Fixed sizes", lambda one: thousands(one.by_strategy["fixed"])),
        ("Adaptive sizes", lambda one: thousands(one.by_strategy["adaptive"])),
        ("Unknown sizes", lambda one: thousands(one.by_strategy["unknown"])),
        ("KB in known sizes", lambda one: kib(one.known_bytes)),
        ("Sizes left open", lambda one: thousands(one.open_sizes)),
        ("Findings", lambda one: thousands(len(one.findings))),
    ]
    names = tuple(short(one.name, 40) for one in sources)
    overview = CbTable(
        "Side by side",
        ("", *names),
        tuple((title, *(ask(one) for one in sources)) for title, ask in questions),
    )
    indices = list(dict.fromkeys(_index(one) for source in sources for one in source.declarations))
    sizes = CbTable(
        "Size by buffer index",
        ("Index", *names),
        tuple((index, *(_sizes_at(source, index) for source in sources)) for index in indices[:_MOST_ROWS]),
        left=1 + len(sources),
    )
    return Part("sources", "Source code side by side", (), (overview, sizes))


def _source(source: SourceFacts, number: int) -> Part:
    strategies = ", ".join(f"{count} {name}" for name, count in source.by_strategy.most_common())
    line = (
        f"{counted(int(_files(source)), 'file')}, {counted(len(source.declarations), 'declaration')}"
        f"{f' ({strategies})' if strategies else ''}; {kib(source.known_bytes)} KB in sizes that are known, "
        f"{source.open_sizes} left open; {counted(len(source.findings), 'finding')}"
    )
    rows = tuple(
        (
            f"{one['file']}:{one['line']}",
            str(one["api"]),
            _index(one),
            _size(one),
            str(one["strategy"]),
            "yes" if one["borrowed"] else "",
        )
        for one in source.declarations[:_MOST_ROWS]
    )
    tables = [
        CbTable(
            "Declarations (read from the code)", ("Where", "API", "Index", "Size", "Strategy", "Borrowed"), rows, left=6
        )
    ]
    if source.findings:
        found = tuple(
            (str(one["rule"]), f"{one['file']}:{one['line']}", short(str(one["message"]), 300))
            for one in source.findings[:_MOST_ROWS]
        )
        tables.append(CbTable("Findings", ("Rule", "Where", "What"), found, left=3))
    if kernels := source.document.get("kernels"):
        tables.append(_kernels(kernels))
    left_out = []
    if bound := source.document.get("bindings"):
        left_out.append(f"bound: {', '.join(f'{name} = {value}' for name, value in bound.items())}")
    if len(source.declarations) > _MOST_ROWS:
        left_out.append(f"{thousands(len(source.declarations) - _MOST_ROWS)} declarations are not listed here")
    return Part(f"source-{number}", f"Source code: {one_line(source.name)}", (line, *left_out), tuple(tables))


_KERNEL_FIGURES = (
    ("lines", "Lines"),
    ("code_lines", "Code"),
    ("buffer_operations", "CB ops"),
    ("loops", "Loops"),
    ("deepest_loop", "Deepest"),
    ("branches", "Branches"),
    ("noc_calls", "NoC calls"),
    ("barriers", "Barriers"),
)


def _kernels(kernels: Sequence[Mapping[str, Any]]) -> CbTable:
    """Size and complexity of the source; what a binary takes of the kernel ring only a build tells."""
    rows = tuple(
        (str(one["file"]), *(str(one.get(key, "-")) for key, _ in _KERNEL_FIGURES)) for one in kernels[:_MOST_ROWS]
    )
    return CbTable("Kernels (read from the code)", ("File", *(title for _, title in _KERNEL_FIGURES)), rows)


def _files(source: SourceFacts) -> int:
    files = source.document["files"]
    return files if isinstance(files, int) else len(files)


def _index(declaration: Mapping[str, Any]) -> str:
    index = declaration["index"]
    return "?" if index is None else short(str(index), 40)


def _sizes_at(source: SourceFacts, index: str) -> str:
    return "; ".join(_size(one) for one in source.declarations if _index(one) == index) or "-"


def _size(declaration: Mapping[str, Any]) -> str:
    if declaration["bytes"] is not None:
        return f"{thousands(int(declaration['bytes']))} B"
    total = declaration["total"]
    return "?" if total is None else short(str(total), _EXPRESSION_CHARACTERS)
