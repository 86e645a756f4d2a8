# SPDX-License-Identifier: Apache-2.0
"""Reader, compute and writer of the two pipelines that are predicted.

``pairs``: the published program; every A tile is combined with every B tile, partial results go round through cb2.
``stream``: one tile in, one tile out, through ``in`` and ``out``; the shape of an element-wise operation.
"""

from collections.abc import Callable, Mapping, Sequence

from ttmem.circular_buffers.assumptions import READ, WRITE, Assumptions, Scenario, transfer_times
from ttmem.circular_buffers.pipeline import Kernel, Run, Step, busy, pop, push, reserve, run, wait
from ttmem.circular_buffers.strategies import ROLES
from ttmem.circular_buffers.workload import Workload

READER, COMPUTE, WRITER = "reader", "compute", "writer"
MOST_PAIRS = 2048
"""Tiles beyond this repeat what the first ones do; a share of time does not need them."""


def simulated(workload: Workload, most_pairs: int = MOST_PAIRS) -> Workload:
    """The part of a workload that is simulated: whole rows, at least two where there are two."""
    r_tiles = min(workload.r_tiles, most_pairs // 2)
    rows = min(workload.tiles_per_shard, max(2, most_pairs // r_tiles))
    return Workload(rows, r_tiles)


def pairs(workload: Workload, assumptions: Assumptions, scenario: Scenario) -> tuple[Kernel, Kernel, Kernel]:
    """The kernels of the published program for one core."""
    return (
        Kernel(READER, _read_pairs(workload, assumptions, scenario)),
        Kernel(COMPUTE, _compute_pairs(workload, scenario)),
        Kernel(WRITER, _write(workload.tiles_per_shard, "cb16", 1, transfer_times(assumptions, WRITE, scenario))),
    )


def run_kernels(kernels: Sequence[Kernel], tiles: Mapping[str, int], assumptions: Assumptions) -> Run:
    """Kernels of the published program with these depths; buffers without a role take no part."""
    return run(kernels, {role: tiles[role] for role in ROLES}, sync_cycles=assumptions.sync_cycles)


def unlimited(workload: Workload) -> dict[str, int]:
    """Depths at which nobody ever waits for room."""
    most = workload.tiles_per_shard * workload.r_tiles
    return {"cb0": workload.tiles_per_shard, "cb1": most, "cb2": 2, "cb16": workload.tiles_per_shard}


def run_stream(tiles: int, depth: int, tiles_per_barrier: int, assumptions: Assumptions, scenario: Scenario) -> Run:
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
    kernels = (Kernel(READER, reader), Kernel(COMPUTE, block * blocks), Kernel(WRITER, writer))
    return run(kernels, {"in": depth, "out": depth}, sync_cycles=assumptions.sync_cycles)


def _read_pairs(workload: Workload, assumptions: Assumptions, scenario: Scenario) -> list[Step]:
    """Per row one A tile, then its B tiles, so many per barrier: reads of B are the bulk of the traffic."""
    times = transfer_times(assumptions, READ, scenario)
    steps: list[Step] = []
    for _ in range(workload.tiles_per_shard):
        steps += (reserve("cb0", 1), busy(times(1)), push("cb0", 1))
        for first in range(0, workload.r_tiles, assumptions.tiles_per_barrier):
            block = min(assumptions.tiles_per_barrier, workload.r_tiles - first)
            steps += (reserve("cb1", block), busy(times(block)), push("cb1", block))
    return steps


def _compute_pairs(workload: Workload, scenario: Scenario) -> list[Step]:
    """One row is always the same: hold an A tile, take B tiles, hand the partial result on through cb2."""
    row: list[Step] = [wait("cb0", 1)]
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


def _write(tiles: int, buffer: str, step: int, times: Callable[[int], float]) -> list[Step]:
    steps: list[Step] = []
    for _ in range(tiles // step):
        steps += (wait(buffer, step), busy(times(step)), pop(buffer, step))
    return steps
