# SPDX-License-Identifier: Apache-2.0
"""A spec on an opened board: bytes per bank, what the pool loses, and whether an empty board could hold it."""

from dataclasses import dataclass
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import DEFAULT_RELEASE, DRAM, L1_SMALL, TRACE, MemoryMap
from ttmem.twin.bank_sizes import interleaved_bytes_per_bank, sharded_bytes_per_bank, taken_bytes_per_bank
from ttmem.twin.paging import Paging, paging_of
from ttmem.twin.tensor_spec import CoreRange, InvalidSpecError, NdShard, Shard, TensorSpec

WRAPPED_PAGES = (
    "so many pages that the library's 32-bit counters wrap: it may take a few bytes and go on as if it fitted"
)
ZERO_WIDTH_ND = f"an ND-sharded tensor whose last dimension is 0 kills the process (SIGFPE) in {DEFAULT_RELEASE}"
_GRID_ADVICE = (
    "Derive the shard grid from the device (dram_grid_size() for DRAM, compute_with_storage_grid_size() for L1) rather "
    "than assuming a fixed size -- a harvested device exposes fewer banks than an unharvested one of the same type. An "
    "L1 shard core outside the compute grid is legal only while it is claimed via ServiceCoreManager."
)


@dataclass(frozen=True, slots=True)
class Placement:
    """What a spec costs on one chip of one board."""

    spec: TensorSpec
    paging: Paging
    aligned_page_bytes: int
    banks: int
    """Banks that share the pages: all of the pool, or the cores that hold shards."""
    bytes_per_bank: int
    """What each bank needs to store, as error messages print it; 0 for a tensor without elements."""
    taken_bytes_per_bank: int
    """What every bank of the pool loses: the above in whole quanta."""
    total_bytes: int
    """As error messages print it: all pages with their alignment, over `banks` banks."""
    fits_empty: bool
    """Whether an empty pool could take it."""
    warnings: tuple[str, ...] = ()

    @property
    def padded_bytes(self) -> int:
        return self.paging.padded_bytes

    @property
    def padding_ratio(self) -> float:
        """Padded over logical bytes: 1.0 is no padding; 0.0 for a tensor without elements."""
        logical = self.spec.logical_bytes
        return self.paging.padded_bytes / logical if logical else 0.0


def place(spec: TensorSpec, memory_map: MemoryMap) -> Placement:
    """Bytes per bank of a spec, or InvalidSpecError with the library's reason."""
    paging = paging_of(spec)
    pool = memory_map.pool(spec.memory)
    if memory_map.architecture.name in spec.dtype.not_on:
        raise InvalidSpecError(
            f"{spec.dtype.name.upper()} is not supported on arch {memory_map.architecture.ttnn_name}"
        )
    warnings: tuple[str, ...] = ()
    alignment = memory_map.page_alignment_bytes(spec.memory)
    aligned_page_bytes = round_up(paging.page_bytes, alignment)
    if spec.shard is None:
        banks = pool.banks
        if paging.pages and spec.memory is L1_SMALL:
            raise InvalidSpecError("L1_SMALL only supports sharded allocations, see validate_num_banks")
        bytes_per_bank = interleaved_bytes_per_bank(
            pages=paging.pages, page_bytes=paging.page_bytes, alignment_bytes=alignment, banks=max(banks, 1)
        )
        total_bytes = paging.pages * aligned_page_bytes
        if paging.pages >> 32:
            warnings = (WRAPPED_PAGES,)
    else:
        banks, pages_per_bank = _deal_shards(spec, paging, memory_map)
        bytes_per_bank = sharded_bytes_per_bank(
            shard_pages=pages_per_bank, page_bytes=paging.page_bytes, alignment_bytes=alignment
        )
        total_bytes = bytes_per_bank * banks
        # Shards are counted as (pages + shard pages - 1) / shard pages, so half the range is enough to wrap.
        if max(paging.pages, banks * pages_per_bank) >> 31:
            warnings = (WRAPPED_PAGES,)
        if isinstance(spec.shard, NdShard) and spec.shard.distribution == "round_robin_1d" and spec.shape[-1:] == (0,):
            warnings = (*warnings, ZERO_WIDTH_ND)
    taken = taken_bytes_per_bank(bytes_per_bank, quantum_bytes=memory_map.quantum_bytes) if paging.pages else 0
    fits = taken <= pool.bytes_per_bank
    return Placement(spec, paging, aligned_page_bytes, banks, bytes_per_bank, taken, total_bytes, fits, warnings)


def _deal_shards(spec: TensorSpec, paging: Paging, memory_map: MemoryMap) -> tuple[int, int]:
    """Cores that hold data, and pages that the fullest of them stores."""
    shard = spec.shard
    assert shard is not None
    for along, physical, page in (
        ("width", paging.physical_width, paging.page_width),
        ("height", paging.physical_height, paging.page_height),
    ):
        if physical % page:
            raise InvalidSpecError(f"Physical {along} {physical} must be multiple of page {along} {page}")
    if isinstance(shard, Shard):
        shape: tuple[int, ...] = (shard.height, shard.width)
        two_dimensional = shard.kind == "block"
        padded = paging.padded_shape if len(paging.padded_shape) > 1 else (1, *paging.padded_shape)
    else:
        shape, two_dimensional = shard.shape, shard.distribution == "grid_2d"
        padded = paging.padded_shape
    tensor_pages = _in_pages(padded, paging)
    shard_pages = _in_pages(shape, paging)
    ranges = _trimmed(tensor_pages, shard_pages, shard) if two_dimensional else shard.ranges
    if len(tensor_pages) < len(shard_pages):
        raise InvalidSpecError(
            f"Tensor shape rank ({len(tensor_pages)}) can't be less than shard shape rank ({len(shard_pages)})!"
        )
    _check_cores(ranges, shard.by_column, spec, memory_map)
    if not paging.pages:
        return 0, 0
    rank = len(shard_pages)
    folded = (prod(tensor_pages[: len(tensor_pages) - rank + 1]), *tensor_pages[len(tensor_pages) - rank + 1 :])
    shards = prod(ceil_div(tensor, part) for tensor, part in zip(folded, shard_pages, strict=True))
    cores = sum(r.cores for r in ranges)
    used = min(cores, shards)
    if used > memory_map.grid.cores:  # only TRACE gets here: its cores were not checked
        raise InvalidSpecError(
            f"Expected number of shards {used} to be less than or equal to total number of L1 banks "
            f"{memory_map.grid.cores} in compute cores"
        )
    return used, ceil_div(shards, cores) * prod(shard_pages)


def _in_pages(shape: tuple[int, ...], paging: Paging) -> tuple[int, ...]:
    if len(shape) == 1:
        return (ceil_div(shape[0], paging.page_width),)
    return (*shape[:-2], ceil_div(shape[-2], paging.page_height), ceil_div(shape[-1], paging.page_width))


def _trimmed(tensor: tuple[int, ...], part: tuple[int, ...], shard: Shard | NdShard) -> tuple[CoreRange, ...]:
    """A 2-D distribution uses, and checks, only the corner of the grid that its shards need."""
    if len(part) > 2:
        raise InvalidSpecError("2D grid distribution is only supported for 2D sharding!")
    if len(shard.ranges) != 1:
        raise InvalidSpecError("2D grid distribution is only supported for one contiguous core grid!")
    grid = shard.ranges[0]
    wide = max(ceil_div(tensor[-1], part[-1]), 1)
    rows = prod(tensor[:-1]) if prod(tensor) else 0
    high = max(ceil_div(rows, (1, *part)[-2]), 1)
    if shard.by_column:
        wide, high = high, wide
    if wide > grid.columns:
        raise InvalidSpecError("Number of shards along width must not exceed core grid width!")
    if high > grid.rows:
        raise InvalidSpecError("Number of shards along height must not exceed core grid height!")
    return (CoreRange(grid.start_x, grid.start_y, grid.start_x + wide - 1, grid.start_y + high - 1),)


def _check_cores(ranges: tuple[CoreRange, ...], by_column: bool, spec: TensorSpec, memory_map: MemoryMap) -> None:
    """Every core that may hold a shard must own a bank; for TRACE the library does not look."""
    if spec.memory is TRACE:
        return
    if spec.memory is DRAM:
        columns, rows, bank = memory_map.dram.banks, 1, "DRAM"
    else:
        columns, rows, bank = memory_map.grid.columns, memory_map.grid.rows, "L1"
    if all(r.end_x < columns and r.end_y < rows for r in ranges):
        return
    for core_range in ranges:
        for x, y in core_range.walk(by_column=by_column):
            if spec.memory is DRAM and y != 0:
                raise InvalidSpecError(
                    f"Invalid DRAM shard grid: shard core ({x}, {y}) is not on row 0. DRAM banks are 1D "
                    "(bank_id == logical x-coordinate), so every shard core must have y == 0."
                )
            if x >= columns or y >= rows:
                raise InvalidSpecError(
                    f"Invalid shard grid: shard core ({x}, {y}) has no {bank} bank on this device, which has "
                    f"{columns * rows} of them. {_GRID_ADVICE}"
                )
