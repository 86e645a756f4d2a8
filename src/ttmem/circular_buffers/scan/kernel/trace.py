# SPDX-License-Identifier: Apache-2.0
"""What a kernel does to its buffers: operations in order, inside loops and branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ttmem.circular_buffers.scan.cpp.expressions import Expression

RESERVE, PUSH, WAIT, POP = "reserve_back", "push_back", "wait_front", "pop_front"
OPERATIONS = frozenset({RESERVE, PUSH, WAIT, POP})
READ, WRITE, BARRIER, PASSED = "read", "write", "barrier", "passed"
"""Transfers into or out of a buffer, what waits for them, and a buffer handed to a function that was not followed."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One step; `buffer` is its identity (`0`, `dfb::in`, `get_compile_time_arg_val(2)`), empty for barriers."""

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
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """One of two bodies runs."""

    condition: Expression
    text: str
    yes: Trace
    no: Trace


Step = Operation | Loop | Branch
Trace = tuple["Step", ...]


def operations(trace: Trace) -> Iterator[Operation]:
    """Every operation, whatever encloses it."""
    for step in trace:
        if isinstance(step, Operation):
            yield step
        elif isinstance(step, Loop):
            yield from operations(step.body)
        else:
            yield from operations(step.yes)
            yield from operations(step.no)


def of_buffer(trace: Trace, buffer: str) -> Trace:
    """The part of a trace that touches one buffer; loops and branches without it are dropped."""
    kept: list[Step] = []
    for step in trace:
        if isinstance(step, Operation):
            if step.buffer == buffer and step.kind in OPERATIONS:
                kept.append(step)
        elif isinstance(step, Loop):
            if body := of_buffer(step.body, buffer):
                kept.append(Loop(step.trips, body, step.line))
        else:
            yes, no = of_buffer(step.yes, buffer), of_buffer(step.no, buffer)
            if yes or no:
                kept.append(Branch(step.condition, step.text, yes, no))
    return tuple(kept)


def expressions_in(trace: Trace) -> list[Expression | None]:
    """Counts, trip counts and conditions."""
    found: list[Expression | None] = []
    for step in trace:
        if isinstance(step, Operation):
            found.append(step.count)
        elif isinstance(step, Loop):
            found += [step.trips, *expressions_in(step.body)]
        else:
            found += [step.condition, *expressions_in(step.yes), *expressions_in(step.no)]
    return found
