# SPDX-License-Identifier: Apache-2.0
"""A scan of C++ code for a person: programs and their buffers, kernels, and what breaks a rule."""

from collections import Counter
from pathlib import Path

from ttmem.circular_buffers.scan import Finding, KernelFigures, ProgramTotals, Scan, Sized
from ttmem.reports.cb_scan.document import format_text, index_of, written
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Table, name_column, number_column
from ttmem.reports.kit.units import counted, one_line, short, thousands

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


def render(scan: Scan, *, width: int = 100, color: bool = False, everything: bool = False) -> str:
    """Text for a terminal of this width; long lists are cut unless everything is wanted."""
    report = TextReport(width, color=color)
    base = Path(scan.path) if Path(scan.path).is_dir() else Path(scan.path).parent
    _head(report, scan)
    programs = sorted(scan.programs, key=lambda one: (-one.bytes_per_core, one.file, one.line))
    shown = programs if everything else programs[:_PROGRAMS]
    for program in shown:
        _program(report, program, scan, base)
    if more := len(programs) - len(shown):
        report.print(f"\n{counted(more, 'more program')} with fewer known bytes (--all shows them)")
    _kernels(report, scan.kernels, base, everything=everything)
    _findings(report, scan.findings, base, everything=everything)
    _left_out(report, scan, base)
    return report.text()


def _shown(file: str, base: Path) -> str:
    return str(Path(file).relative_to(base)) if Path(file).is_relative_to(base) else file


def _head(report: TextReport, scan: Scan) -> None:
    strategies = Counter(declaration.strategy for declaration in scan.declarations)
    report.print(
        f"{counted(scan.files, 'file')}, {counted(len(scan.declarations), 'buffer')} in "
        f"{counted(len(scan.programs), 'program')}, {counted(len(scan.kernels), 'kernel')}",
        style="bold",
    )
    if scan.declarations:
        named = ("fixed", "adaptive", "unknown")
        report.print(", ".join(f"{strategies[name]} {name}" for name in named if strategies[name]) + " in size")
    if scan.bindings:
        report.print("with " + ", ".join(f"{name} = {value}" for name, value in scan.bindings.items()))


def _program(report: TextReport, program: ProgramTotals, scan: Scan, base: Path) -> None:
    report.print()
    report.print(f"{one_line(program.name)}  {_shown(program.file, base)}:{program.line}", style="bold")
    rows = [_row(one, scan, report.width) for one in program.buffers[:_BUFFERS]]
    if len(program.buffers) > _BUFFERS:
        rows.append(("", f"{len(program.buffers) - _BUFFERS} more", *[""] * 6))
    report.print(Table(_BUFFER_COLUMNS, rows))
    report.print(_sum(program, scan))


def _row(one: Sized, scan: Scan, width: int) -> tuple[str, ...]:
    declaration = one.declaration
    if not one.active:
        size = "not made"
    elif one.borrowed:
        size = "borrowed"
    else:
        size = declaration.strategy + (" if" if declaration.conditions else "")
    return (
        str(declaration.line),
        short(str(index_of(one) if index_of(one) is not None else "?"), 18),
        thousands(one.total_bytes) if one.total_bytes is not None else "?",
        thousands(one.pages) if one.pages is not None else "?",
        short(format_text(declaration, scan.bindings) or "?", 14),
        size,
        short(written(declaration, declaration.core_ranges) or "?", 14),
        short(written(declaration, declaration.total), max(20, width - 72)),
    )


def _sum(program: ProgramTotals, scan: Scan) -> str:
    at_least = "at least " if program.unknown else ""
    parts = [f"  {at_least}{thousands(program.bytes_per_core)} B per core"]
    if program.unknown:
        parts.append(f"{counted(program.unknown, 'size')} unknown")
    if len(program.ranges) > 1:
        per_range = "; ".join(f"{one.core_ranges or '?'}: {thousands(one.bytes_per_core)} B" for one in program.ranges)
        parts.append(per_range)
    if program.end_address is not None and scan.memory_map is not None and program.free_bytes_per_core is not None:
        ends = f"ends at {thousands(program.end_address)} on {scan.memory_map.board_name}"
        if program.free_bytes_per_core >= 0:
            parts.append(f"{ends}, {thousands(program.free_bytes_per_core)} B of L1 left")
        else:
            parts.append(f"{ends}, {thousands(-program.free_bytes_per_core)} B beyond L1")
        if not program.ranges_are_known:
            parts.append("as if its core ranges shared a core")
    return ", ".join(parts)


def _kernels(report: TextReport, kernels: tuple[KernelFigures, ...], base: Path, *, everything: bool) -> None:
    if not kernels:
        return
    report.print()
    ranked = sorted(kernels, key=lambda one: -one.code_lines)
    longest = max(24, report.width - 62)
    rows = [
        [short(_shown(one.file, base), longest), *(str(getattr(one, figure)) for figure in _KERNEL_FIGURES)]
        for one in (ranked if everything else ranked[:_KERNELS])
    ]
    if not everything and len(ranked) > _KERNELS:
        rows.append([f"{len(ranked) - _KERNELS} more (--all)", *[""] * len(_KERNEL_FIGURES)])
    report.print(Table.of_texts(("kernel", *_KERNEL_FIGURES.values()), rows, left=1))


def _findings(report: TextReport, findings: tuple[Finding, ...], base: Path, *, everything: bool) -> None:
    report.print()
    if not findings:
        report.print("No rule is broken, as far as the code tells.")
        return
    ranked = sorted(findings, key=lambda one: one.severity != "error")
    explained: set[str] = set()
    for one in ranked if everything else ranked[:_FINDINGS]:
        place = f"{_shown(one.file, base)}:{one.line}"
        report.print(f"{place}: {one.severity} {one.rule}: {one_line(one.message)}", style=_STYLES[one.severity])
        if one.rule not in explained:
            explained.add(one.rule)
            report.print(f"    why: {one.why}")
            report.print(f"    fix: {one.fix}")
    if not everything and len(ranked) > _FINDINGS:
        report.print(f"{counted(len(ranked) - _FINDINGS, 'more finding')} (--all shows them)")


def _left_out(report: TextReport, scan: Scan, base: Path) -> None:
    for one in scan.skipped:
        report.print(f"skipped {_shown(one.file, base)}: {one.reason}")
    if scan.broken:
        parts = counted(len(scan.broken), "file")
        report.print(f"{parts} understood in part; rules that need the whole stay silent there")
