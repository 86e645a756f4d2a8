# SPDX-License-Identifier: Apache-2.0
"""Kernels that hand pages to each other through circular buffers: when each of them runs, waits or never goes on.

A circular buffer is a blocking queue, so a set of kernels is a network in which the order of execution cannot change
the result: every kernel has its own clock, and a step that has to wait takes the time at which its counterpart let it
go on. When nobody can go on and somebody still has steps to do, the program hangs, and who waits for whom is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ttmem._errors import BadInputError

BUSY, WAIT, RESERVE, PUSH, POP = "busy", "wait_front", "reserve_back", "push_back", "pop_front"

DEFAULT_SYNC_CYCLES = 20.0
"""From a push (or pop) until the other kernel sees it. A guess: no public figure exists."""


class Step(NamedTuple):
    """One thing that a kernel does: be busy for so many cycles, or move so many pages of a buffer."""

    kind: str
    buffer: str
    amount: float


def busy(cycles: float) -> Step:
    """Work that needs no other kernel: a transfer with its barrier, or math."""
    return Step(BUSY, "", cycles)


def wait(buffer: str, pages: int) -> Step:
    """Go on when the buffer holds so many pages."""
    return Step(WAIT, buffer, pages)


def reserve(buffer: str, pages: int) -> Step:
    """Go on when the buffer has room for so many pages."""
    return Step(RESERVE, buffer, pages)


def push(buffer: str, pages: int) -> Step:
    """Hand over pages that were reserved."""
    return Step(PUSH, buffer, pages)


def pop(buffer: str, pages: int) -> Step:
    """Give back the room of pages that were waited for."""
    return Step(POP, buffer, pages)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel on one core: its steps, unrolled. Made once, it may run many times with other depths."""

    name: str
    steps: Sequence[Step]
    produces: frozenset[str] = field(init=False, compare=False)
    consumes: frozenset[str] = field(init=False, compare=False)
    """Buffers on whose two sides it stands."""

    def __post_init__(self) -> None:
        produced = {name for kind, name, _ in self.steps if kind in (RESERVE, PUSH)}
        consumed = {name for kind, name, _ in self.steps if kind in (WAIT, POP)}
        object.__setattr__(self, "produces", frozenset(produced))
        object.__setattr__(self, "consumes", frozenset(consumed))


@dataclass(frozen=True, slots=True)
class Blocked:
    """A kernel that cannot go on."""

    kernel: str
    step: Step
    available_pages: int
    """Pages that the buffer held, or had room for, when everything stood still."""
    waits_for: str | None
    """The kernel on the other side of the buffer; None when there is none."""

    def __str__(self) -> str:
        """``compute: reserve_back(cb2, 1) with 0 of it there, waits for compute``."""
        other = self.waits_for or "a kernel that does not exist"
        return (
            f"{self.kernel}: {self.step.kind}({self.step.buffer}, {self.step.amount:g}) "
            f"with {self.available_pages} there, waits for {other}"
        )


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """Where a kernel's cycles went; busy and waits sum to its end."""

    end_cycles: float
    busy_cycles: float
    waits: Mapping[tuple[str, str], float]
    """Cycles by (``wait_front`` or ``reserve_back``, buffer)."""
    first_wait_cycles: float
    """Waited before the first busy step: the pipeline filling, which no depth can save."""

    @property
    def stalled_cycles(self) -> float:
        """All waiting of this kernel."""
        return sum(self.waits.values())


@dataclass(frozen=True, slots=True)
class BufferTrace:
    """What went through a buffer and when, in the time of who did it."""

    capacity_pages: int
    push_cycles: Sequence[float]
    pop_cycles: Sequence[float]

    @property
    def left_pages(self) -> int:
        """Pages that nobody took."""
        return len(self.push_cycles) - len(self.pop_cycles)

    def occupancy(self, until_cycles: float) -> tuple[float, int]:
        """Mean and highest number of pages held."""
        pops = iter(self.pop_cycles)
        upcoming = next(pops, None)
        held = highest = 0
        for moment in self.push_cycles:
            while upcoming is not None and upcoming <= moment and held:
                held -= 1
                upcoming = next(pops, None)
            held += 1
            highest = max(highest, held)
        area = sum(until_cycles - moment for moment in self.push_cycles)
        area -= sum(until_cycles - moment for moment in self.pop_cycles)
        return (area / until_cycles if until_cycles else 0.0), highest


@dataclass(frozen=True, slots=True)
class Run:
    """How a program went."""

    makespan_cycles: float
    kernels: Mapping[str, KernelTimes]
    buffers: Mapping[str, BufferTrace]
    deadlock: tuple[Blocked, ...]
    """Empty when every kernel came to its end."""

    @property
    def wait_cycle(self) -> tuple[str, ...]:
        """The kernels that wait for each other in a ring, the first one repeated at the end; empty without a ring."""
        waits_for = {blocked.kernel: blocked.waits_for for blocked in self.deadlock}
        for first in waits_for:
            seen = [first]
            following = waits_for[first]
            while following in waits_for and following not in seen:
                seen.append(following)
                following = waits_for[following]
            if following in seen:
                return (*seen[seen.index(following) :], following)
        return ()


@dataclass(slots=True)
class _Buffer:
    capacity: int
    producer: int | None = None
    consumer: int | None = None
    sync: float = 0.0
    pushes: list[float] = field(default_factory=list)
    pops: list[float] = field(default_factory=list)

    def held(self) -> int:
        return len(self.pushes) - len(self.pops)


@dataclass(slots=True)
class _Clock:
    now: float = 0.0
    busy: float = 0.0
    first_wait: float = 0.0
    position: int = 0
    waits: dict[tuple[str, str], float] = field(default_factory=dict)


def run(kernels: Sequence[Kernel], capacities: Mapping[str, int], *, sync_cycles: float = DEFAULT_SYNC_CYCLES) -> Run:
    """Run the kernels of one core to their end or to the point where all of them wait.

    One kernel produces into a buffer and one consumes from it (two consumers race for a token, rule R6); a kernel may
    be both, and then sees its own pages at once: what that costs belongs to its busy time.
    """
    buffers = _connect(kernels, capacities, sync_cycles)
    clocks = [_Clock() for _ in kernels]
    moved = True
    while moved:
        moved = False
        for kernel, clock in zip(kernels, clocks, strict=True):
            before = clock.position
            _advance(kernel.steps, clock, buffers)
            moved = moved or clock.position != before
    blocked = tuple(
        _blocked(kernel, clock, buffers, kernels)
        for kernel, clock in zip(kernels, clocks, strict=True)
        if clock.position < len(kernel.steps)
    )
    return Run(
        makespan_cycles=max((clock.now for clock in clocks), default=0.0),
        kernels={
            kernel.name: KernelTimes(clock.now, clock.busy, clock.waits, clock.first_wait)
            for kernel, clock in zip(kernels, clocks, strict=True)
        },
        buffers={name: BufferTrace(buffer.capacity, buffer.pushes, buffer.pops) for name, buffer in buffers.items()},
        deadlock=blocked,
    )


def _connect(kernels: Sequence[Kernel], capacities: Mapping[str, int], sync_cycles: float) -> dict[str, _Buffer]:
    buffers = {name: _Buffer(capacity) for name, capacity in capacities.items()}
    for number, kernel in enumerate(kernels):
        for name in sorted(kernel.produces | kernel.consumes):
            if name not in buffers:
                raise BadInputError(f"kernel {kernel.name} uses buffer {name}, which has no capacity")
            buffer = buffers[name]
            if name in kernel.produces:
                if buffer.producer is not None:
                    raise BadInputError(f"buffer {name} has two producers: they would race for its room")
                buffer.producer = number
            if name in kernel.consumes:
                if buffer.consumer is not None:
                    raise BadInputError(f"buffer {name} has two consumers: they would race for its pages")
                buffer.consumer = number
    for buffer in buffers.values():
        buffer.sync = 0.0 if buffer.producer == buffer.consumer else sync_cycles
    return buffers


def _advance(steps: Sequence[Step], clock: _Clock, buffers: Mapping[str, _Buffer]) -> None:
    """Do steps until one has to wait for what has not happened yet."""
    position, now, worked, end = clock.position, clock.now, clock.busy, len(steps)
    while position < end:
        kind, name, amount = steps[position]
        if kind == BUSY:
            if not worked:
                clock.first_wait = now
            now += amount
            worked += amount
        else:
            buffer = buffers[name]
            pushes, pops, pages = buffer.pushes, buffer.pops, int(amount)
            if kind == PUSH:
                if len(pushes) - len(pops) + pages > buffer.capacity:
                    raise BadInputError(f"push of {pages} into {name}, which has no room for them: reserve first")
                pushes += [now] * pages
            elif kind == POP:
                if len(pushes) - len(pops) < pages:
                    raise BadInputError(f"pop of {pages} from {name}, which does not hold them: wait first")
                pops += [now] * pages
            else:
                if kind == WAIT:
                    needed, moments = len(pops) + pages, pushes
                else:
                    needed, moments = len(pushes) + pages - buffer.capacity, pops
                # More than the capacity can never be there, however long one waits (rule R1).
                if needed > len(moments) or pages > buffer.capacity:
                    break
                if needed > 0 and (ready := moments[needed - 1] + buffer.sync) > now:
                    key = (kind, name)
                    clock.waits[key] = clock.waits.get(key, 0.0) + ready - now
                    now = ready
        position += 1
    clock.position, clock.now, clock.busy = position, now, worked


def _blocked(kernel: Kernel, clock: _Clock, buffers: Mapping[str, _Buffer], kernels: Sequence[Kernel]) -> Blocked:
    step = kernel.steps[clock.position]
    buffer = buffers[step.buffer]
    waiting = step.kind == WAIT
    other = buffer.producer if waiting else buffer.consumer
    return Blocked(
        kernel=kernel.name,
        step=step,
        available_pages=buffer.held() if waiting else buffer.capacity - buffer.held(),
        waits_for=None if other is None else kernels[other].name,
    )
