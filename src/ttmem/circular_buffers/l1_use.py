# SPDX-License-Identifier: Apache-2.0
"""What an allocation takes of a core's real L1: the buffers above the base, the kernels' ring below it."""

from collections.abc import Mapping
from dataclasses import dataclass

from ttmem.circular_buffers.strategies import index_of
from ttmem.hardware import MemoryMap
from ttmem.twin.errors import DeviceFailureError
from ttmem.twin.programs import Program, StaticBuffer, check_regions, lay_out
from ttmem.twin.tensor_spec import CoreRange

CONFIG_BYTES_PER_INDEX = 16
"""Four words per buffer index in the kernel-config ring (tt-metal ``circular_buffer_constants.h``)."""


@dataclass(frozen=True, slots=True)
class L1Use:
    """All figures are of one core."""

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
        """Of the ring, as far as known."""
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
    layout = lay_out(Program(buffers), memory_map)
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
