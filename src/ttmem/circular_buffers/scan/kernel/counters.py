# SPDX-License-Identifier: Apache-2.0
"""Run a program's kernels on counters alone, without time: does it end, and if not, who waits for whom?

A deadlock does not depend on how fast the kernels are: each blocks until the other's counter allows it, so any order of
steps that goes as far as it can ends in the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ttmem.circular_buffers.scan.cpp.expressions import Expression
from ttmem.circular_buffers.scan.kernel.trace import OPERATIONS, POP, PUSH, RESERVE, WAIT, Loop, Operation, Trace

MOST_STEPS = 200_000


@dataclass(frozen=True, slots=True)
class Step:
    """One operation with its numbers."""

    kind: str
    buffer: str
    pages: int
    line: int


@dataclass(frozen=True, slots=True)
class Blocked:
    """Where a kernel stands when nothing moves any more."""

    kernel: int
    step: Step
    available: int


def unrolled(
    trace: Trace, number: Callable[[Expression | None], int | None], key: Callable[[str], str | None]
) -> list[Step] | None:
    """A trace as plain steps; None when a count, a trip count or a branch is not known, or when it is too long."""
    steps: list[Step] = []
    return steps if _unroll(trace, number, key, steps) else None


def _unroll(
    trace: Trace,
    number: Callable[[Expression | None], int | None],
    key: Callable[[str], str | None],
    steps: list[Step],
) -> bool:
    for part in trace:
        if isinstance(part, Operation):
            if part.kind in OPERATIONS and not _add(part, number, key, steps):
                return False
        elif isinstance(part, Loop):
            trips = number(part.trips)
            if trips is None:
                return False
            for _ in range(trips):
                before = len(steps)
                if not _unroll(part.body, number, key, steps):
                    return False
                if len(steps) == before:
                    break
        else:
            condition = number(part.condition)
            if condition is None:
                if part.yes or part.no:
                    return False
            elif not _unroll(part.yes if condition else part.no, number, key, steps):
                return False
    return True


def _add(
    part: Operation,
    number: Callable[[Expression | None], int | None],
    key: Callable[[str], str | None],
    steps: list[Step],
) -> bool:
    pages, buffer = number(part.count), key(part.buffer)
    if pages is None or buffer is None or len(steps) >= MOST_STEPS:
        return False
    steps.append(Step(part.kind, buffer, pages, part.line))
    return True


def run(kernels: Sequence[Sequence[Step]], capacities: Mapping[str, int]) -> list[Blocked]:
    """Everybody goes on as far as possible; empty when all reach their end."""
    held = dict.fromkeys(capacities, 0)
    position = [0] * len(kernels)
    moved = True
    while moved:
        moved = False
        for kernel, steps in enumerate(kernels):
            while position[kernel] < len(steps) and _can(steps[position[kernel]], held, capacities):
                step = steps[position[kernel]]
                if step.kind == PUSH:
                    held[step.buffer] += step.pages
                elif step.kind == POP:
                    held[step.buffer] -= step.pages
                position[kernel] += 1
                moved = True
    blocked = []
    for kernel, steps in enumerate(kernels):
        if position[kernel] < len(steps):
            step = steps[position[kernel]]
            free = capacities[step.buffer] - held[step.buffer]
            blocked.append(Blocked(kernel, step, free if step.kind == RESERVE else held[step.buffer]))
    return blocked


def _can(step: Step, held: Mapping[str, int], capacities: Mapping[str, int]) -> bool:
    if step.kind == RESERVE:
        return capacities[step.buffer] - held[step.buffer] >= step.pages
    if step.kind == WAIT:
        return held[step.buffer] >= step.pages
    return True
