# SPDX-License-Identifier: Apache-2.0
"""Static buffers of a program in L1: circular buffers, dataflow buffers and scratchpads.

They grow from the L1 base upwards, per core and without a free list, and must end below the lowest tensor. Circular and
dataflow buffers follow the same rules under two names; all buffers of a program are of one family.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ttmem.base.arithmetic import round_up
from ttmem.hardware import MemoryMap
from ttmem.twin.errors import BufferClashError, BufferOverflowError
from ttmem.twin.tensor_spec import CoreRange, InvalidSpecError

MAX_PAGES_PER_BUFFER = 65535
CIRCULAR, DATAFLOW = "circular", "dataflow"
L1_SMALL_OVERRUN = (
    "static buffers run over the L1_SMALL region: the library does not check this, and what is there is lost"
)


@dataclass(frozen=True, slots=True)
class StaticBuffer:
    """A buffer of a program on some core ranges."""

    total_bytes: int
    ranges: tuple[CoreRange, ...]
    page_bytes: int | None = None
    indices: tuple[int, ...] = ()
    borrowed: bool = False
    """Backed by a tensor (globally allocated): takes no static space."""


@dataclass(frozen=True, slots=True)
class DeviceProgram:
    """Static buffers in the order in which the program creates them."""

    buffers: tuple[StaticBuffer, ...]
    family: str = CIRCULAR


@dataclass(frozen=True, slots=True)
class Region:
    """The end of a program's static buffers on one core range."""

    core_range: CoreRange | None
    """None: which cores is not known."""
    end_address: int


@dataclass(frozen=True, slots=True)
class ProgramLayout:
    """Addresses of a program's buffers (None for borrowed ones) and the regions they fill, in order of creation."""

    addresses: tuple[int | None, ...]
    regions: tuple[Region, ...]
    warnings: tuple[str, ...] = ()

    @property
    def end_address(self) -> int:
        return max((region.end_address for region in self.regions), default=0)


def lay_out(program: DeviceProgram, memory_map: MemoryMap) -> ProgramLayout:
    """Compute the addresses of a program's static buffers, which do not depend on the tensors.

    Starts are rounded up to the DRAM alignment, sizes are not. A buffer is placed above the core ranges that equal its
    own, but raises the end of every range that it touches.
    """
    _check(program, memory_map)
    ends: dict[CoreRange, int] = {}
    for buffer in program.buffers:
        for core_range in buffer.ranges:
            ends.setdefault(core_range, 0)
    addresses: list[int | None] = []
    for buffer in program.buffers:
        if buffer.borrowed:
            addresses.append(None)
            continue
        address = _align_start(max(ends[core_range] for core_range in buffer.ranges), memory_map)
        addresses.append(address)
        for own in buffer.ranges:
            for other, end in ends.items():
                if other == own or (other.intersects(own) and address >= end):
                    ends[other] = address + buffer.total_bytes
    regions = tuple(Region(r, end) for r, end in ends.items() if end)
    warnings = (L1_SMALL_OVERRUN,) if _overlaps_l1_small(regions, memory_map) else ()
    return ProgramLayout(tuple(addresses), regions, warnings)


def compute_stack_end(buffer_bytes: Sequence[int], memory_map: MemoryMap) -> int:
    """Return the end of buffers that share their cores: the whole layout if the cores do not matter."""
    end = memory_map.l1_base_address
    for size in buffer_bytes:
        end = _align_start(end, memory_map) + size
    return end


def _align_start(end: int, memory_map: MemoryMap) -> int:
    return round_up(max(end, memory_map.l1_base_address), memory_map.quantum_bytes)


def check_regions(
    regions: Sequence[Region], family: str, memory_map: MemoryMap, lowest_tensor_address: int | None
) -> None:
    """Raise the library's error for the first core range that is too large or overlaps a tensor.

    All banks are allocated in lock step, so a tensor on one core limits the programs of every core.
    """
    l1_bytes = memory_map.architecture.l1_bytes_per_core
    for region in regions:
        end = region.end_address
        if end > l1_bytes:
            raise BufferOverflowError(
                family=family, core_range=region.core_range, region_end_address=end, l1_bytes_per_core=l1_bytes
            )
        if lowest_tensor_address is not None and lowest_tensor_address < end:
            raise BufferClashError(
                family=family,
                core_range=region.core_range,
                region_end_address=end,
                lowest_address=lowest_tensor_address,
            )


def _overlaps_l1_small(regions: Sequence[Region], memory_map: MemoryMap) -> bool:
    small = memory_map.l1_small
    return bool(small.bytes_per_bank) and any(region.end_address > small.base_address for region in regions)


def _check(program: DeviceProgram, memory_map: MemoryMap) -> None:
    limit = memory_map.architecture.max_circular_buffers_per_core
    grid = memory_map.grid
    seen: list[tuple[int, CoreRange]] = []
    for buffer in program.buffers:
        _check_sizes(buffer, limit)
        for core_range in buffer.ranges:
            for index in buffer.indices:
                if any(other == index and used.intersects(core_range) for other, used in seen):
                    raise InvalidSpecError(
                        f"Invalid circular buffer index: Cannot add circular buffer at index {index}, "
                        "another circular buffer already exists"
                    )
                seen.append((index, core_range))
    for buffer in program.buffers:
        for core_range in buffer.ranges:
            if core_range.end_x >= grid.columns or core_range.end_y >= grid.rows:
                raise InvalidSpecError(
                    f"Circular buffer core range {core_range} exceeds device compute grid ({grid}) and is not "
                    "entirely on cores claimed via ServiceCoreManager"
                )


def _check_sizes(buffer: StaticBuffer, limit: int | None) -> None:
    for index in buffer.indices:
        if limit is not None and index >= limit:
            raise InvalidSpecError(f"Buffer index ({index}) exceeds max number of circular buffers per core ({limit})")
    if buffer.page_bytes is None:
        return
    if buffer.page_bytes < 1 or buffer.total_bytes % buffer.page_bytes:
        raise InvalidSpecError(
            f"Total circular buffer size {buffer.total_bytes} B must be divisible by page size {buffer.page_bytes} B"
        )
    pages = buffer.total_bytes // buffer.page_bytes
    if pages > MAX_PAGES_PER_BUFFER:
        raise InvalidSpecError(
            f"For buffer index {buffer.indices[0] if buffer.indices else 0}, number of CB pages {pages} is "
            f"greater than {MAX_PAGES_PER_BUFFER}. Would cause wraparound in the CB calculations."
        )
