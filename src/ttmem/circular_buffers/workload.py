# SPDX-License-Identifier: Apache-2.0
"""What is to be computed: every A tile of a shard with every B tile."""

from dataclasses import dataclass

from ttmem.base.errors import BadInputError

MULTI_TILE_COUNTS = (1, 2, 4, 8, 16, 17, 32)
"""Of the scaling table: powers of two, and 17, the first count that the adaptive rule calls streaming."""
MAX_TILES = 1_000_000

_CLASSES = ((8, "small"), (16, "medium"), (32, "large"))


@dataclass(frozen=True, slots=True)
class Workload:
    """Tile counts of one core's job: ``tiles_per_shard`` A tiles, each combined with ``r_tiles`` B tiles."""

    tiles_per_shard: int
    r_tiles: int

    def __post_init__(self) -> None:
        for name, tiles in (("tiles per shard", self.tiles_per_shard), ("R tiles", self.r_tiles)):
            if not 1 <= tiles <= MAX_TILES:
                raise BadInputError(f"{name} must be from 1 to {MAX_TILES:,}, not {tiles}")

    @property
    def class_name(self) -> str:
        """The guide's class, by the larger of the two counts."""
        tiles = max(self.tiles_per_shard, self.r_tiles)
        return next((name for most, name in _CLASSES if tiles <= most), "very large")

    def __str__(self) -> str:
        """``16 x 16``."""
        return f"{self.tiles_per_shard} x {self.r_tiles}"


def multi() -> tuple[Workload, ...]:
    """The workloads of the scaling table."""
    return tuple(Workload(tiles, tiles) for tiles in MULTI_TILE_COUNTS)
