# SPDX-License-Identifier: Apache-2.0
"""Reader, compute and writer of the two pipelines that are predicted.

``pairs``: the published program; every A tile is combined with every B tile, partial results go round through cb2.
``stream``: one tile in, one tile out, through ``in`` and ``out``; the shape of an element-wise operation.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ttmem.circular_buffers.l1_use import SELF_LOOP_TILES
from ttmem.circular_buffers.pipeline import (
    KernelStep,
    PipelineRun,
    SimulatedKernel,
    busy,
    pop,
    push,
    reserve,
    run,
    wait,
)
from ttmem.circular_buffers.strategies import ROLES
from ttmem.circular_buffers.workload import READ, VARIATIONS, WRITE, Assumptions, Scenario, Workload, transfer_times

READER, COMPUTE, WRITER = "reader", "compute", "writer"
MOST_PAIRS = 2048
"""Tiles beyond this repeat what the first ones do; a share of time does not need them."""


def limit_workload(workload: Workload, most_pairs: int = MOST_PAIRS) -> Workload:
    """The part of a workload that is simulated: whole rows, at least two where there are two."""
    r_tiles = min(workload.r_tiles, most_pairs // 2)
    rows = min(workload.tiles_per_shard, max(2, most_pairs // r_tiles))
    return Workload(rows, r_tiles)


def pairs(
    workload: Workload, assumptions: Assumptions, scenario: Scenario
) -> tuple[SimulatedKernel, SimulatedKernel, SimulatedKernel]:
    """The kernels of the published program for one core."""
    return (
        SimulatedKernel(READER, _read_pairs(workload, assumptions, scenario)),
        SimulatedKernel(COMPUTE, _compute_pairs(workload, scenario)),
        SimulatedKernel(
            WRITER, _write(workload.tiles_per_shard, "cb16", 1, transfer_times(assumptions, WRITE, scenario))
        ),
    )


def run_kernels(kernels: Sequence[SimulatedKernel], tiles: Mapping[str, int], assumptions: Assumptions) -> PipelineRun:
    """Kernels of the published program with these depths; buffers without a role take no part."""
    return run(kernels, {role: tiles[role] for role in ROLES}, sync_cycles=assumptions.sync_cycles)


def unlimited_depths(workload: Workload) -> dict[str, int]:
    """Depths at which no kernel waits for room."""
    most = workload.tiles_per_shard * workload.r_tiles
    return {"cb0": workload.tiles_per_shard, "cb1": most, "cb2": 2, "cb16": workload.tiles_per_shard}


def run_stream(
    tiles: int, depth: int, tiles_per_barrier: int, assumptions: Assumptions, scenario: Scenario
) -> PipelineRun:
    """``tiles`` tiles (a multiple of the tiles per barrier) through two buffers of this depth."""
    blocks, step = tiles // tiles_per_barrier, tiles_per_barrier
    reads = transfer_times(assumptions, READ, scenario)
    reader = [taken for _ in range(blocks) for taken in (reserve("in", step), busy(reads(step)), push("in", step))]
    block = (
        wait("in", step),
        reserve("out", step),
        busy(scenario.compute_cycles * step),
        pop("in", step),
        push("out", step),
    )
    writer = _write(tiles, "out", step, transfer_times(assumptions, WRITE, scenario))
    kernels = (
        SimulatedKernel(READER, reader),
        SimulatedKernel(COMPUTE, block * blocks),
        SimulatedKernel(WRITER, writer),
    )
    return run(kernels, {"in": depth, "out": depth}, sync_cycles=assumptions.sync_cycles)


def _read_pairs(workload: Workload, assumptions: Assumptions, scenario: Scenario) -> list[KernelStep]:
    """Per row one A tile, then its B tiles in batches with a barrier each: most traffic is reads of B."""
    times = transfer_times(assumptions, READ, scenario)
    steps: list[KernelStep] = []
    for _ in range(workload.tiles_per_shard):
        steps += (reserve("cb0", 1), busy(times(1)), push("cb0", 1))
        for first in range(0, workload.r_tiles, assumptions.tiles_per_barrier):
            block = min(assumptions.tiles_per_barrier, workload.r_tiles - first)
            steps += (reserve("cb1", block), busy(times(block)), push("cb1", block))
    return steps


def _compute_pairs(workload: Workload, scenario: Scenario) -> list[KernelStep]:
    """Each row repeats: hold an A tile, take B tiles, pass the partial result on through cb2."""
    row: list[KernelStep] = [wait("cb0", 1)]
    last = workload.r_tiles - 1
    for number in range(workload.r_tiles):
        target = "cb16" if number == last else "cb2"
        row.append(wait("cb1", 1))
        if number:
            row.append(wait("cb2", 1))
        row += (reserve(target, 1), busy(scenario.compute_cycles), pop("cb1", 1), push(target, 1))
        if number:
            row.append(pop("cb2", 1))
    row.append(pop("cb0", 1))
    return row * workload.tiles_per_shard


def _write(tiles: int, buffer: str, step: int, times: Callable[[int], float]) -> list[KernelStep]:
    steps: list[KernelStep] = []
    for _ in range(tiles // step):
        steps += (wait(buffer, step), busy(times(step)), pop(buffer, step))
    return steps


TOLERANCE_PERCENT = 2.0
BATCHES = (1, 2, 4, 8, 16)
STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Depths that are tried, in batches."""

_MOST_PAIRS = 512
_STREAM_TILES = 512
_CURVE_BATCHES = (1, 2, 4, 8)
_CURVE_DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Depths for one batch size; none of them can be made smaller without losing more than the tolerance."""

    tiles_per_barrier: int
    tiles: Mapping[str, int]
    total_bytes: int
    cycles_per_pair: tuple[float, float]
    """With these depths, over the variations of transfer times."""
    loss_percent: float
    """Against unlimited depth, at the worst variation."""
    reaches_bound: bool
    """False: even the deepest buffers tried stay more than the tolerance away."""


def recommend(workload: Workload, assumptions: Assumptions) -> tuple[Recommendation, ...]:
    """The best depths for every batch that divides the B tiles (others would wrap in the middle: rule R2)."""
    batches = [batch for batch in BATCHES if batch <= workload.r_tiles and workload.r_tiles % batch == 0]
    return tuple(_recommend(workload, replace(assumptions, tiles_per_barrier=batch)) for batch in batches)


def best(choices: Sequence[Recommendation]) -> Recommendation:
    """The smallest of those that come within the tolerance of the fastest."""
    fastest = min(choice.cycles_per_pair[1] for choice in choices)
    near = [choice for choice in choices if choice.cycles_per_pair[1] <= fastest * (1 + TOLERANCE_PERCENT / 100)]
    return min(near, key=lambda choice: (choice.total_bytes, choice.tiles_per_barrier))


def _recommend(workload: Workload, assumptions: Assumptions) -> Recommendation:
    part = limit_workload(workload, _MOST_PAIRS)
    scenarios = [Scenario(assumptions.nominal_compute_cycles, variation, 1) for variation in VARIATIONS]
    programs = [pairs(part, assumptions, one) for one in scenarios]

    def spans(tiles: Mapping[str, int]) -> list[float]:
        return [run_kernels(kernels, tiles, assumptions).makespan_cycles for kernels in programs]

    bounds = spans(unlimited_depths(part))

    def loss_percent(tiles: Mapping[str, int]) -> float:
        return max(100 * (span - bound) / bound for span, bound in zip(spans(tiles), bounds, strict=True))

    batch = assumptions.tiles_per_barrier
    depths = {"cb0": STEPS[-1], "cb1": STEPS[-1] * batch, "cb2": SELF_LOOP_TILES, "cb16": STEPS[-1]}
    reached = loss_percent(depths) <= TOLERANCE_PERCENT
    if reached:
        for role, unit in (("cb1", batch), ("cb0", 1), ("cb16", 1)):
            # By halving: more depth never costs time, so what is enough stays enough.
            tried = [{**depths, role: step * unit} for step in STEPS[:-1]]
            enough = bisect_left(tried, True, key=lambda tiles: loss_percent(tiles) <= TOLERANCE_PERCENT)
            depths[role] = STEPS[enough] * unit
    cycles = [span / (part.tiles_per_shard * part.r_tiles) for span in spans(depths)]
    return Recommendation(
        tiles_per_barrier=batch,
        tiles={role: depths[role] for role in ROLES},
        total_bytes=sum(depths.values()) * assumptions.tile_bytes,
        cycles_per_pair=(min(cycles), max(cycles)),
        loss_percent=max(0.0, loss_percent(depths)),
        reaches_bound=reached,
    )


@dataclass(frozen=True, slots=True)
class ThroughputCurve:
    """Throughput over the depth of both buffers, for one batch size."""

    tiles_per_barrier: int
    depth_tiles: tuple[int, ...]
    tiles_per_kilocycle: tuple[tuple[float, float], ...]
    """At the largest variation, and with constant times."""

    @property
    def points(self) -> Iterator[tuple[int, tuple[float, float]]]:
        """Each depth and what it reaches."""
        return zip(self.depth_tiles, self.tiles_per_kilocycle, strict=True)


def throughput_over_depth(assumptions: Assumptions) -> tuple[ThroughputCurve, ...]:
    """Simulate one tile in and one out with equally deep buffers, for several batch sizes."""
    curves = []
    for batch in _CURVE_BATCHES:
        depths = tuple(depth for depth in _CURVE_DEPTHS if depth % batch == 0)
        curves.append(ThroughputCurve(batch, depths, tuple(_rates(assumptions, batch, depth) for depth in depths)))
    return tuple(curves)


def _rates(assumptions: Assumptions, batch: int, depth: int) -> tuple[float, float]:
    rates = []
    for variation in (VARIATIONS[0], VARIATIONS[-1]):
        scenario = Scenario(assumptions.nominal_compute_cycles, variation, 1)
        span = run_stream(_STREAM_TILES, depth, batch, assumptions, scenario).makespan_cycles
        rates.append(1000 * _STREAM_TILES / span)
    return min(rates), max(rates)
