# SPDX-License-Identifier: Apache-2.0
"""The guide's own measures, kept so that its readers find their numbers again.

They are a heuristic: a circular buffer is a queue that blocks, not a cache, so a "miss" costs nothing by itself. What
a shallow buffer really costs is the predicted stall (``stall``). The guide gives the formula of the miss rate and
the bands; it gives none for utilisation, which is therefore ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ttmem.circular_buffers.strategies import ROLES
from ttmem.circular_buffers.workload import Workload

LOW, MEDIUM, HIGH = "LOW", "MEDIUM", "HIGH"

SELF_LOOP_TILES = 2
"""The compute kernel holds one partial result while it makes room for the next, so cb2 uses two tiles."""


@dataclass(frozen=True, slots=True)
class Heuristic:
    """What the guide would say of an allocation."""

    miss_rate_percent: float
    """B tiles that cb1 cannot hold at once, of all: a shortfall of residency, not a slowdown."""
    risk: str
    """The guide's "thrashing risk", by the bands of the miss rate."""
    utilisation_percent: float
    """Tiles that this workload can ever fill, of those allocated."""
    utilisation_band: str


def heuristic(tiles: Mapping[str, int], workload: Workload) -> Heuristic:
    """The guide's measures of an allocation."""
    miss_rate_percent = 100 * max(0, workload.r_tiles - tiles["cb1"]) / workload.r_tiles
    useful = {
        "cb0": workload.tiles_per_shard,
        "cb1": workload.r_tiles,
        "cb2": SELF_LOOP_TILES,
        "cb16": workload.tiles_per_shard,
    }
    filled = sum(min(tiles[role], useful[role]) for role in ROLES)
    utilisation_percent = 100 * filled / sum(tiles[role] for role in ROLES)
    return Heuristic(
        miss_rate_percent,
        miss_band(miss_rate_percent),
        utilisation_percent,
        utilisation_band(utilisation_percent),
    )


def miss_band(percent: float) -> str:
    """Below 25 % low, above 75 % high; 75 % itself is medium."""
    return LOW if percent < 25 else HIGH if percent > 75 else MEDIUM


def score_band(score: float) -> str:
    """Below 30 low, above 70 high."""
    return LOW if score < 30 else HIGH if score > 70 else MEDIUM


def utilisation_band(percent: float) -> str:
    """The pressure that the guide reads from utilisation: above 80 % low, below 40 % high."""
    return LOW if percent > 80 else HIGH if percent < 40 else MEDIUM
