# SPDX-License-Identifier: Apache-2.0
"""A scan of C++ code as one JSON document: the keys of the contract, and beside them what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ttmem.circular_buffers.scan import Declaration, Finding, KernelFigures, ProgramTotals, Scan, Sized
from ttmem.circular_buffers.scan.cpp.arithmetic import format_of
from ttmem.circular_buffers.scan.cpp.expressions import Bindings, Evaluation, Expression, leaves, render


def document(scan: Scan) -> dict[str, Any]:
    """`files`, `declarations` and `findings`; programs, kernels and counts are additions."""
    sized = {id(one.declaration): one for program in scan.programs for one in program.buffers}
    return {
        "files": scan.files,
        "declarations": [_declaration(one, sized[id(one)], scan.bindings) for one in scan.declarations],
        "findings": [_finding(one) for one in scan.findings],
        "programs": [_program(one) for one in scan.programs],
        "kernels": [_kernel(one) for one in scan.kernels],
        "summary": _summary(scan),
        "board": scan.memory_map.board_name if scan.memory_map is not None else None,
        "bindings": dict(scan.bindings),
        "skipped": [{"file": one.file, "reason": one.reason} for one in scan.skipped],
        "partly_understood": list(scan.broken),
    }


def _declaration(declaration: Declaration, sized: Sized, bindings: Bindings) -> dict[str, Any]:
    total = declaration.total
    return {
        "file": declaration.file,
        "line": declaration.line,
        "api": declaration.api,
        "index": index_of(sized),
        "total": written(declaration, total),
        "page": written(declaration, declaration.page),
        "bytes": sized.total_bytes,
        "format": format_text(declaration, bindings),
        "strategy": declaration.strategy,
        "borrowed": sized.borrowed,
        "indices": [_number_or_text(index, bindings) for index in declaration.indices],
        "class": declaration.size_class,
        "total_expanded": render(total, expand=True),
        "unknowns": list(leaves(total)) if total is not None and sized.total_bytes is None else [],
        "page_bytes": sized.page_bytes,
        "pages": sized.pages,
        "core_ranges": written(declaration, declaration.core_ranges) or None,
        "program": declaration.program,
        "conditions": [str(condition) for condition in declaration.conditions],
        "active": sized.active,
        "borrowed_if": str(declaration.borrowed_if) if declaration.borrowed_if is not None else None,
        "repeats": render(declaration.repeats) if declaration.repeats is not None else None,
        "through": [{"function": function, "line": line} for function, line in declaration.trail],
        "declared_at": {"file": declaration.site[0], "line": declaration.site[1]},
    }


def written(declaration: Declaration, expression: Expression | None) -> str:
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


def format_text(declaration: Declaration, bindings: Bindings) -> str | None:
    """The format's name where it is known, else the expression behind it."""
    if declaration.format is None:
        return None
    value = Evaluation(bindings).value(declaration.format)
    if isinstance(value, str) and format_of(value) is not None:
        return value
    return render(declaration.format, expand=True) or None


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "file": finding.file,
        "line": finding.line,
        "message": finding.message,
        "severity": finding.severity,
        "why": finding.why,
        "fix": finding.fix,
    }


def _program(program: ProgramTotals) -> dict[str, Any]:
    return {
        "file": program.file,
        "line": program.line,
        "name": program.name,
        "bytes_per_core": program.bytes_per_core,
        "is_lower_bound": program.unknown > 0,
        "buffers": len(program.buffers),
        "borrowed": sum(1 for one in program.buffers if one.borrowed),
        "unknown": program.unknown,
        "core_ranges": [
            {
                "core_ranges": one.core_ranges or None,
                "bytes_per_core": one.bytes_per_core,
                "buffers": one.buffers,
                "unknown": one.unknown,
            }
            for one in program.ranges
        ],
        "placement": [
            {"index": index_of(one), "line": one.declaration.line, "address": address, "bytes": one.total_bytes}
            for one, address in zip(program.counted, program.addresses, strict=False)
        ],
        "end_address": program.end_address,
        "free_bytes_per_core": program.free_bytes_per_core,
        "assumed_one_core": not program.ranges_are_known,
    }


def _kernel(figures: KernelFigures) -> dict[str, Any]:
    return {
        "file": figures.file,
        "entry": figures.entry,
        "source_bytes": figures.source_bytes,
        "lines": figures.lines,
        "code_lines": figures.code_lines,
        "buffers": figures.buffers,
        "buffer_operations": figures.buffer_operations,
        "loops": figures.loops,
        "deepest_loop": figures.deepest_loop,
        "branches": figures.branches,
        "noc_calls": figures.noc_calls,
        "barriers": figures.barriers,
        "partly_understood": figures.broken,
    }


def _summary(scan: Scan) -> Mapping[str, Any]:
    strategies: dict[str, int] = {}
    for declaration in scan.declarations:
        strategies[declaration.strategy] = strategies.get(declaration.strategy, 0) + 1
    return {
        "sites": len(scan.sites),
        "sites_by_api": dict(scan.apis()),
        "sites_by_class": dict(scan.classes()),
        "declarations_by_strategy": strategies,
        "programs": len(scan.programs),
        "kernels": len(scan.kernels),
        "errors": scan.count("error"),
        "warnings": scan.count("warning"),
    }
