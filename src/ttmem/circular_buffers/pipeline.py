# SPDX-License-Identifier: Apache-2.0
"""Kernels that pass pages through circular buffers: when each of them runs, waits or blocks forever.

A circular buffer is a blocking queue, so a set of kernels is a network in which the order of execution cannot change
the result: every kernel has its own clock, and a step that has to wait takes the time at which its counterpart let it
go on. When nobody can go on and somebody still has steps to do, the program hangs, and who waits for whom is known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from ttmem.base.errors import BadInputError

BUSY, WAIT, RESERVE, PUSH, POP = "busy", "wait_front", "reserve_back", "push_back", "pop_front"

DEFAULT_SYNC_CYCLES = 20.0
"""From a push (or pop) until the other kernel sees it. A guess: no public figure exists."""


class KernelStep(NamedTuple):
    """An action of a kernel: be busy for some cycles, or move some pages of a buffer."""

    kind: str
    buffer: str
    amount: float


busy = partial(KernelStep, BUSY, "")
"""Work that needs no other kernel: a transfer with its barrier, or math."""
wait = partial(KernelStep, WAIT)
"""Continue when the buffer holds this number of pages."""
reserve = partial(KernelStep, RESERVE)
"""Continue when the buffer has room for this number of pages."""
push = partial(KernelStep, PUSH)
"""Hand over pages that were reserved."""
pop = partial(KernelStep, POP)
"""Give back the room of pages that were waited for."""


@dataclass(frozen=True, slots=True)
class SimulatedKernel:
    """A kernel on one core: its steps, unrolled. Made once, it may run many times with other depths."""

    name: str
    steps: Sequence[KernelStep]
    produces: frozenset[str] = field(init=False, compare=False)
    consumes: frozenset[str] = field(init=False, compare=False)
    """Buffers that it both fills and empties."""

    def __post_init__(self) -> None:
        produced = {name for kind, name, _ in self.steps if kind in (RESERVE, PUSH)}
        consumed = {name for kind, name, _ in self.steps if kind in (WAIT, POP)}
        object.__setattr__(self, "produces", frozenset(produced))
        object.__setattr__(self, "consumes", frozenset(consumed))


@dataclass(frozen=True, slots=True)
class BlockedKernel:
    """A kernel that cannot go on."""

    kernel: str
    step: KernelStep
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


@dataclass(slots=True)
class KernelTimes:
    """Cycles of a kernel by cause; busy and waits sum to its end."""

    end_cycles: float = 0.0
    busy_cycles: float = 0.0
    waits: dict[tuple[str, str], float] = field(default_factory=dict)
    """Cycles by (``wait_front`` or ``reserve_back``, buffer)."""
    first_wait_cycles: float = 0.0
    """Waited before the first busy step: the pipeline filling, which no depth can save."""
    steps_done: int = 0

    @property
    def stalled_cycles(self) -> float:
        """Total waiting cycles of this kernel."""
        return sum(self.waits.values())


@dataclass(slots=True)
class BufferTrace:
    """Pages through a buffer and their times, in the clock of the kernel that moved them."""

    capacity_pages: int
    push_cycles: list[float] = field(default_factory=list)
    pop_cycles: list[float] = field(default_factory=list)
    producer: SimulatedKernel | None = None
    consumer: SimulatedKernel | None = None
    sync_cycles: float = 0.0
    """From a push (or pop) until the other side sees it."""

    @property
    def left_pages(self) -> int:
        """Pages in the buffer; at the end: pages that no kernel took."""
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
class PipelineRun:
    """The result of simulating a program."""

    makespan_cycles: float
    kernels: Mapping[str, KernelTimes]
    buffers: Mapping[str, BufferTrace]
    deadlock: tuple[BlockedKernel, ...]
    """Empty when every kernel came to its end."""


def run(
    kernels: Sequence[SimulatedKernel], capacities: Mapping[str, int], *, sync_cycles: float = DEFAULT_SYNC_CYCLES
) -> PipelineRun:
    """Run the kernels of one core to their end or to the point where all of them wait.

    One kernel produces into a buffer and one consumes from it (two consumers race for a token, rule R6); a kernel may
    be both, and then sees its own pages at once: what that costs belongs to its busy time.
    """
    buffers = _connect(kernels, capacities, sync_cycles)
    clocks = {kernel.name: KernelTimes() for kernel in kernels}
    moved = True
    while moved:
        before = [clock.steps_done for clock in clocks.values()]
        for kernel in kernels:
            _advance(kernel.steps, clocks[kernel.name], buffers)
        moved = before != [clock.steps_done for clock in clocks.values()]
    return PipelineRun(
        makespan_cycles=max((clock.end_cycles for clock in clocks.values()), default=0.0),
        kernels=clocks,
        buffers=buffers,
        deadlock=tuple(
            _describe_block(kernel, kernel.steps[done], buffers)
            for kernel in kernels
            if (done := clocks[kernel.name].steps_done) < len(kernel.steps)
        ),
    )


def _connect(
    kernels: Sequence[SimulatedKernel], capacities: Mapping[str, int], sync_cycles: float
) -> dict[str, BufferTrace]:
    buffers = {name: BufferTrace(capacity) for name, capacity in capacities.items()}
    for kernel in kernels:
        for name in sorted(kernel.produces | kernel.consumes):
            if name not in buffers:
                raise BadInputError(f"kernel {kernel.name} uses buffer {name}, which has no capacity")
            buffer = buffers[name]
            if name in kernel.produces:
                if buffer.producer is not None:
                    raise BadInputError(f"buffer {name} has two producers: they would race for its room")
                buffer.producer = kernel
            if name in kernel.consumes:
                if buffer.consumer is not None:
                    raise BadInputError(f"buffer {name} has two consumers: they would race for its pages")
                buffer.consumer = kernel
    for buffer in buffers.values():
        buffer.sync_cycles = 0.0 if buffer.producer is buffer.consumer else sync_cycles
    return buffers


def _advance(steps: Sequence[KernelStep], clock: KernelTimes, buffers: Mapping[str, BufferTrace]) -> None:
    """Do steps until one has to wait for what has not happened yet."""
    position, now, worked, end = clock.steps_done, clock.end_cycles, clock.busy_cycles, len(steps)
    while position < end:
        kind, name, amount = steps[position]
        if kind == BUSY:
            if not worked:
                clock.first_wait_cycles = now
            now += amount
            worked += amount
        else:
            buffer = buffers[name]
            pushes, pops, pages = buffer.push_cycles, buffer.pop_cycles, int(amount)
            if kind == PUSH:
                if len(pushes) - len(pops) + pages > buffer.capacity_pages:
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
                    needed, moments = len(pushes) + pages - buffer.capacity_pages, pops
                # More than the capacity can never be there, however long one waits (rule R1).
                if needed > len(moments) or pages > buffer.capacity_pages:
                    break
                if needed > 0 and (ready := moments[needed - 1] + buffer.sync_cycles) > now:
                    key = (kind, name)
                    clock.waits[key] = clock.waits.get(key, 0.0) + ready - now
                    now = ready
        position += 1
    clock.steps_done, clock.end_cycles, clock.busy_cycles = position, now, worked


def _describe_block(kernel: SimulatedKernel, step: KernelStep, buffers: Mapping[str, BufferTrace]) -> BlockedKernel:
    buffer = buffers[step.buffer]
    waiting = step.kind == WAIT
    other = buffer.producer if waiting else buffer.consumer
    available = buffer.left_pages if waiting else buffer.capacity_pages - buffer.left_pages
    return BlockedKernel(kernel.name, step, available, other.name if other is not None else None)
