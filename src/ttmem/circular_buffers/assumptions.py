# SPDX-License-Identifier: Apache-2.0
"""The assumptions under a prediction, all in one value, so that an answer can state them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from ttmem._errors import BadInputError
from ttmem.circular_buffers.noc import READ, is_measured, transfer_cycles
from ttmem.circular_buffers.pipeline import DEFAULT_SYNC_CYCLES
from ttmem.hardware import BOARDS, DATA_TYPES, Architecture, DataType, MemoryMap, open_board

VARIATIONS = (0.0, 0.3, 0.6)
"""Coefficients of variation of transfer times. Nothing is published on real ones, so a range is reported."""
SEEDS = (1, 2, 3)

_UNPACK_BYTES_PER_CYCLE = 80
_PACK_BYTES_PER_CYCLE = 64
_COMPUTE_SPREAD = 4


@dataclass(frozen=True, slots=True)
class Scenario:
    """One point of the range: how long a tile computes and how much transfer times vary."""

    compute_cycles: float
    variation: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Where the pipeline runs and what is assumed about it."""

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
        """Whose latencies count."""
        return self.memory_map.architecture

    @property
    def tile_bytes(self) -> int:
        """Of one 32x32 tile."""
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
        """All corners of what is not known."""
        for compute_cycles in dict.fromkeys(self.compute_cycles):
            for variation in VARIATIONS:
                for seed in SEEDS if variation else (0,):
                    yield Scenario(compute_cycles, variation, seed)


def transfer_times(assumptions: Assumptions, direction: str, scenario: Scenario) -> Callable[[int], float]:
    """Times of successive transfers of so many tiles each by one kernel: constant, or gamma-distributed.

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
    if not is_measured(memory_map.architecture):
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
    built.transfer_cycles(READ, 1)  # refuses tile sizes that nobody measured
    return built
