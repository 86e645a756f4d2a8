# SPDX-License-Identifier: Apache-2.0
"""Rules that a kernel breaks on its own, whatever its host says: R3, R4 (within itself), R7, R11, R12."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ttmem.circular_buffers.scan.cpp.expressions import LOOP, Bindings, Expression, Symbol, every_node, render
from ttmem.circular_buffers.scan.cpp.polynomials import Amounts, Polynomial, as_constant, plus, times
from ttmem.circular_buffers.scan.kernel.trace import (
    BARRIER,
    OPERATIONS,
    PASSED,
    POP,
    PUSH,
    READ,
    RESERVE,
    WAIT,
    WRITE,
    Loop,
    Operation,
    Trace,
    of_buffer,
    operations,
)
from ttmem.circular_buffers.scan.model import ERROR, WARNING, Finding, Kernel
from ttmem.circular_buffers.scan.rules.registry import finding

MOST_PAGES = 65535
_HALVES = (
    (RESERVE, PUSH, "reserves space in buffer {buffer} but never pushes it"),
    (PUSH, RESERVE, "pushes to buffer {buffer} without ever reserving space"),
    (WAIT, POP, "waits on buffer {buffer} but never pops it"),
    (POP, WAIT, "pops buffer {buffer} without ever waiting for its pages"),
)


def check_kernel(kernel: Kernel, bindings: Bindings) -> list[Finding]:
    """Findings of one kernel; a kernel that was not understood as a whole is checked for what needs no whole."""
    file = kernel.figures.file
    amounts = Amounts(bindings)
    found = list(_too_many_pages(kernel, amounts))
    found += [finding("R12", WARNING, file, line, text) for line, text in Transfers().run(kernel.trace)]
    if kernel.figures.broken:
        return found
    passed = {step.buffer for step in operations(kernel.trace) if step.kind == PASSED}
    for buffer in buffers_of(kernel.trace):
        own = of_buffer(kernel.trace, buffer)
        found += _not_cumulative(file, buffer, own, amounts)
        if buffer not in passed:
            found += _halves(file, buffer, own)
            found += _unequal(file, buffer, own, amounts)
    return found


def buffers_of(trace: Trace) -> list[str]:
    """Every buffer that a kernel operates on, in order of first use."""
    return list(dict.fromkeys(step.buffer for step in operations(trace) if step.kind in OPERATIONS))


def total_of(trace: Trace, kind: str, amounts: Amounts) -> Polynomial | None:
    """Pages moved by all operations of a kind; None where a branch or a loop makes it unknowable."""
    total: Polynomial = {}
    for step in trace:
        part: Polynomial | None
        if isinstance(step, Operation):
            if step.kind != kind:
                continue
            part = None if _depends_on_a_loop(step.count) else amounts.of(step.count)
        elif isinstance(step, Loop):
            body, trips = total_of(step.body, kind, amounts), amounts.of(step.trips)
            if body == {}:
                continue
            part = times(body, trips) if body is not None and trips is not None else None
        else:
            yes, no = total_of(step.yes, kind, amounts), total_of(step.no, kind, amounts)
            part = yes if yes is not None and yes == no else None
        if part is None:
            return None
        total = plus(total, part)
    return total


def _depends_on_a_loop(expression: Expression | None) -> bool:
    if expression is None:
        return True
    return any(isinstance(node, Symbol) and node.kind == LOOP for node in every_node(expression))


def _too_many_pages(kernel: Kernel, amounts: Amounts) -> Iterator[Finding]:
    for step in operations(kernel.trace):
        if step.kind in OPERATIONS and step.count is not None:
            count = amounts.integer(step.count)
            if count is not None and count > MOST_PAGES:
                text = f"{step.kind} of {count} pages: counters hold {MOST_PAGES}"
                yield finding("R11", ERROR, kernel.figures.file, step.line, text)


def _halves(file: str, buffer: str, own: Trace) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for step in operations(own):
        first.setdefault(step.kind, step.line)
    for present, missing, text in _HALVES:
        if present in first and missing not in first:
            yield finding("R7", WARNING, file, first[present], f"the kernel {text.format(buffer=shown(buffer))}")


def shown(buffer: str) -> str:
    """A buffer as messages name it."""
    return buffer if buffer.isdigit() or "::" in buffer else f"'{buffer}'"


def _unequal(file: str, buffer: str, own: Trace, amounts: Amounts) -> Iterator[Finding]:
    """A kernel that is both sides of a buffer."""
    kinds = {step.kind for step in operations(own)}
    if not {PUSH, POP} <= kinds:
        return
    pushed, popped = total_of(own, PUSH, amounts), total_of(own, POP, amounts)
    if pushed is None or popped is None:
        return
    difference = as_constant(plus(pushed, popped, -1))
    if difference:
        line = next(step.line for step in operations(own) if step.kind == (PUSH if difference > 0 else POP))
        more, less = ("pushes", "pops") if difference > 0 else ("pops", "pushes")
        text = f"the kernel {more} {abs(difference)} pages of buffer {shown(buffer)} more than it {less}"
        yield finding("R4", ERROR, file, line, text)


def _not_cumulative(file: str, buffer: str, own: Trace, amounts: Amounts) -> Iterator[Finding]:
    for pop, wait, trips in _pops(own):
        if wait is None or _depends_on_a_loop(wait.count) or _depends_on_a_loop(pop.count):
            continue
        waited, popped = amounts.of(wait.count), amounts.of(pop.count)
        if waited is None or popped is None:
            continue
        more = as_constant(plus(popped, waited, -1))
        looped: Polynomial | None = waited
        for loop in trips:
            by = amounts.of(loop)
            looped = times(looped, by) if looped is not None and by is not None else None
        repeated = bool(trips) and looped == popped and looped != waited
        if (more is not None and more > 0) or repeated:
            text = (
                f"pops {render(pop.count)} pages of buffer {shown(buffer)} but waited only for {render(wait.count)}"
                f" (line {wait.line})"
            )
            yield finding("R3", ERROR, file, pop.line, text)


_Pop = tuple[Operation, "Operation | None", tuple[Expression, ...]]


def _pops(trace: Trace) -> Iterator[_Pop]:
    """Every pop on a straight path, with the last wait before it and the loops that the wait alone stands in."""
    last: tuple[Operation, tuple[Expression, ...]] | None = None
    for step in trace:
        if isinstance(step, Operation):
            if step.kind == WAIT:
                last = (step, ())
            elif step.kind == POP:
                yield step, *(last or (None, ()))
                last = None
        elif isinstance(step, Loop):
            yield from _pops(step.body)
            kinds = {inner.kind for inner in operations(step.body)}
            waits = [inner for inner in step.body if isinstance(inner, Operation) and inner.kind == WAIT]
            if POP in kinds:
                last = None
            elif waits and not any(not isinstance(inner, Operation) for inner in step.body):
                last = (waits[-1], (step.trips,))
            elif WAIT in kinds:
                last = None
        else:
            yield from _pops(step.yes)
            yield from _pops(step.no)
            last = None


@dataclass(slots=True)
class Transfers:
    """R12: which transfers are still under way where a page is handed over."""

    reading: dict[str, int] = field(default_factory=dict)
    writing: dict[str, int] = field(default_factory=dict)

    def run(self, trace: Trace) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        for step in trace:
            if isinstance(step, Operation):
                found += self._step(step)
            elif isinstance(step, Loop):
                found += self.run(step.body)
            else:
                before = (dict(self.reading), dict(self.writing))
                found += self.run(step.yes)
                after = (self.reading, self.writing)
                self.reading, self.writing = before
                found += self.run(step.no)
                # A barrier on one side counts: rather miss a mistake than claim one.
                self.reading = {b: line for b, line in self.reading.items() if b in after[0]}
                self.writing = {b: line for b, line in self.writing.items() if b in after[1]}
        return found

    def _step(self, step: Operation) -> list[tuple[int, str]]:
        if step.kind == BARRIER:
            self.reading.clear()
            self.writing.clear()
        elif step.kind == READ:
            self.reading.setdefault(step.buffer, step.line)
        elif step.kind == WRITE:
            self.writing.setdefault(step.buffer, step.line)
        elif step.kind == PASSED:
            self.reading.pop(step.buffer, None)
            self.writing.pop(step.buffer, None)
        elif step.kind == PUSH and (line := self.reading.pop(step.buffer, None)) is not None:
            return [
                (step.line, f"pushes buffer {shown(step.buffer)} before the read of line {line} is known to be done")
            ]
        elif step.kind == POP and (line := self.writing.pop(step.buffer, None)) is not None:
            return [(step.line, f"pops buffer {shown(step.buffer)} before the write of line {line} has left")]
        return []
