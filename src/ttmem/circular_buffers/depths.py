# SPDX-License-Identifier: Apache-2.0
"""Which depths to choose: the smallest that come within 2 % of what unlimited depth reaches, and what they cost in L1.

L1 buys batches before it buys anything else: more tiles per barrier need deeper buffers and cut the reader's time per
tile several times over, while depth beyond two batches only absorbs varying times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ttmem.circular_buffers.assumptions import VARIATIONS, Assumptions, Scenario
from ttmem.circular_buffers.kernels import pairs, run_kernels, run_stream, simulated, unlimited
from ttmem.circular_buffers.pressure import SELF_LOOP_TILES
from ttmem.circular_buffers.strategies import ROLES
from ttmem.circular_buffers.workload import Workload

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
    part = simulated(workload, _MOST_PAIRS)
    scenarios = [Scenario(assumptions.nominal_compute_cycles, variation, 1) for variation in VARIATIONS]
    programs = [pairs(part, assumptions, one) for one in scenarios]

    def spans(tiles: Mapping[str, int]) -> list[float]:
        return [run_kernels(kernels, tiles, assumptions).makespan_cycles for kernels in programs]

    bounds = spans(unlimited(part))

    def loss_percent(tiles: Mapping[str, int]) -> float:
        return max(100 * (span - bound) / bound for span, bound in zip(spans(tiles), bounds, strict=True))

    batch = assumptions.tiles_per_barrier
    depths = {"cb0": STEPS[-1], "cb1": STEPS[-1] * batch, "cb2": SELF_LOOP_TILES, "cb16": STEPS[-1]}
    reached = loss_percent(depths) <= TOLERANCE_PERCENT
    if reached:
        for role, unit in (("cb1", batch), ("cb0", 1), ("cb16", 1)):
            depths[role] = _smallest(depths, role, unit, loss_percent)
    cycles = [span / (part.tiles_per_shard * part.r_tiles) for span in spans(depths)]
    return Recommendation(
        tiles_per_barrier=batch,
        tiles={role: depths[role] for role in ROLES},
        total_bytes=sum(depths.values()) * assumptions.tile_bytes,
        cycles_per_pair=(min(cycles), max(cycles)),
        loss_percent=max(0.0, loss_percent(depths)),
        reaches_bound=reached,
    )


def _smallest(
    depths: Mapping[str, int], role: str, unit: int, loss_percent: Callable[[Mapping[str, int]], float]
) -> int:
    """By halving: more depth never costs time, so what is enough stays enough."""
    low, high = 0, len(STEPS) - 1
    while low < high:
        middle = (low + high) // 2
        if loss_percent({**depths, role: STEPS[middle] * unit}) <= TOLERANCE_PERCENT:
            high = middle
        else:
            low = middle + 1
    return STEPS[high] * unit


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Throughput of the streaming pipeline at one depth."""

    depth_tiles: int
    tiles_per_kilocycle: tuple[float, float]
    """At the largest variation, and with constant times."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Throughput over depth for one batch size."""

    tiles_per_barrier: int
    points: tuple[CurvePoint, ...]


def throughput_over_depth(assumptions: Assumptions) -> tuple[Curve, ...]:
    """One tile in, one out, both buffers equally deep, for several batch sizes."""
    return tuple(
        Curve(batch, tuple(_point(assumptions, batch, depth) for depth in _CURVE_DEPTHS if depth % batch == 0))
        for batch in _CURVE_BATCHES
    )


def _point(assumptions: Assumptions, batch: int, depth: int) -> CurvePoint:
    rates = []
    for variation in (VARIATIONS[0], VARIATIONS[-1]):
        scenario = Scenario(assumptions.nominal_compute_cycles, variation, 1)
        span = run_stream(_STREAM_TILES, depth, batch, assumptions, scenario).makespan_cycles
        rates.append(1000 * _STREAM_TILES / span)
    return CurvePoint(depth, (min(rates), max(rates)))
