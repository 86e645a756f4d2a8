# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem cb scan --json`` says: the keys of the contract, and beside them what they rest on."""

from collections import Counter

import msgspec

from ttmem.circular_buffers import scan as scanning
from ttmem.circular_buffers.scan import Finding, KernelFigures, ProgramTotals, RangeTotal, Scan, Sized
from ttmem.circular_buffers.scan.cpp.arithmetic import format_of
from ttmem.circular_buffers.scan.cpp.expressions import Bindings, Evaluation, Expression, leaves, render
from ttmem.circular_buffers.scan.model import Skipped
from ttmem.reports.kit.documents import Document


class Place(Document, frozen=True):
    """A line of a file."""

    file: str
    line: int


class Call(Document, frozen=True):
    """A helper function on the way to a declaration."""

    function: str
    line: int


class Declaration(Document, frozen=True):
    """A buffer that the code declares; sizes are null until every name in them is bound."""

    file: str
    line: int
    api: str
    index: int | str | None
    """A number, the name of a dataflow buffer, or the expression as written."""
    total: str
    """As the source has it."""
    page: str
    total_bytes: int | None = msgspec.field(name="bytes")
    format: str | None
    strategy: str
    """``fixed``, ``adaptive`` or ``unknown``."""
    borrowed: bool
    """It lies in a tensor's memory and takes none of its own."""
    indices: tuple[int | str, ...]
    size_class: str = msgspec.field(name="class")
    total_expanded: str
    unknowns: tuple[str, ...]
    """Names that the size waits for."""
    page_bytes: int | None
    pages: int | None
    core_ranges: str | None
    program: str
    conditions: tuple[str, ...]
    active: bool
    """False: its conditions are known not to hold."""
    borrowed_if: str | None
    repeats: str | None
    through: tuple[Call, ...]
    declared_at: Place


class Placed(Document, frozen=True):
    """Where a buffer lies."""

    index: int | str | None
    line: int
    address: int | None
    total_bytes: int | None = msgspec.field(name="bytes")


class Program(Document, frozen=True):
    """One program against one board."""

    file: str
    line: int
    name: str
    bytes_per_core: int
    is_lower_bound: bool
    buffers: int
    borrowed: int
    unknown: int
    ranges: tuple[RangeTotal, ...] = msgspec.field(name="core_ranges")
    placement: tuple[Placed, ...]
    end_address: int | None
    free_bytes_per_core: int | None
    """Negative: the buffers do not fit."""
    assumed_one_core: bool
    """Ranges with unknown cores were placed as if they shared a core."""


class Summary(Document, frozen=True):
    """Counts; a site is a declaration where it is written, however often it is reached."""

    sites: int
    sites_by_api: dict[str, int]
    sites_by_class: dict[str, int]
    declarations_by_strategy: dict[str, int]
    programs: int
    kernels: int
    errors: int
    warnings: int


class CbScan(Document, frozen=True, tag_field="schema", tag="ttmem.cb-scan/1"):
    """Circular and dataflow buffers in C++ code, and the rules that kernels break."""

    files: int
    declarations: tuple[Declaration, ...]
    findings: tuple[Finding, ...]
    programs: tuple[Program, ...]
    kernels: tuple[KernelFigures, ...]
    summary: Summary
    board: str | None
    bindings: dict[str, bool | int | float | str]
    skipped: tuple[Skipped, ...]
    broken: tuple[str, ...] = msgspec.field(name="partly_understood")


def document(scan: Scan) -> CbScan:
    """Everything found under a path."""
    sized = {id(one.declaration): one for program in scan.programs for one in program.buffers}
    return CbScan.of(
        scan,
        declarations=[_declaration(one, sized[id(one)], scan.bindings) for one in scan.declarations],
        programs=[_program(one) for one in scan.programs],
        summary=Summary(
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
    )


def _declaration(declaration: scanning.Declaration, sized: Sized, bindings: Bindings) -> Declaration:
    total = declaration.total
    return Declaration.of(
        sized,
        declaration,
        index=index_of(sized),
        total=written(declaration, total),
        page=written(declaration, declaration.page),
        format=format_text(declaration, bindings),
        indices=[_number_or_text(index, bindings) for index in declaration.indices],
        total_expanded=render(total, expand=True),
        unknowns=leaves(total) if total is not None and sized.total_bytes is None else (),
        core_ranges=written(declaration, declaration.core_ranges) or None,
        conditions=[str(condition) for condition in declaration.conditions],
        borrowed_if=str(declaration.borrowed_if) if declaration.borrowed_if is not None else None,
        repeats=render(declaration.repeats) if declaration.repeats is not None else None,
        through=[Call(function, line) for function, line in declaration.trail],
        declared_at=Place(*declaration.site[:2]),
    )


def written(declaration: scanning.Declaration, expression: Expression | None) -> str:
    """As the source has it; behind a helper's parameters the caller's arguments."""
    return render(expression, expand=bool(declaration.trail))


def index_of(sized: Sized) -> int | str | None:
    """A number, the name of a dataflow buffer, or the expression as written."""
    if sized.index is not None:
        return sized.index
    if sized.declaration.name:
        return sized.declaration.name
    return render(sized.declaration.index) or None


def _number_or_text(expression: Expression, bindings: Bindings) -> int | str:
    number = Evaluation(bindings).integer(expression)
    return number if number is not None else render(expression)


def format_text(declaration: scanning.Declaration, bindings: Bindings) -> str | None:
    """The format's name where it is known, else the expression behind it."""
    if declaration.format is None:
        return None
    value = Evaluation(bindings).value(declaration.format)
    if isinstance(value, str) and format_of(value) is not None:
        return value
    return render(declaration.format, expand=True) or None


def _program(program: ProgramTotals) -> Program:
    return Program.of(
        program,
        is_lower_bound=program.unknown > 0,
        buffers=len(program.buffers),
        borrowed=sum(1 for one in program.buffers if one.borrowed),
        placement=[
            Placed(index_of(one), one.declaration.line, address, one.total_bytes)
            for one, address in zip(program.counted, program.addresses, strict=False)
        ],
        assumed_one_core=not program.ranges_are_known,
    )
