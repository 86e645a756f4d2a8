# SPDX-License-Identifier: Apache-2.0
"""Rules on declared sizes: R10 and R13."""

from ttmem.circular_buffers.scan.cpp.arithmetic import format_of, tile_bytes
from ttmem.circular_buffers.scan.cpp.expressions import Enumerator, Evaluation, Expression, FunctionCall, plain, render
from ttmem.circular_buffers.scan.host.programs import ProgramTotals, Sized
from ttmem.circular_buffers.scan.model import DATAFLOW_SPEC, ERROR, WARNING
from ttmem.circular_buffers.scan.rules.scan_rule import Breach, Breaches, L1Space, ScanRule
from ttmem.hardware import MemoryMap
from ttmem.twin.errors import BufferClashError, BufferOverflowError
from ttmem.twin.programs import CIRCULAR, DATAFLOW, Region, check_regions


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
    if isinstance(value, FunctionCall) and value.function in ("tile_size", "TileSize") and len(value.arguments) == 1:
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


CONFIGURATION = ScanRule(
    "R10",
    "The configuration is one the library accepts",
    "the program is refused when it is built, or reads pages of the wrong size",
    "make the total a multiple of the page, the page that of the format, and the index free and within limits",
    detail="total, page, format, index",
    warning_when="for the format",
    program=_configuration,
)


def _fits(program: ProgramTotals, space: L1Space) -> Breaches:
    memory_map, end = space.memory_map, program.end_address
    if memory_map is None or end is None:
        return
    family = DATAFLOW if program.buffers[0].declaration.api == DATAFLOW_SPEC else CIRCULAR
    lowest = memory_map.l1.end_address - space.tensor_bytes if space.tensor_bytes else None
    try:
        check_regions([Region(None, end)], family, memory_map, lowest)
        return
    except BufferOverflowError:
        text = (
            f"grow to {end} B, beyond the L1 of {memory_map.board_name} ({memory_map.architecture.l1_bytes_per_core} B)"
        )
    except BufferClashError:
        text = f"end at {end} B, above the lowest L1 tensor at {lowest} B ({space.tensor_bytes} B of tensors per bank)"
    text += "" if program.ranges_are_known else ", if its core ranges share a core"
    text += f", {program.unknown} buffers of unknown size not counted" if program.unknown else ""
    severity = ERROR if program.ranges_are_known else WARNING
    yield Breach(program.file, program.line, f"buffers of program {program.name} {text}", severity)


FITS_L1 = ScanRule(
    "R13",
    "The buffers end below the top of L1 and below the lowest tensor",
    "the launch fails: buffers grow beyond L1, or clash with L1 tensors",
    "make buffers shallower, move tensors to DRAM, or spread the work over more cores",
    warning_when="if it rests on shared cores",
    program=_fits,
)
