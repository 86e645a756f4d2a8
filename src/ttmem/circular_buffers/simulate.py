# SPDX-License-Identifier: Apache-2.0
"""``simulate``: strategies side by side for a workload, and where they come under pressure over a row of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ttmem.base.errors import BadInputError
from ttmem.circular_buffers.kernels import (
    Recommendation,
    best,
    limit_workload,
    pairs,
    recommend,
    run_kernels,
)
from ttmem.circular_buffers.l1_use import HIGH, Heuristic, L1Use, heuristic, l1_use
from ttmem.circular_buffers.pipeline import BUSY, POP, PUSH, WAIT, PipelineRun, SimulatedKernel
from ttmem.circular_buffers.stall_time import DEADLOCK, Stall, StallPredictor
from ttmem.circular_buffers.strategies import Strategy, choose
from ttmem.circular_buffers.workload import Assumptions, Scenario, Workload, assume


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """The allocation of a strategy for a workload, and its consequences."""

    strategy: Strategy
    tiles: Mapping[str, int]
    total_bytes: int
    l1: L1Use
    heuristic: Heuristic
    stall: Stall
    memory_efficiency_percent: float | None
    """Bytes of the recommended depths for the same batch size, of the allocated ones; None when nothing was found."""
    broken_rules: tuple[str, ...] = ()
    """Rules of kernels that these depths break without hanging: the simulation's times then mean nothing."""

    @property
    def works(self) -> bool:
        """True if it fits an empty device, completes and keeps the rules."""
        fits = self.l1.failure is None and self.l1.kernels_fit is not False
        return fits and self.stall.cause != DEADLOCK and not self.broken_rules


@dataclass(frozen=True, slots=True)
class Simulation:
    """Simulation of a workload."""

    workload: Workload
    assumptions: Assumptions
    results: Mapping[str, StrategyResult]
    recommendations: tuple[Recommendation, ...]

    @property
    def best(self) -> Recommendation:
        """The depths to choose."""
        return best(self.recommendations)

    @property
    def works(self) -> bool:
        """True if all strategies do."""
        return all(result.works for result in self.results.values())


@dataclass(frozen=True, slots=True)
class Critical:
    """The first workload of a row at which a strategy is under high pressure."""

    by_guide: Workload | None
    """Its heuristic: risk HIGH."""
    by_simulation: Workload | None
    """Too little depth may cost more than ``CRITICAL_LOSS_PERCENT`` of the time, or the program hangs."""


CRITICAL_LOSS_PERCENT = 2.0
"""Stall that no depth can save is no pressure on buffers, so the simulated point looks at the loss to depth alone."""


def simulate(
    workload: Workload,
    strategies: Sequence[Strategy] | None = None,
    assumptions: Assumptions | None = None,
    *,
    kernel_bytes: int | None = None,
) -> Simulation:
    """Simulate strategies for a workload; the built-in ones unless others are given."""
    strategies = choose("all") if strategies is None else strategies
    assumptions = assume() if assumptions is None else assumptions
    predictor = StallPredictor(workload, assumptions)
    choices = recommend(workload, assumptions)
    same_batch = next((one for one in choices if one.tiles_per_barrier == assumptions.tiles_per_barrier), None)
    results: dict[str, StrategyResult] = {}
    for strategy in strategies:
        if strategy.name in results:
            raise BadInputError(f"two strategies are called {strategy.name!r}", where=strategy.where)
        tiles = strategy.tiles_for(workload, assumptions.tile_bytes)
        total_bytes = sum(tiles.values()) * assumptions.tile_bytes
        reachable = same_batch is not None and same_batch.reaches_bound
        results[strategy.name] = StrategyResult(
            strategy=strategy,
            tiles=tiles,
            total_bytes=total_bytes,
            l1=l1_use(tiles, assumptions.tile_bytes, assumptions.memory_map, kernel_bytes),
            heuristic=heuristic(tiles, workload),
            stall=predictor.predict(tiles),
            memory_efficiency_percent=100 * same_batch.total_bytes / total_bytes if same_batch and reachable else None,
            broken_rules=_find_broken_rules(workload, tiles["cb1"], assumptions.tiles_per_barrier),
        )
    return Simulation(workload, assumptions, results, choices)


def _find_broken_rules(workload: Workload, cb1_tiles: int, batch: int) -> tuple[str, ...]:
    """Rule R2: the pushes of one lap sum exactly to the capacity, else the pointer runs past the buffer's end."""
    if batch > cb1_tiles:
        return ()  # hangs, which the simulation says itself
    if cb1_tiles % batch and workload.r_tiles * workload.tiles_per_shard > cb1_tiles:
        return (f"R2: pushes of {batch} do not fill the {cb1_tiles} tiles of cb1 evenly and run past its end",)
    rest = workload.r_tiles % batch
    if rest and workload.tiles_per_shard > 1:
        return (
            f"R2: {workload.r_tiles} B tiles leave a push of {rest} after those of {batch}, which shifts every lap",
        )
    return ()


def critical_points(simulations: Sequence[Simulation]) -> dict[str, Critical]:
    """Per strategy, where pressure becomes critical along a row of workloads."""
    found: dict[str, Critical] = {}
    for name in simulations[0].results if simulations else ():
        rows = [(one.workload, one.results[name]) for one in simulations]
        found[name] = Critical(
            next((job for job, result in rows if result.heuristic.risk == HIGH), None),
            next(
                (job for job, result in rows if result.stall.depth_loss_percent[1] > CRITICAL_LOSS_PERCENT),
                None,
            ),
        )
    return found


class Span(NamedTuple):
    """A stretch of cycles: ``busy``, ``wait_front`` or ``reserve_back``."""

    first_cycle: float
    end_cycle: float
    kind: str


def nominal_spans(workload: Workload, result: StrategyResult, assumptions: Assumptions) -> dict[str, list[Span]]:
    """The kernels of one strategy with constant transfer times, by name."""
    kernels = pairs(limit_workload(workload), assumptions, Scenario(assumptions.nominal_compute_cycles))
    finished = run_kernels(kernels, result.tiles, assumptions)
    return find_spans(kernels, finished)


def find_spans(kernels: Sequence[SimulatedKernel], finished: PipelineRun) -> dict[str, list[Span]]:
    """Per kernel, in order. Who waited for what is known from the moments at which pages were pushed and popped."""
    return {kernel.name: _find_spans(kernel, finished) for kernel in kernels}


def _find_spans(kernel: SimulatedKernel, finished: PipelineRun) -> list[Span]:
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
