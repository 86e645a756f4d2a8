# SPDX-License-Identifier: Apache-2.0
"""When each kernel of a run was busy and when it waited, to be drawn: the clocks of the run, gone through once more."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ttmem.circular_buffers.assumptions import Assumptions, Scenario
from ttmem.circular_buffers.kernels import pairs, run_kernels, simulated
from ttmem.circular_buffers.pipeline import BUSY, POP, PUSH, WAIT, Kernel, Run
from ttmem.circular_buffers.simulate import StrategyResult
from ttmem.circular_buffers.workload import Workload


class Span(NamedTuple):
    """A stretch of cycles: ``busy``, ``wait_front`` or ``reserve_back``."""

    first_cycle: float
    end_cycle: float
    kind: str


def nominal_spans(workload: Workload, result: StrategyResult, assumptions: Assumptions) -> dict[str, list[Span]]:
    """The kernels of one strategy with constant transfer times, by name."""
    kernels = pairs(simulated(workload), assumptions, Scenario(assumptions.nominal_compute_cycles))
    finished = run_kernels(kernels, result.tiles, assumptions)
    return spans(kernels, finished)


def spans(kernels: Sequence[Kernel], finished: Run) -> dict[str, list[Span]]:
    """Per kernel, in order. Who waited for what is known from the moments at which pages were pushed and popped."""
    return {kernel.name: _of(kernel, finished) for kernel in kernels}


def _of(kernel: Kernel, finished: Run) -> list[Span]:
    found: list[Span] = []
    now = 0.0
    pushed: Counter[str] = Counter()
    popped: Counter[str] = Counter()
    for kind, name, amount in kernel.steps[: finished.kernels[kernel.name].steps_done]:
        end = now
        if kind == BUSY:
            end = now + amount
        elif kind == PUSH:
            pushed[name] += int(amount)
        elif kind == POP:
            popped[name] += int(amount)
        else:
            buffer = finished.buffers[name]
            moments = buffer.push_cycles if kind == WAIT else buffer.pop_cycles
            needed = popped[name] + int(amount)
            if kind != WAIT:
                needed = pushed[name] + int(amount) - buffer.capacity_pages
            if needed > 0:
                end = max(now, moments[needed - 1] + buffer.sync_cycles)
        if end > now:
            if found and found[-1].kind == kind and found[-1].end_cycle == now:
                found[-1] = found[-1]._replace(end_cycle=end)
            else:
                found.append(Span(now, end, kind))
        now = end
    return found
