# SPDX-License-Identifier: Apache-2.0
"""A program's buffers put together: bytes per core range, addresses, and whether they fit a board's L1.

Sizes that stay unknown are counted, not guessed: every sum says how many buffers it leaves out. Where two conditions
exclude each other their buffers are never added up; the sum is the largest that the conditions allow.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ttmem.circular_buffers.scan.cpp import expressions as cpp
from ttmem.circular_buffers.scan.model import DATAFLOW_SPEC, Declaration
from ttmem.hardware import MemoryMap
from ttmem.twin.programs import CIRCULAR, DATAFLOW, DeviceProgram, ProgramLayout, StaticBuffer, lay_out
from ttmem.twin.tensor_spec import CoreRange, InvalidSpecError

_MOST_TRIES = 4000
_MOST_COPIES = 256
EVERYWHERE = CoreRange(0, 0, 0, 0)
"""Placeholder for unknown core ranges: one core that all of them share is the worst case."""


@dataclass(frozen=True, slots=True, eq=False)
class Sized:
    """A declaration under bindings."""

    declaration: Declaration
    total_bytes: int | None
    page_bytes: int | None
    pages: int | None
    index: int | None
    borrowed: bool
    active: bool
    """False: its conditions are known not to hold."""
    copies: int | None
    """How often a loop makes it; None: not known."""
    open_conditions: tuple[cpp.Condition, ...]
    """Those whose truth is not known."""


@dataclass(frozen=True, slots=True)
class RangeTotal:
    """Buffers of one core range."""

    core_ranges: str | None
    bytes_per_core: int
    """The largest sum that the conditions allow, borrowed buffers left out."""
    buffers: int
    unknown: int


@dataclass(frozen=True, slots=True)
class ProgramTotals:
    """Check of a program against a board."""

    file: str
    name: str
    line: int
    buffers: tuple[Sized, ...]
    ranges: tuple[RangeTotal, ...]
    bytes_per_core: int
    """Of all ranges together, as if they shared a core."""
    unknown: int
    """Buffers whose size is not known; with any, the other figures are lower bounds."""
    addresses: tuple[int | None, ...]
    """Where each counted buffer starts, in the order of `counted`; empty without a board."""
    counted: tuple[Sized, ...]
    end_address: int | None
    free_bytes_per_core: int | None
    """What is left between the buffers and the top of L1; negative: they do not fit."""
    ranges_are_known: bool
    """False: ranges with unknown cores were placed as if they shared a core."""
    problem: str
    """Why the program could not be placed."""


def evaluate_size(declaration: Declaration, evaluation: cpp.Evaluation) -> Sized:
    """The known size of a declaration."""
    total, page = evaluation.integer(declaration.total), evaluation.integer(declaration.page)
    maybe = declaration.borrowed_if
    truths = [(condition, _truth(condition, evaluation)) for condition in declaration.conditions]
    return Sized(
        declaration,
        total_bytes=total,
        page_bytes=page,
        pages=total // page if total is not None and page and total % page == 0 else None,
        index=evaluation.integer(declaration.index),
        borrowed=declaration.borrowed if maybe is None else _truth(maybe, evaluation) is True,
        active=all(truth is not False for _, truth in truths),
        copies=1 if declaration.repeats is None else evaluation.integer(declaration.repeats),
        open_conditions=tuple(condition for condition, truth in truths if truth is None),
    )


def _truth(condition: cpp.Condition, evaluation: cpp.Evaluation) -> bool | None:
    """True if the condition is met; None if unknown."""
    known = evaluation.integer(condition.expression)
    return None if known is None else bool(known) is condition.holds


def programs_of(
    declarations: Sequence[Declaration], bindings: cpp.Bindings, memory_map: MemoryMap | None
) -> list[ProgramTotals]:
    """Return the programs of a scan, in source order."""
    evaluation = cpp.Evaluation(bindings)
    grouped: dict[tuple[str, str], list[Sized]] = {}
    for declaration in declarations:
        key = (declaration.file, declaration.program)
        grouped.setdefault(key, []).append(evaluate_size(declaration, evaluation))
    return [_totals(file, name, found, memory_map) for (file, name), found in grouped.items()]


def _totals(file: str, name: str, found: list[Sized], memory_map: MemoryMap | None) -> ProgramTotals:
    counted = [one for one in found if one.active and not one.borrowed]
    unknown = [one for one in counted if one.total_bytes is None or one.copies is None]
    known = [one for one in counted if one.total_bytes is not None and one.copies is not None]
    by_range: dict[str, list[Sized]] = {}
    for one in counted:
        by_range.setdefault(cores_of(one.declaration), []).append(one)
    ranges = tuple(
        RangeTotal(
            cores or None,
            sum(map(_bytes, worst_case([one for one in members if one in known]))),
            len(members),
            sum(1 for one in members if one in unknown),
        )
        for cores, members in by_range.items()
    )
    placed = [one for one in worst_case(known) for _ in range(min(one.copies or 0, _MOST_COPIES))]
    layout, ranges_are_known, problem = _place(placed, memory_map)
    end = layout.end_address if layout else None
    free = None
    if memory_map is not None and end is not None:
        free = memory_map.architecture.l1_bytes_per_core - max(end, memory_map.l1_base_address)
    return ProgramTotals(
        file=file,
        name=name,
        line=min(one.declaration.line for one in found),
        buffers=tuple(found),
        ranges=ranges,
        bytes_per_core=sum(one.total_bytes or 0 for one in placed),
        unknown=len(unknown),
        addresses=layout.addresses if layout else (),
        counted=tuple(placed),
        end_address=end,
        free_bytes_per_core=free,
        ranges_are_known=ranges_are_known,
        problem=problem,
    )


def cores_of(declaration: Declaration) -> str:
    """A core range as the program calls it, also where a helper calls it otherwise."""
    return cpp.render(declaration.core_ranges, expand=bool(declaration.trail))


def _bytes(one: Sized) -> int:
    return (one.total_bytes or 0) * (one.copies or 0)


def worst_case(buffers: Sequence[Sized]) -> list[Sized]:
    """The largest set that can exist at once: for each open condition either side, but not both.

    With more conditions than can be tried all buffers are taken, which is more than can exist at once.
    """
    tries = [_MOST_TRIES]
    chosen = _largest([(one, one.open_conditions) for one in buffers], tries)
    if tries[0] <= 0:
        return list(buffers)
    kept = {id(one) for one in chosen}
    return [one for one in buffers if id(one) in kept]


_Open = list[tuple[Sized, tuple[cpp.Condition, ...]]]


def _largest(buffers: _Open, tries: list[int]) -> list[Sized]:
    tries[0] -= 1
    chosen = [one for one, conditions in buffers if not conditions]
    if tries[0] <= 0:
        return chosen
    for group in _connect([(one, conditions) for one, conditions in buffers if conditions]):
        counts = Counter(text for _, conditions in group for text in {condition.text for condition in conditions})
        split = counts.most_common(1)[0][0]
        sides = []
        for holds in (True, False):
            left = [
                (one, tuple(condition for condition in conditions if condition.text != split))
                for one, conditions in group
                if all(condition.holds is holds for condition in conditions if condition.text == split)
            ]
            sides.append(_largest(left, tries))
        chosen += max(sides, key=lambda side: sum(map(_bytes, side)))
    return chosen


def _connect(buffers: _Open) -> list[_Open]:
    """Groups that share no condition can be decided one by one."""
    groups: list[tuple[set[str], _Open]] = []
    for entry in buffers:
        texts = {condition.text for condition in entry[1]}
        joined: _Open = [entry]
        rest = []
        for known, members in groups:
            if known & texts:
                texts |= known
                joined = [*members, *joined]
            else:
                rest.append((known, members))
        groups = [*rest, (texts, joined)]
    return [members for _, members in groups]


def _place(buffers: Sequence[Sized], memory_map: MemoryMap | None) -> tuple[ProgramLayout | None, bool, str]:
    """Addresses by the library's own rule (`allocator.lay_out`)."""
    if memory_map is None or not buffers:
        return None, True, ""
    texts = {cpp.render(one.declaration.core_ranges, expand=True) for one in buffers}
    literal = [core_ranges(one.declaration.core_ranges) for one in buffers]
    exact = all(literal)
    static = tuple(
        StaticBuffer(one.total_bytes or 0, ranges if exact else (EVERYWHERE,), one.page_bytes or None)
        for one, ranges in zip(buffers, literal, strict=True)
    )
    family = DATAFLOW if buffers[0].declaration.api == DATAFLOW_SPEC else CIRCULAR
    try:
        return lay_out(DeviceProgram(static, family), memory_map), exact or len(texts) == 1, ""
    except InvalidSpecError as error:
        return None, exact, str(error)


def core_ranges(expression: cpp.Expression | None) -> tuple[CoreRange, ...]:
    """Literal cores: `CoreCoord{0, 0}`, `{0, 0}`, `CoreRange({0, 0}, {7, 7})`; empty when they are not literal."""
    numbers = _numbers(expression)
    if len(numbers) == 2:
        return (CoreRange(numbers[0], numbers[1], numbers[0], numbers[1]),)
    if len(numbers) == 4 and numbers[0] <= numbers[2] and numbers[1] <= numbers[3]:
        return (CoreRange(*numbers),)
    return ()


def _numbers(expression: cpp.Expression | None) -> list[int]:
    value = cpp.plain(expression) if expression is not None else None
    if isinstance(value, cpp.Integer):
        return [value.value]
    if isinstance(value, cpp.Items):
        found = [_numbers(item) for item in value.items]
        return [number for numbers in found for number in numbers] if all(found) else []
    return []
