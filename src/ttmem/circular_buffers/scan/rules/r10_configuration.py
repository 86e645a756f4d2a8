# SPDX-License-Identifier: Apache-2.0
"""R10: a configuration that the library refuses, or that does not match its data."""

from ttmem.circular_buffers.scan.cpp.arithmetic import format_of, tile_bytes
from ttmem.circular_buffers.scan.cpp.expressions import Call, Enumerator, Evaluation, Expression, plain, render
from ttmem.circular_buffers.scan.host.programs import ProgramTotals, Sized
from ttmem.circular_buffers.scan.model import DATAFLOW_SPEC, WARNING
from ttmem.circular_buffers.scan.rules._rule import Breach, Breaches, L1Space, Rule
from ttmem.hardware import MemoryMap


def _configuration(program: ProgramTotals, space: L1Space) -> Breaches:
    for one in program.buffers:
        if one.active:
            yield from _declaration(one, space.memory_map)
    yield from _twice(program)
    if program.problem and space.memory_map is not None:
        yield Breach(program.file, program.line, f"program {program.name}: {program.problem}")


def _declaration(one: Sized, memory_map: MemoryMap | None) -> Breaches:
    declaration = one.declaration
    file, line, name = declaration.file, declaration.line, declaration.label
    if one.total_bytes is not None and one.page_bytes is not None:
        if one.page_bytes <= 0:
            yield Breach(file, line, f"buffer {name} has pages of {one.page_bytes} B")
        elif one.total_bytes % one.page_bytes:
            text = f"buffer {name}: {one.total_bytes} B is not a multiple of the page of {one.page_bytes} B"
            yield Breach(file, line, text)
    limit = memory_map.architecture.max_circular_buffers_per_core if memory_map is not None else None
    if one.index is not None and limit is not None and one.index >= limit and declaration.api != DATAFLOW_SPEC:
        text = f"buffer index {one.index}: {memory_map.architecture if memory_map else ''} has indices 0 to {limit - 1}"
        yield Breach(file, line, text)
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
        yield Breach(file, line, text, WARNING)


def _format_of_page(page: Expression | None) -> str | None:
    """The format whose tile the page is, when the page is written as a tile size."""
    value = plain(page) if page is not None else None
    if isinstance(value, Call) and value.function in ("tile_size", "TileSize") and len(value.arguments) == 1:
        argument = Evaluation().value(value.arguments[0])
        return argument if isinstance(argument, str) and tile_bytes(argument) else None
    return None


def _twice(program: ProgramTotals) -> Breaches:
    seen: dict[tuple[int, str], Sized] = {}
    for one in program.buffers:
        declaration = one.declaration
        if not one.active or one.open_conditions or one.index is None or declaration.api == DATAFLOW_SPEC:
            continue
        if declaration.repeats is not None or not render(declaration.core_ranges):
            continue
        first = seen.setdefault((one.index, render(declaration.core_ranges, expand=True)), one)
        if first is not one:
            text = (
                f"buffer index {one.index} is declared again on the same cores (first in line {first.declaration.line})"
            )
            yield Breach(declaration.file, declaration.line, text)


RULE = Rule(
    "R10",
    "The configuration is one the library accepts",
    "the program is refused when it is built, or reads pages of the wrong size",
    "make the total a multiple of the page, the page that of the format, and the index free and within limits",
    detail="total, page, format, index",
    warning_when="for the format",
    program=_configuration,
)
