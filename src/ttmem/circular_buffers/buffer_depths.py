# SPDX-License-Identifier: Apache-2.0
"""Which depths to choose: the smallest that come within 2 % of what unlimited depth reaches, and what they cost in L1.

L1 buys batches before it buys anything else: more tiles per barrier need deeper buffers and cut the reader's time per
tile several times over, while depth beyond two batches only absorbs varying times.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
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
class Curve:
    """Throughput over the depth of both buffers, for one batch size."""

    tiles_per_barrier: int
    depth_tiles: tuple[int, ...]
    tiles_per_kilocycle: tuple[tuple[float, float], ...]
    """At the largest variation, and with constant times."""

    @property
    def points(self) -> Iterator[tuple[int, tuple[float, float]]]:
        """Each depth and what it reaches."""
        return zip(self.depth_tiles, self.tiles_per_kilocycle, strict=True)


def throughput_over_depth(assumptions: Assumptions) -> tuple[Curve, ...]:
    """One tile in, one out, both buffers equally deep, for several batch sizes."""
    curves = []
    for batch in _CURVE_BATCHES:
        depths = tuple(depth for depth in _CURVE_DEPTHS if depth % batch == 0)
        curves.append(Curve(batch, depths, tuple(_rates(assumptions, batch, depth) for depth in depths)))
    return tuple(curves)


def _rates(assumptions: Assumptions, batch: int, depth: int) -> tuple[float, float]:
    rates = []
    for variation in (VARIATIONS[0], VARIATIONS[-1]):
        scenario = Scenario(assumptions.nominal_compute_cycles, variation, 1)
        span = run_stream(_STREAM_TILES, depth, batch, assumptions, scenario).makespan_cycles
        rates.append(1000 * _STREAM_TILES / span)
    return min(rates), max(rates)
