# SPDX-License-Identifier: Apache-2.0
"""L1 use of an allocation on a core, and the guide's verdict on it."""

from collections.abc import Mapping
from dataclasses import dataclass

from ttmem.circular_buffers.strategies import ROLES, index_of
from ttmem.circular_buffers.workload import Workload
from ttmem.hardware import MemoryMap
from ttmem.twin.errors import DeviceFailureError
from ttmem.twin.programs import DeviceProgram, StaticBuffer, check_regions, lay_out
from ttmem.twin.tensor_spec import CoreRange

CONFIG_BYTES_PER_INDEX = 16
"""Four words per buffer index in the kernel-config ring (tt-metal ``circular_buffer_constants.h``)."""


@dataclass(frozen=True, slots=True)
class L1Use:
    """L1 use of one core."""

    buffer_bytes: int
    region_end_address: int
    base_address: int
    free_bytes_before: int
    """Between the base and the L1_SMALL region (or the end of L1) on an empty device."""
    used_percent: float
    kernel_config_bytes: int
    """Size of the ring that holds binaries, arguments, semaphores and buffer configs, below the base."""
    buffer_config_bytes: int
    """Of these buffers, in the ring: up to the highest index, gaps included."""
    kernel_bytes: int | None
    """Binaries, when they are known: source code does not tell them."""
    gap_indices: tuple[int, ...]
    """Unused indices below the highest one: the library warns that they slow dispatch down."""
    failure: str | None
    """The library's words when the buffers do not fit on an empty device."""

    @property
    def kernel_config_percent(self) -> float:
        """Bytes of the ring, where known."""
        return 100 * (self.buffer_config_bytes + (self.kernel_bytes or 0)) / self.kernel_config_bytes

    @property
    def kernels_fit(self) -> bool | None:
        """None: the binaries' size is not known."""
        if self.kernel_bytes is None:
            return None
        return self.buffer_config_bytes + self.kernel_bytes <= self.kernel_config_bytes


def l1_use(tiles: Mapping[str, int], tile_bytes: int, memory_map: MemoryMap, kernel_bytes: int | None = None) -> L1Use:
    """Place the buffers on every core of an empty device, as the library would."""
    grid = memory_map.grid
    everywhere = (CoreRange(0, 0, grid.columns - 1, grid.rows - 1),)
    indices = [index_of(name) for name in tiles]
    buffers = tuple(
        StaticBuffer(count * tile_bytes, everywhere, page_bytes=tile_bytes, indices=(index,))
        for count, index in zip(tiles.values(), indices, strict=True)
    )
    layout = lay_out(DeviceProgram(buffers), memory_map)
    failure = None
    try:
        check_regions(layout.regions, "circular", memory_map, None)
    except DeviceFailureError as error:
        failure = str(error)
    base = memory_map.l1_base_address
    free = memory_map.l1.end_address - base
    return L1Use(
        buffer_bytes=sum(buffer.total_bytes for buffer in buffers),
        region_end_address=layout.end_address,
        base_address=base,
        free_bytes_before=free,
        used_percent=100 * (layout.end_address - base) / free,
        kernel_config_bytes=memory_map.release.find_reserved(memory_map.architecture).kernel_config_bytes,
        buffer_config_bytes=(max(indices) + 1) * CONFIG_BYTES_PER_INDEX,
        kernel_bytes=kernel_bytes,
        gap_indices=tuple(sorted(set(range(max(indices))) - set(indices))),
        failure=failure,
    )


LOW, MEDIUM, HIGH = "LOW", "MEDIUM", "HIGH"

SELF_LOOP_TILES = 2
"""The compute kernel holds one partial result while it makes room for the next, so cb2 uses two tiles."""


@dataclass(frozen=True, slots=True)
class Heuristic:
    """The guide's verdict on an allocation."""

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
