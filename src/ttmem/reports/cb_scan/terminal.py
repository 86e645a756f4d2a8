# SPDX-License-Identifier: Apache-2.0
"""A scan of C++ code for a person: programs and their buffers, kernels, and what breaks a rule."""

from __future__ import annotations

import io
from os.path import commonpath
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ttmem.circular_buffers.scan import Finding, KernelFigures, ProgramTotals, Scan, Sized
from ttmem.reports.cb_scan.document import format_text, index_of, written
from ttmem.reports.kit.units import counted, one_line, short, thousands

_PROGRAMS = 12
_BUFFERS = 40
_KERNELS = 15
_FINDINGS = 40
_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def render(scan: Scan, *, width: int = 100, color: bool = False, everything: bool = False) -> str:
    """Text for a terminal of this width; long lists are cut unless everything is wanted."""
    file = io.StringIO()
    console = Console(
        file=file,
        width=max(width, 60),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
    )
    base = _base(scan)
    _head(console, scan)
    programs = sorted(scan.programs, key=lambda one: (-one.bytes_per_core, one.file, one.line))
    for program in programs if everything else programs[:_PROGRAMS]:
        _program(console, program, scan, base)
    if not everything and len(programs) > _PROGRAMS:
        more = counted(len(programs) - _PROGRAMS, "more program")
        console.print(f"\n{more} with fewer known bytes (--all shows them)")
    _kernels(console, scan.kernels, base, everything=everything)
    _findings(console, scan.findings, base, everything=everything)
    _left_out(console, scan, base)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _base(scan: Scan) -> Path:
    path = Path(scan.path)
    return path if path.is_dir() else path.parent


def _shown(file: str, base: Path) -> str:
    try:
        if commonpath([file, str(base)]) == str(base):
            return str(Path(file).relative_to(base))
    except ValueError:
        return file
    return file


def _head(console: Console, scan: Scan) -> None:
    strategies = {"fixed": 0, "adaptive": 0, "unknown": 0}
    for declaration in scan.declarations:
        strategies[declaration.strategy] += 1
    console.print(
        f"{counted(scan.files, 'file')}, {counted(len(scan.declarations), 'buffer')} in "
        f"{counted(len(scan.programs), 'program')}, {counted(len(scan.kernels), 'kernel')}",
        style="bold",
    )
    if scan.declarations:
        console.print(", ".join(f"{count} {name}" for name, count in strategies.items() if count) + " in size")
    if scan.bindings:
        console.print("with " + ", ".join(f"{name} = {value}" for name, value in scan.bindings.items()))


def _program(console: Console, program: ProgramTotals, scan: Scan, base: Path) -> None:
    console.print()
    console.print(f"{one_line(program.name)}  {_shown(program.file, base)}:{program.line}", style="bold")
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column, right in (
        ("line", True),
        ("buffer", False),
        ("bytes", True),
        ("pages", True),
        ("format", False),
        ("size", False),
        ("cores", False),
        ("as written", False),
    ):
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for one in program.buffers[:_BUFFERS]:
        table.add_row(*_row(one, scan, console.width))
    if len(program.buffers) > _BUFFERS:
        table.add_row("", f"{len(program.buffers) - _BUFFERS} more", "", "", "", "", "", "")
    console.print(table)
    console.print(_sum(program, scan))


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


def _kernels(console: Console, kernels: tuple[KernelFigures, ...], base: Path, *, everything: bool) -> None:
    if not kernels:
        return
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("kernel", overflow="fold")
    for column in ("lines", "buffers", "calls", "loops", "deep", "ifs", "NoC", "barriers"):
        table.add_column(column, justify="right", no_wrap=True)
    ranked = sorted(kernels, key=lambda one: -one.code_lines)
    for one in ranked if everything else ranked[:_KERNELS]:
        table.add_row(
            short(_shown(one.file, base), max(24, console.width - 62)),
            *(
                str(figure)
                for figure in (
                    one.code_lines,
                    one.buffers,
                    one.buffer_operations,
                    one.loops,
                    one.deepest_loop,
                    one.branches,
                    one.noc_calls,
                    one.barriers,
                )
            ),
        )
    if not everything and len(ranked) > _KERNELS:
        table.add_row(f"{len(ranked) - _KERNELS} more (--all)", *[""] * 8)
    console.print(table)


def _findings(console: Console, findings: tuple[Finding, ...], base: Path, *, everything: bool) -> None:
    console.print()
    if not findings:
        console.print("No rule is broken, as far as the code tells.")
        return
    ranked = sorted(findings, key=lambda one: one.severity != "error")
    explained: set[str] = set()
    for one in ranked if everything else ranked[:_FINDINGS]:
        place = f"{_shown(one.file, base)}:{one.line}"
        console.print(f"{place}: {one.severity} {one.rule}: {one_line(one.message)}", style=_STYLES[one.severity])
        if one.rule not in explained:
            explained.add(one.rule)
            console.print(f"    why: {one.why}")
            console.print(f"    fix: {one.fix}")
    if not everything and len(ranked) > _FINDINGS:
        console.print(f"{counted(len(ranked) - _FINDINGS, 'more finding')} (--all shows them)")


def _left_out(console: Console, scan: Scan, base: Path) -> None:
    for one in scan.skipped:
        console.print(f"skipped {_shown(one.file, base)}: {one.reason}")
    if scan.broken:
        parts = counted(len(scan.broken), "file")
        console.print(f"{parts} understood in part; rules that need the whole stay silent there")
