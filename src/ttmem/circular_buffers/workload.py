# SPDX-License-Identifier: Apache-2.0
"""The workload of a simulation and its assumptions, in values that an answer can state."""

import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from ttmem.base import toml
from ttmem.base.errors import BadInputError
from ttmem.circular_buffers.pipeline import DEFAULT_SYNC_CYCLES
from ttmem.hardware import BOARDS, DATA_TYPES, Architecture, DataType, MemoryMap, open_board

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


READ, WRITE = "read", "write"
_TABLE = toml.load_packaged("ttmem.circular_buffers", "noc_latencies.toml")
TRANSFER_BYTES: Sequence[int] = _TABLE["transfer_bytes"]
TRANSFERS: Sequence[int] = _TABLE["transfers"]
"""The points at which latencies were measured."""

VARIATIONS = (0.0, 0.3, 0.6)
"""Coefficients of variation of transfer times. Nothing is published on real ones, so a range is reported."""
SEEDS = (1, 2, 3)

_UNPACK_BYTES_PER_CYCLE = 80
_PACK_BYTES_PER_CYCLE = 64
_COMPUTE_SPREAD = 4


@dataclass(frozen=True, slots=True)
class Scenario:
    """A point of the range: compute time per tile and the variation of transfer times."""

    compute_cycles: float
    variation: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The hardware of the pipeline and the assumptions about it."""

    memory_map: MemoryMap
    data_type: DataType
    compute_cycles: tuple[float, float]
    """Lowest and highest assumed cycles to combine two tiles."""
    tiles_per_barrier: int = 1
    cores: int = 1
    """Cores that transfer at the same time."""
    sync_cycles: float = DEFAULT_SYNC_CYCLES

    @property
    def architecture(self) -> Architecture:
        """The architecture whose latencies are used."""
        return self.memory_map.architecture

    @property
    def tile_bytes(self) -> int:
        """Bytes of a 32x32 tile."""
        return self.data_type.tile_bytes()

    @property
    def nominal_compute_cycles(self) -> float:
        """The middle of the range, by ratio."""
        low, high = self.compute_cycles
        return float((low * high) ** 0.5)

    def transfer_cycles(self, direction: str, tiles: int) -> float:
        """Mean time of one barrier's worth of transfers."""
        crowd = {"cores": self.cores, "grid_cores": self.memory_map.grid.cores}
        return transfer_cycles(self.architecture, direction, self.tile_bytes, tiles, **crowd)

    def scenarios(self) -> Iterator[Scenario]:
        """Return all corners of the unknown range."""
        for compute_cycles in dict.fromkeys(self.compute_cycles):
            for variation in VARIATIONS:
                for seed in SEEDS if variation else (0,):
                    yield Scenario(compute_cycles, variation, seed)


def transfer_times(assumptions: Assumptions, direction: str, scenario: Scenario) -> Callable[[int], float]:
    """Return times of successive transfers of ``tiles`` tiles by one kernel: constant, or gamma-distributed.

    Drawn in the order of the tiles, whatever the depths are, so two depths are compared on the same luck.
    """
    mean = cache(lambda tiles: assumptions.transfer_cycles(direction, tiles))
    if not scenario.variation:
        return mean
    luck, shape = random.Random(f"{direction}{scenario.seed}"), 1 / scenario.variation**2
    return lambda tiles: luck.gammavariate(shape, mean(tiles) / shape)


def default_compute_cycles(data_type: DataType) -> tuple[float, float]:
    """From what unpacking two tiles and packing one takes at least, to four times that: an assumption."""
    tile_bytes = data_type.tile_bytes()
    least = float(max(-(-2 * tile_bytes // _UNPACK_BYTES_PER_CYCLE), -(-tile_bytes // _PACK_BYTES_PER_CYCLE)))
    return least, _COMPUTE_SPREAD * least


def assume(
    board: str = "n150",
    *,
    data_type: str = "float32",
    compute_cycles: tuple[float, float] | None = None,
    tiles_per_barrier: int = 1,
    cores: int = 1,
    sync_cycles: float = DEFAULT_SYNC_CYCLES,
) -> Assumptions:
    """A board and the assumptions; what the table of latencies cannot answer is refused here."""
    memory_map = open_board(BOARDS.find(board))
    if memory_map.architecture.name not in _TABLE["cycles"]:
        raise BadInputError(
            f"no NoC latencies are published for {memory_map.architecture}, the chip of {memory_map.board_name}",
            hint="choose a Wormhole or Blackhole board",
        )
    found = DATA_TYPES.find(data_type)
    low, high = compute_cycles or default_compute_cycles(found)
    if not 0 < low <= high:
        raise BadInputError(f"compute cycles from {low:g} to {high:g} are no range", hint="for example 100:400")
    grid_cores = memory_map.grid.cores
    if not 1 <= cores <= grid_cores:
        raise BadInputError(f"{cores} cores; {memory_map.board_name} has from 1 to {grid_cores}")
    if tiles_per_barrier < 1:
        raise BadInputError(f"{tiles_per_barrier} tiles per barrier; at least 1 is needed")
    if sync_cycles < 0:
        raise BadInputError(f"sync cost of {sync_cycles:g} cycles; it cannot be negative")
    built = Assumptions(memory_map, found, (low, high), tiles_per_barrier, cores, sync_cycles)
    built.transfer_cycles(READ, 1)  # refuses tile sizes that were not measured
    return built


def transfer_cycles(
    architecture: Architecture,
    direction: str,
    tile_bytes: int,
    tiles: int,
    *,
    cores: int = 1,
    grid_cores: int = 64,
) -> float:
    """Cycles for ``tiles`` transfers of one tile each and the barrier after them, interleaved DRAM.

    Measured at the table's points, linear between them and beyond the last number of transfers (where bandwidth
    decides and the table is straight). Between one core and all cores nothing was measured: a straight line, which is
    an estimate. Larger transfers than the table has are refused, because its last columns repeat themselves.
    """
    if not TRANSFER_BYTES[0] <= tile_bytes <= TRANSFER_BYTES[-1]:
        raise BadInputError(
            f"no latency was measured for transfers of {tile_bytes} B",
            hint=f"the published table covers {TRANSFER_BYTES[0]} to {TRANSFER_BYTES[-1]} B",
        )
    alone = _latency(architecture, direction, "one", tile_bytes, tiles)
    if cores <= 1 or grid_cores <= 1:
        return alone
    crowded = _latency(architecture, direction, "all", tile_bytes, tiles)
    return alone + (crowded - alone) * (min(cores, grid_cores) - 1) / (grid_cores - 1)


def _latency(architecture: Architecture, direction: str, who: str, tile_bytes: int, tiles: int) -> float:
    rows = _TABLE["cycles"][architecture.name][direction][who]
    return _line(TRANSFERS, [_line(TRANSFER_BYTES, row, tile_bytes) for row in rows], tiles)


def _line(places: Sequence[int], values: Sequence[float], at: float) -> float:
    right = min(max(bisect_right(places, at), 1), len(places) - 1)
    left = right - 1
    share = (at - places[left]) / (places[right] - places[left])
    return values[left] + (values[right] - values[left]) * share
