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
from ttmem.circular_buffers.scan.kernel.trace import Step as Part

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

    def unroll(trace: Trace) -> bool:
        return all(map(one, trace))

    def one(part: Part) -> bool:
        if isinstance(part, Operation):
            if part.kind not in OPERATIONS:
                return True
            pages, buffer = number(part.count), key(part.buffer)
            if pages is None or buffer is None or len(steps) >= MOST_STEPS:
                return False
            steps.append(Step(part.kind, buffer, pages, part.line))
            return True
        if isinstance(part, Loop):
            trips = number(part.trips)
            for _ in range(trips or 0):
                before = len(steps)
                if not unroll(part.body):
                    return False
                if len(steps) == before:
                    break
            return trips is not None
        condition = number(part.condition)
        if condition is None:
            return not (part.yes or part.no)
        return unroll(part.yes if condition else part.no)

    return steps if unroll(trace) else None


def run(kernels: Sequence[Sequence[Step]], capacities: Mapping[str, int]) -> list[Blocked]:
    """Everybody goes on as far as possible; empty when all reach their end."""
    held = dict.fromkeys(capacities, 0)
    position = [0] * len(kernels)
    moved = True
    while moved:
        moved = False
        for kernel, steps in enumerate(kernels):
            while position[kernel] < len(steps):
                step = steps[position[kernel]]
                if step.kind in (RESERVE, WAIT) and _available(step, held, capacities) < step.pages:
                    break
                if step.kind == PUSH:
                    held[step.buffer] += step.pages
                elif step.kind == POP:
                    held[step.buffer] -= step.pages
                position[kernel] += 1
                moved = True
    left = [(kernel, steps[at:]) for kernel, (steps, at) in enumerate(zip(kernels, position, strict=True))]
    return [Blocked(kernel, rest[0], _available(rest[0], held, capacities)) for kernel, rest in left if rest]


def _available(step: Step, held: Mapping[str, int], capacities: Mapping[str, int]) -> int:
    """Pages that a step can have: free ones to reserve, held ones to wait for."""
    return capacities[step.buffer] - held[step.buffer] if step.kind == RESERVE else held[step.buffer]
