# SPDX-License-Identifier: Apache-2.0
"""Operations of a kernel on its buffers, in order, inside loops and branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ttmem.circular_buffers.scan.cpp.expressions import LOOP, Expression, Symbol, every_node
from ttmem.circular_buffers.scan.cpp.polynomials import Amounts, Polynomial, plus, times

RESERVE, PUSH, WAIT, POP = "reserve_back", "push_back", "wait_front", "pop_front"


OPERATIONS = frozenset({RESERVE, PUSH, WAIT, POP})


READ, WRITE, BARRIER, PASSED = "read", "write", "barrier", "passed"
"""Transfers into or out of a buffer, what waits for them, and a buffer handed to a function that was not followed."""


@dataclass(frozen=True, slots=True, eq=False)
class KernelOperation:
    """An operation; `buffer` is its identity (`0`, `dfb::in`, `get_compile_time_arg_val(2)`), empty for barriers."""

    kind: str
    buffer: str
    identity: Expression | None
    count: Expression | None
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """A body that runs `trips` times."""

    trips: Expression
    body: Trace


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """A branch: one of two bodies runs."""

    condition: Expression
    yes: Trace
    no: Trace


TraceItem = KernelOperation | Loop | Branch


Trace = tuple["TraceItem", ...]


def every_step(trace: Trace) -> Iterator[TraceItem]:
    """Loops, branches and operations, each before what it encloses."""
    for step in trace:
        yield step
        if isinstance(step, Loop):
            yield from every_step(step.body)
        elif isinstance(step, Branch):
            yield from every_step(step.yes)
            yield from every_step(step.no)


def operations(trace: Trace) -> Iterator[KernelOperation]:
    """Yield the operations inside all loops and branches."""
    return (step for step in every_step(trace) if isinstance(step, KernelOperation))


def first_lines(trace: Trace) -> dict[str, int]:
    """The line of the first operation of each kind."""
    lines: dict[str, int] = {}
    for step in operations(trace):
        lines.setdefault(step.kind, step.line)
    return lines


def buffers_of(trace: Trace) -> list[str]:
    """Return the buffers of a kernel, in order of first use."""
    return list(dict.fromkeys(step.buffer for step in operations(trace) if step.kind in OPERATIONS))


def buffer_name(buffer: str) -> str:
    """A buffer's identity as messages name it."""
    return buffer if buffer.isdigit() or "::" in buffer else f"'{buffer}'"


def select_buffer(trace: Trace, buffer: str) -> Trace:
    """The part of a trace that touches one buffer; loops and branches without it are dropped."""
    kept: list[TraceItem] = []
    for step in trace:
        if isinstance(step, KernelOperation):
            if step.buffer == buffer and step.kind in OPERATIONS:
                kept.append(step)
        elif isinstance(step, Loop):
            if body := select_buffer(step.body, buffer):
                kept.append(Loop(step.trips, body))
        else:
            yes, no = select_buffer(step.yes, buffer), select_buffer(step.no, buffer)
            if yes or no:
                kept.append(Branch(step.condition, yes, no))
    return tuple(kept)


def expressions_in(trace: Trace) -> list[Expression | None]:
    """Counts, trip counts and conditions."""
    return [
        step.count if isinstance(step, KernelOperation) else step.trips if isinstance(step, Loop) else step.condition
        for step in every_step(trace)
    ]


def total_of(trace: Trace, kind: str, amounts: Amounts) -> Polynomial | None:
    """Pages moved by all operations of a kind; None where a branch or a loop makes it unknowable."""
    total: Polynomial = {}
    for step in trace:
        part: Polynomial | None
        if isinstance(step, KernelOperation):
            if step.kind != kind:
                continue
            part = None if depends_on_a_loop(step.count) else amounts.of(step.count)
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


def depends_on_a_loop(expression: Expression | None) -> bool:
    """Return True if a count changes between iterations of a loop, or is unknown."""
    return expression is None or any(isinstance(node, Symbol) and node.kind == LOOP for node in every_node(expression))
