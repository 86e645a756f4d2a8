# SPDX-License-Identifier: Apache-2.0
"""Rules that host code breaks on its own: R10 (configuration), R11 (page counts), R13 (fits the board)."""

from __future__ import annotations

from collections.abc import Iterator

from ttmem.allocator import CIRCULAR, DATAFLOW, BufferClashError, BufferOverflowError, Region, check_regions
from ttmem.circular_buffers.scan.cpp.arithmetic import format_of, tile_bytes
from ttmem.circular_buffers.scan.cpp.expressions import (
    Call,
    Enumerator,
    Evaluation,
    Expression,
    Named,
    evaluate,
    plain,
    render,
)
from ttmem.circular_buffers.scan.host.programs import ProgramTotals, Sized
from ttmem.circular_buffers.scan.model import DATAFLOW_SPEC, ERROR, WARNING, Declaration, Finding
from ttmem.circular_buffers.scan.rules.registry import finding
from ttmem.hardware import MemoryMap

MOST_PAGES = 65535


def check_program(program: ProgramTotals, memory_map: MemoryMap | None, l1_tensor_bytes: int) -> list[Finding]:
    """Findings of one program."""
    found = []
    for one in program.buffers:
        if one.active:
            found += list(_configuration(one, memory_map))
    found += list(_twice(program))
    if memory_map is not None:
        found += list(_fits(program, memory_map, l1_tensor_bytes))
    return found


def label(declaration: Declaration) -> str:
    """A buffer as messages name it."""
    if declaration.name:
        return f"'{declaration.name}'"
    value = evaluate(declaration.index)
    return str(value) if value is not None else f"'{render(declaration.index)}'"


def _configuration(one: Sized, memory_map: MemoryMap | None) -> Iterator[Finding]:
    declaration = one.declaration
    file, line, name = declaration.file, declaration.line, label(declaration)
    if one.total_bytes is not None and one.page_bytes is not None:
        if one.page_bytes <= 0:
            yield finding("R10", ERROR, file, line, f"buffer {name} has pages of {one.page_bytes} B")
        elif one.total_bytes % one.page_bytes:
            text = f"buffer {name}: {one.total_bytes} B is not a multiple of the page of {one.page_bytes} B"
            yield finding("R10", ERROR, file, line, text)
        elif one.total_bytes // one.page_bytes > MOST_PAGES:
            text = f"buffer {name} has {one.total_bytes // one.page_bytes} pages; counters hold {MOST_PAGES}"
            yield finding("R11", ERROR, file, line, text)
    limit = memory_map.architecture.max_circular_buffers_per_core if memory_map is not None else None
    if one.index is not None and limit is not None and one.index >= limit and declaration.api != DATAFLOW_SPEC:
        text = f"buffer index {one.index}: {memory_map.architecture if memory_map else ''} has indices 0 to {limit - 1}"
        yield finding("R10", ERROR, file, line, text)
    other = _format_of_page(declaration.page)
    own = plain(declaration.format) if declaration.format is not None else None
    if (
        other is not None
        and isinstance(own, Enumerator)
        and format_of(own.name)
        and tile_bytes(own.name) != tile_bytes(other)
    ):
        text = (
            f"buffer {name} holds {own.name} ({tile_bytes(own.name)} B per tile) in pages of a {other} tile "
            f"({tile_bytes(other)} B)"
        )
        yield finding("R10", WARNING, file, line, text)


def _format_of_page(page: Expression | None) -> str | None:
    """The format whose tile the page is, when the page is written as a tile size."""
    value = plain(page) if page is not None else None
    if isinstance(value, Call) and value.function in ("tile_size", "TileSize") and len(value.arguments) == 1:
        argument = Evaluation().value(value.arguments[0])
        return argument if isinstance(argument, str) and tile_bytes(argument) else None
    return None


def _twice(program: ProgramTotals) -> Iterator[Finding]:
    seen: dict[tuple[int, str], Sized] = {}
    for one in program.buffers:
        if not one.active or one.open_conditions or one.index is None or one.declaration.api == DATAFLOW_SPEC:
            continue
        if one.declaration.repeats is not None or not _is_named(one.declaration.core_ranges):
            continue
        key = (one.index, render(one.declaration.core_ranges, expand=True))
        if key in seen:
            first = seen[key].declaration.line
            text = f"buffer index {one.index} is declared again on the same cores (first in line {first})"
            yield finding("R10", ERROR, one.declaration.file, one.declaration.line, text)
        seen.setdefault(key, one)


def _is_named(expression: Expression | None) -> bool:
    return isinstance(expression, Named) or (expression is not None and bool(render(expression)))


def _fits(program: ProgramTotals, memory_map: MemoryMap, l1_tensor_bytes: int) -> Iterator[Finding]:
    if program.problem:
        yield finding("R10", ERROR, program.file, program.line, f"program {program.name}: {program.problem}")
    if program.end_address is None:
        return
    family = DATAFLOW if program.buffers[0].declaration.api == DATAFLOW_SPEC else CIRCULAR
    top = memory_map.l1.end_address
    lowest = top - l1_tensor_bytes if l1_tensor_bytes else None
    severity = ERROR if program.ranges_are_known else WARNING
    known = "" if program.ranges_are_known else ", if its core ranges share a core"
    at_least = f", {program.unknown} buffers of unknown size not counted" if program.unknown else ""
    try:
        check_regions([Region(None, program.end_address)], family, memory_map, lowest)
    except BufferOverflowError:
        text = (
            f"buffers of program {program.name} grow to {program.end_address} B, beyond the L1 of "
            f"{memory_map.board_name} ({memory_map.architecture.l1_bytes_per_core} B){known}{at_least}"
        )
        yield finding("R13", severity, program.file, program.line, text)
    except BufferClashError:
        text = (
            f"buffers of program {program.name} end at {program.end_address} B, above the lowest L1 tensor at "
            f"{lowest} B ({l1_tensor_bytes} B of tensors per bank){known}{at_least}"
        )
        yield finding("R13", severity, program.file, program.line, text)
