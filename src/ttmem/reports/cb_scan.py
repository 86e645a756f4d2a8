# SPDX-License-Identifier: Apache-2.0
"""The answer of ``ttmem cb scan``: buffers that C++ code declares, and the rules that kernels break."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ttmem.base.formatting import flatten_text, format_count, pluralize, shorten
from ttmem.circular_buffers.scan.cpp.arithmetic import format_of
from ttmem.circular_buffers.scan.cpp.expressions import Bindings, Evaluation, Expression, leaves, render
from ttmem.circular_buffers.scan.host.programs import ProgramTotals, RangeTotal, Sized
from ttmem.circular_buffers.scan.model import Declaration, KernelFigures, ScanFinding, Skipped
from ttmem.circular_buffers.scan.rules import RULES
from ttmem.circular_buffers.scan.scanning import Scan
from ttmem.reports.kit import sarif
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.documents import Document
from ttmem.reports.kit.tables import Table, name_column, number_column


class SourceLineRow(Document, frozen=True):
    """A line of a file."""

    file: str
    line: int


class HelperCallRow(Document, frozen=True):
    """A helper function on the way to a declaration."""

    function: str
    line: int


class DeclarationRow(Document, frozen=True):
    """A buffer that the code declares; sizes are null until every name in them is bound."""

    file: str
    line: int
    api: str
    index: int | str | None
    """A number, the name of a dataflow buffer, or the expression as written."""
    total: str
    """As written in the source."""
    page: str
    total_bytes: int | None = msgspec.field(name="bytes")
    format: str | None
    strategy: str
    """``fixed``, ``adaptive`` or ``unknown``."""
    borrowed: bool
    """It is located in a tensor's memory and takes none of its own."""
    indices: Sequence[int | str]
    size_class: str = msgspec.field(name="class")
    total_expanded: str
    unknowns: Sequence[str]
    """Names that must be bound before the size is known."""
    page_bytes: int | None
    pages: int | None
    core_ranges: str | None
    program: str
    conditions: Sequence[str]
    active: bool
    """False: its conditions are known not to hold."""
    borrowed_if: str | None
    repeats: str | None
    through: Sequence[HelperCallRow]
    declared_at: SourceLineRow


class PlacedBufferRow(Document, frozen=True):
    """The location of a buffer."""

    index: int | str | None
    line: int
    address: int | None
    total_bytes: int | None = msgspec.field(name="bytes")


class ScannedProgram(Document, frozen=True):
    """A program compared with one board."""

    file: str
    line: int
    name: str
    bytes_per_core: int
    is_lower_bound: bool
    buffers: int
    borrowed: int
    unknown: int
    ranges: Sequence[RangeTotal] = msgspec.field(name="core_ranges")
    placement: Sequence[PlacedBufferRow]
    end_address: int | None
    free_bytes_per_core: int | None
    """Negative: the buffers do not fit."""
    assumed_one_core: bool
    """Ranges with unknown cores were placed as if they shared a core."""


class ScanSummary(Document, frozen=True):
    """Counts; a site is a declaration where it is written, however often it is reached."""

    sites: int
    sites_by_api: Mapping[str, int]
    sites_by_class: Mapping[str, int]
    declarations_by_strategy: Mapping[str, int]
    programs: int
    kernels: int
    errors: int
    warnings: int


class CbScan(Document, frozen=True, tag_field="schema", tag="ttmem.cb-scan/1"):
    """Circular and dataflow buffers in C++ code, and rules that kernels break."""

    files: int
    declarations: Sequence[DeclarationRow]
    findings: Sequence[ScanFinding]
    programs: Sequence[ScannedProgram]
    kernels: Sequence[KernelFigures]
    summary: ScanSummary
    board: str | None
    bindings: Mapping[str, bool | int | float | str]
    skipped: Sequence[Skipped]
    broken: Sequence[str] = msgspec.field(name="partly_understood")


def build_document(scan: Scan) -> CbScan:
    """Build the document of a scan."""
    sized = {id(one.declaration): one for program in scan.programs for one in program.buffers}
    return CbScan(
        files=scan.files,
        declarations=[_describe_declaration(one, sized[id(one)], scan.bindings) for one in scan.declarations],
        findings=scan.findings,
        programs=[_describe_program(one) for one in scan.programs],
        kernels=scan.kernels,
        summary=ScanSummary(
            sites=len(scan.sites),
            sites_by_api=Counter(site.api for site in scan.sites),
            sites_by_class=Counter(site.size_class for site in scan.sites),
            declarations_by_strategy=Counter(declaration.strategy for declaration in scan.declarations),
            programs=len(scan.programs),
            kernels=len(scan.kernels),
            errors=scan.count("error"),
            warnings=scan.count("warning"),
        ),
        board=scan.memory_map.board_name if scan.memory_map is not None else None,
        bindings=scan.bindings,
        skipped=scan.skipped,
        broken=scan.broken,
    )


def _describe_declaration(declaration: Declaration, sized: Sized, bindings: Bindings) -> DeclarationRow:
    total = declaration.total
    return DeclarationRow(
        file=declaration.file,
        line=declaration.line,
        api=declaration.api,
        index=find_index(sized),
        total=render_expression(declaration, total),
        page=render_expression(declaration, declaration.page),
        total_bytes=sized.total_bytes,
        format=find_format(declaration, bindings),
        strategy=declaration.strategy,
        borrowed=sized.borrowed,
        indices=[_evaluate_index(index, bindings) for index in declaration.indices],
        size_class=declaration.size_class,
        total_expanded=render(total, expand=True),
        unknowns=leaves(total) if total is not None and sized.total_bytes is None else (),
        page_bytes=sized.page_bytes,
        pages=sized.pages,
        core_ranges=render_expression(declaration, declaration.core_ranges) or None,
        program=declaration.program,
        conditions=[str(condition) for condition in declaration.conditions],
        active=sized.active,
        borrowed_if=str(declaration.borrowed_if) if declaration.borrowed_if is not None else None,
        repeats=render(declaration.repeats) if declaration.repeats is not None else None,
        through=[HelperCallRow(function, line) for function, line in declaration.trail],
        declared_at=SourceLineRow(*declaration.site[:2]),
    )


def render_expression(declaration: Declaration, expression: Expression | None) -> str:
    """Return the expression as written; a helper's parameters are replaced by the caller's arguments."""
    return render(expression, expand=bool(declaration.trail))


def find_index(sized: Sized) -> int | str | None:
    """A number, the name of a dataflow buffer, or the expression as written."""
    if sized.index is not None:
        return sized.index
    if sized.declaration.name:
        return sized.declaration.name
    return render(sized.declaration.index) or None


def _evaluate_index(expression: Expression, bindings: Bindings) -> int | str:
    number = Evaluation(bindings).integer(expression)
    return number if number is not None else render(expression)


def find_format(declaration: Declaration, bindings: Bindings) -> str | None:
    """Return the format's name where it is known, else its expression."""
    if declaration.format is None:
        return None
    value = Evaluation(bindings).value(declaration.format)
    if isinstance(value, str) and format_of(value) is not None:
        return value
    return render(declaration.format, expand=True) or None


def _describe_program(program: ProgramTotals) -> ScannedProgram:
    return ScannedProgram(
        file=program.file,
        line=program.line,
        name=program.name,
        bytes_per_core=program.bytes_per_core,
        is_lower_bound=program.unknown > 0,
        buffers=len(program.buffers),
        borrowed=sum(1 for one in program.buffers if one.borrowed),
        unknown=program.unknown,
        ranges=program.ranges,
        placement=[
            PlacedBufferRow(find_index(one), one.declaration.line, address, one.total_bytes)
            for one, address in zip(program.counted, program.addresses, strict=False)
        ],
        end_address=program.end_address,
        free_bytes_per_core=program.free_bytes_per_core,
        assumed_one_core=not program.ranges_are_known,
    )


_PROGRAMS = 12
_BUFFERS = 40
_KERNELS = 15
_FINDINGS = 40
_BUFFER_COLUMNS = (
    number_column("line", str),
    name_column("buffer"),
    number_column("bytes", str),
    number_column("pages", str),
    *map(name_column, ("format", "size", "cores", "as written")),
)
_KERNEL_FIGURES = {
    "code_lines": "lines",
    "buffers": "buffers",
    "buffer_operations": "calls",
    "loops": "loops",
    "deepest_loop": "deep",
    "branches": "ifs",
    "noc_calls": "NoC",
    "barriers": "barriers",
}
"""Attribute of a kernel's figures -> head of its column."""
_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def render_terminal(scan: Scan, *, width: int = 100, color: bool = False, everything: bool = False) -> str:
    """Render the programs, kernels and findings; long lists are cut unless ``everything`` is set."""
    report = TextReport(width, color=color)
    base = Path(scan.path) if Path(scan.path).is_dir() else Path(scan.path).parent
    _print_head(report, scan)
    programs = sorted(scan.programs, key=lambda one: (-one.bytes_per_core, one.file, one.line))
    shown = programs if everything else programs[:_PROGRAMS]
    for program in shown:
        _print_program(report, program, scan, base)
    if more := len(programs) - len(shown):
        report.print(f"\n{pluralize(more, 'more program')} with fewer known bytes (--all shows them)")
    _print_kernels(report, scan.kernels, base, everything=everything)
    _print_findings(report, scan.findings, base, everything=everything)
    _print_skipped(report, scan, base)
    return report.render()


def _shorten_path(file: str, base: Path) -> str:
    return str(Path(file).relative_to(base)) if Path(file).is_relative_to(base) else file


def _print_head(report: TextReport, scan: Scan) -> None:
    strategies = Counter(declaration.strategy for declaration in scan.declarations)
    report.print(
        f"{pluralize(scan.files, 'file')}, {pluralize(len(scan.declarations), 'buffer')} in "
        f"{pluralize(len(scan.programs), 'program')}, {pluralize(len(scan.kernels), 'kernel')}",
        style="bold",
    )
    if scan.declarations:
        named = ("fixed", "adaptive", "unknown")
        report.print(", ".join(f"{strategies[name]} {name}" for name in named if strategies[name]) + " in size")
    if scan.bindings:
        report.print("with " + ", ".join(f"{name} = {value}" for name, value in scan.bindings.items()))


def _print_program(report: TextReport, program: ProgramTotals, scan: Scan, base: Path) -> None:
    report.print()
    report.print(f"{flatten_text(program.name)}  {_shorten_path(program.file, base)}:{program.line}", style="bold")
    rows = [_build_row(one, scan, report.width) for one in program.buffers[:_BUFFERS]]
    if len(program.buffers) > _BUFFERS:
        rows.append(("", f"{len(program.buffers) - _BUFFERS} more", *[""] * 6))
    report.print(Table(_BUFFER_COLUMNS, rows))
    report.print(_summarize_program(program, scan))


def _build_row(one: Sized, scan: Scan, width: int) -> tuple[str, ...]:
    declaration = one.declaration
    if not one.active:
        size = "not made"
    elif one.borrowed:
        size = "borrowed"
    else:
        size = declaration.strategy + (" if" if declaration.conditions else "")
    return (
        str(declaration.line),
        shorten(str(find_index(one) if find_index(one) is not None else "?"), 18),
        format_count(one.total_bytes) if one.total_bytes is not None else "?",
        format_count(one.pages) if one.pages is not None else "?",
        shorten(find_format(declaration, scan.bindings) or "?", 14),
        size,
        shorten(render_expression(declaration, declaration.core_ranges) or "?", 14),
        shorten(render_expression(declaration, declaration.total), max(20, width - 72)),
    )


def _summarize_program(program: ProgramTotals, scan: Scan) -> str:
    at_least = "at least " if program.unknown else ""
    parts = [f"  {at_least}{format_count(program.bytes_per_core)} B per core"]
    if program.unknown:
        parts.append(f"{pluralize(program.unknown, 'size')} unknown")
    if len(program.ranges) > 1:
        per_range = "; ".join(
            f"{one.core_ranges or '?'}: {format_count(one.bytes_per_core)} B" for one in program.ranges
        )
        parts.append(per_range)
    if program.end_address is not None and scan.memory_map is not None and program.free_bytes_per_core is not None:
        ends = f"ends at {format_count(program.end_address)} on {scan.memory_map.board_name}"
        if program.free_bytes_per_core >= 0:
            parts.append(f"{ends}, {format_count(program.free_bytes_per_core)} B of L1 left")
        else:
            parts.append(f"{ends}, {format_count(-program.free_bytes_per_core)} B beyond L1")
        if not program.ranges_are_known:
            parts.append("assuming that its core ranges share a core")
    return ", ".join(parts)


def _print_kernels(report: TextReport, kernels: tuple[KernelFigures, ...], base: Path, *, everything: bool) -> None:
    if not kernels:
        return
    report.print()
    ranked = sorted(kernels, key=lambda one: -one.code_lines)
    longest = max(24, report.width - 62)
    rows = [
        [shorten(_shorten_path(one.file, base), longest), *(str(getattr(one, figure)) for figure in _KERNEL_FIGURES)]
        for one in (ranked if everything else ranked[:_KERNELS])
    ]
    if not everything and len(ranked) > _KERNELS:
        rows.append([f"{len(ranked) - _KERNELS} more (--all)", *[""] * len(_KERNEL_FIGURES)])
    report.print(Table.build(("kernel", *_KERNEL_FIGURES.values()), rows, left=1))


def _print_findings(report: TextReport, findings: tuple[ScanFinding, ...], base: Path, *, everything: bool) -> None:
    report.print()
    if not findings:
        report.print("No rule violation found.")
        return
    ranked = sorted(findings, key=lambda one: one.severity != "error")
    explained: set[str] = set()
    for one in ranked if everything else ranked[:_FINDINGS]:
        place = f"{_shorten_path(one.file, base)}:{one.line}"
        report.print(f"{place}: {one.severity} {one.rule}: {flatten_text(one.message)}", style=_STYLES[one.severity])
        if one.rule not in explained:
            explained.add(one.rule)
            report.print(f"    why: {one.why}")
            report.print(f"    fix: {one.fix}")
    if not everything and len(ranked) > _FINDINGS:
        report.print(f"{pluralize(len(ranked) - _FINDINGS, 'more finding')} (--all shows them)")


def _print_skipped(report: TextReport, scan: Scan, base: Path) -> None:
    for one in scan.skipped:
        report.print(f"skipped {_shorten_path(one.file, base)}: {one.reason}")
    if scan.broken:
        parts = pluralize(len(scan.broken), "file")
        report.print(f"{parts} parsed in part; rules that need the whole file are skipped there")


def render_sarif(scan: Scan) -> str:
    """Render all rules, and each finding as a result."""
    rules = [sarif.SarifRule(one.identifier, one.title, f"{one.why}.", f"{one.fix}.") for one in RULES.values()]
    results = [
        sarif.SarifResult(one.rule, one.severity, f"{one.message}. Why: {one.why}. Fix: {one.fix}.", one.file, one.line)
        for one in scan.findings
    ]
    return sarif.render_log(rules, results)
