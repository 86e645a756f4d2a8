# SPDX-License-Identifier: Apache-2.0
"""R9: kernels that stop for ever, found by running them on counters alone, without time, where all numbers are known.

A deadlock does not depend on how fast the kernels are: each blocks until the other's counter allows it, so any order of
steps that goes as far as it can ends in the same place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ttmem.circular_buffers.scan.link_host_and_kernels import JoinedKernel, JoinedProgram
from ttmem.circular_buffers.scan.model import (
    OPERATIONS,
    POP,
    PUSH,
    RESERVE,
    WAIT,
    KernelOperation,
    Loop,
    Trace,
    TraceItem,
)
from ttmem.circular_buffers.scan.rules.scan_rule import Breach, Breaches, ScanRule

MOST_STEPS = 200_000


@dataclass(frozen=True, slots=True)
class UnrolledStep:
    """An operation with its numbers."""

    kind: str
    buffer: str
    pages: int
    line: int


@dataclass(frozen=True, slots=True)
class StuckKernel:
    """Position of a kernel when no kernel can continue."""

    kernel: int
    step: UnrolledStep
    available: int


def unroll_trace(member: JoinedKernel) -> list[UnrolledStep] | None:
    """A trace as plain steps; None when a count, a trip count or a branch is not known, or when it is too long."""
    number, buffers = member.amounts.integer, member.buffers
    steps: list[UnrolledStep] = []

    def unroll(trace: Trace) -> bool:
        return all(map(one, trace))

    def one(part: TraceItem) -> bool:
        if isinstance(part, KernelOperation):
            if part.kind not in OPERATIONS:
                return True
            pages, buffer = number(part.count), buffers.get(part.buffer)
            if pages is None or buffer is None or len(steps) >= MOST_STEPS:
                return False
            steps.append(UnrolledStep(part.kind, buffer.key, pages, part.line))
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

    return steps if unroll(member.trace) else None


def run(kernels: Sequence[Sequence[UnrolledStep]], capacities: Mapping[str, int]) -> list[StuckKernel]:
    """Run all kernels as far as possible; return the blocked ones."""
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
    return [StuckKernel(kernel, rest[0], _available(rest[0], held, capacities)) for kernel, rest in left if rest]


def _available(step: UnrolledStep, held: Mapping[str, int], capacities: Mapping[str, int]) -> int:
    """Pages that a step can have: free ones to reserve, held ones to wait for."""
    return capacities[step.buffer] - held[step.buffer] if step.kind == RESERVE else held[step.buffer]


def _deadlock(joined: JoinedProgram) -> Breaches:
    members = joined.kernels
    if not joined.complete or any(member.use.conditions or not member.use.one_thread for member in members):
        return
    capacities: dict[str, int] = {}
    for buffer in joined.buffers:
        pages = buffer.pages
        if pages is None or buffer.is_hidden or buffer.may_start_full:
            return
        capacities[buffer.key] = pages
    if any(not joined.touching(key, kind) for key in capacities for kind in (PUSH, POP)):
        return
    kernels = [steps for member in members if (steps := unroll_trace(member)) is not None]
    blocked = run(kernels, capacities) if len(kernels) == len(members) else []
    if blocked:
        waits = "; ".join(
            f"{PurePath(members[one.kernel].file).name}:{one.step.line} {one.step.kind} of {one.step.pages} of buffer "
            f"{one.step.buffer} with {one.available} there"
            for one in blocked
        )
        text = f"the kernels of program {joined.program.name} stop for ever: {waits}"
        yield Breach(members[blocked[0].kernel].file, blocked[0].step.line, text)


SKEW = ScanRule(
    "R9",
    "A buffer holds as much as its twin lags behind",
    "one kernel fills two buffers in step while the other drains one of them first: the full one stops both",
    "make the lagging buffer deep enough for the skew, or drain both in step",
    detail="the kernels are run on counters",
    joined=_deadlock,
    only_without_errors=True,
)
