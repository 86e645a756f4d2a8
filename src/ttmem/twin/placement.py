# SPDX-License-Identifier: Apache-2.0
"""The pages of a tensor and its bytes per bank on an opened board.

All banks of a memory are allocated in lock step, so one figure per bank describes a buffer on the whole chip.
"""

from dataclasses import dataclass
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import DEFAULT_RELEASE, DRAM, L1_SMALL, TRACE, MemoryMap
from ttmem.twin.tensor_spec import CoreRange, InvalidSpecError, NdShard, Shard, TensorSpec


def compute_interleaved_bytes_per_bank(*, pages: int, page_bytes: int, alignment_bytes: int, banks: int) -> int:
    """Return the bytes of the fullest bank: pages are dealt round robin, and all banks reserve the same."""
    return ceil_div(pages, banks) * round_up(page_bytes, alignment_bytes)


def compute_sharded_bytes_per_bank(*, shard_pages: int, page_bytes: int, alignment_bytes: int) -> int:
    """Return the bytes of a bank: the shard shape alone decides, and every bank of the pool reserves that range."""
    return shard_pages * round_up(page_bytes, alignment_bytes)


def compute_taken_bytes_per_bank(bytes_per_bank: int, *, quantum_bytes: int) -> int:
    """Return the bytes that the pool loses; memory views count these, error messages print `bytes_per_bank`.

    The quantum is the DRAM alignment (32 on Wormhole, 64 on Blackhole) in all four memories. A tensor without elements
    is never allocated, so every allocation takes at least one quantum.
    """
    return round_up(max(bytes_per_bank, quantum_bytes), quantum_bytes)


@dataclass(frozen=True, slots=True)
class Paging:
    """The pages of a spec: the units that are distributed over banks."""

    padded_shape: tuple[int, ...]
    physical_height: int
    physical_width: int
    """The padded shape as two dimensions; only these are stored."""
    page_height: int
    page_width: int
    page_bytes: int
    """Page size without alignment."""
    pages: int

    @property
    def padded_bytes(self) -> int:
        """Bytes of all pages, before alignment."""
        return self.pages * self.page_bytes


def compute_paging(spec: TensorSpec) -> Paging:
    """Return the pages of a spec; raise InvalidSpecError with the library's reason if it refuses shape or layout."""
    _check_layout(spec)
    padded_shape = spec.padded
    width = padded_shape[-1]
    height = prod(padded_shape[:-1])
    _check_shard_fits(spec, height, width)
    _check_dtype(spec)
    if len(padded_shape) == 1 and isinstance(spec.shard, Shard) and spec.shard.height != 1:
        raise InvalidSpecError("Shard shape must be 1D for 1D tensor!")
    page_height, page_width = _compute_page_shape(spec, height, width)
    if spec.is_tiled:
        page_bytes = spec.dtype.tile_bytes(spec.tile)
    else:
        page_bytes = page_width * spec.element_bytes
    pages = (height // page_height) * (width // page_width) if page_width else 0
    return Paging(padded_shape, height, width, page_height, page_width, page_bytes, pages)


def _check_layout(spec: TensorSpec) -> None:
    if not spec.is_tiled:
        if (spec.tile.height, spec.tile.width) != (32, 32):
            raise InvalidSpecError(
                "Configuring a ROW MAJOR page config with a custom tile configuration is not supported."
            )
        return
    if not spec.tile.is_legal:
        raise InvalidSpecError(f"tile {spec.tile} is not one of the library's tile shapes")
    shard, tile = spec.shard, spec.tile
    if shard is not None and (shard.height % tile.height or shard.width % tile.width):
        printed = f"({shard.height}, {shard.width})" if isinstance(shard, Shard) else f"Shape({list(shard.shape)})"
        raise InvalidSpecError(f"Physical shard shape {printed} must be tile {{{tile.height}, {tile.width}}} sized!")


def _check_dtype(spec: TensorSpec) -> None:
    if not spec.dtype.in_ttnn:
        raise InvalidSpecError(f"ttnn has no device tensors of type {spec.dtype}")
    if spec.dtype.is_block_float and not spec.is_tiled:
        raise InvalidSpecError("Only TILE layout is supported for BFLOAT8_B dtype!")
    if spec.dtype.row_major_only and spec.is_tiled:
        raise InvalidSpecError(f"Only ROW_MAJOR layout is supported for {spec.dtype.name.upper()} dtype!")


def _compute_page_shape(spec: TensorSpec, physical_height: int, physical_width: int) -> tuple[int, int]:
    if spec.is_tiled:
        return spec.tile.height, spec.tile.width
    if physical_height == 0 or physical_width == 0:
        # One 32-bit word, whatever the element: nothing is stored, but shard widths are checked against it.
        return 1, 4 // (spec.dtype.element_bytes or 4)
    shard = spec.shard
    if shard is None or (isinstance(shard, Shard) and shard.kind == "height"):
        return 1, physical_width
    return 1, shard.width


def _check_shard_fits(spec: TensorSpec, height: int, width: int) -> None:
    """Check that legacy shards cover the whole tensor with at most one shard per core."""
    shard = spec.shard
    if not isinstance(shard, Shard):
        return
    shards = {"height": ceil_div(height, shard.height), "width": ceil_div(width, shard.width)}
    if shard.kind == "block":
        _check_block(shard, shards)
        return
    across, needed, has = ("width", shard.width, width) if shard.kind == "height" else ("height", shard.height, height)
    if has != needed:
        raise InvalidSpecError(f"Shard {across} {needed} must match physical {across} {has} for {shard.kind} sharded")
    if shards[shard.kind] > shard.cores:
        raise InvalidSpecError(
            f"Number of shards along {shard.kind} {shards[shard.kind]} must not exceed number of cores {shard.cores}"
        )


def _check_block(shard: Shard, shards: dict[str, int]) -> None:
    if len(shard.ranges) != 1:
        raise InvalidSpecError("Shard grid must be one full rectangular grid for block sharded!")
    grid = shard.ranges[0]
    lines = [("rows", grid.rows), ("columns", grid.columns)]
    orientation = "column" if shard.by_column else "row"
    for (along, count), (name, limit) in zip(shards.items(), lines[:: -1 if shard.by_column else 1], strict=True):
        if count > limit:
            raise InvalidSpecError(
                f"Number of shards along {along} {count} must not exceed number of {name} {limit} "
                f"for {orientation} major orientation!"
            )


WRAPPED_PAGES = "the number of pages overflows the library's 32-bit counters: it may allocate a few bytes and continue"
ZERO_WIDTH_ND = f"an ND-sharded tensor whose last dimension is 0 kills the process (SIGFPE) in {DEFAULT_RELEASE}"
_GRID_ADVICE = (
    "Derive the shard grid from the device (dram_grid_size() for DRAM, compute_with_storage_grid_size() for L1) rather "
    "than assuming a fixed size -- a harvested device exposes fewer banks than an unharvested one of the same type. An "
    "L1 shard core outside the compute grid is legal only while it is claimed via ServiceCoreManager."
)


@dataclass(frozen=True, slots=True)
class Placement:
    """The memory that a spec needs on one chip of a board."""

    spec: TensorSpec
    paging: Paging
    aligned_page_bytes: int
    banks: int
    """Banks that share the pages: all of the pool, or the cores that hold shards."""
    bytes_per_bank: int
    """Bytes that a bank stores, as error messages print them; 0 for a tensor without elements."""
    taken_bytes_per_bank: int
    """Bytes that a bank of the pool loses: the above in whole quanta."""
    total_bytes: int
    """The total that error messages print: all pages with their alignment, over `banks` banks."""
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
    """Return the placement of a spec, or raise InvalidSpecError with the library's reason."""
    paging = compute_paging(spec)
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
        bytes_per_bank = compute_interleaved_bytes_per_bank(
            pages=paging.pages, page_bytes=paging.page_bytes, alignment_bytes=alignment, banks=max(banks, 1)
        )
        total_bytes = paging.pages * aligned_page_bytes
        if paging.pages >> 32:
            warnings = (WRAPPED_PAGES,)
    else:
        banks, pages_per_bank = _deal_shards(spec, paging, memory_map)
        bytes_per_bank = compute_sharded_bytes_per_bank(
            shard_pages=pages_per_bank, page_bytes=paging.page_bytes, alignment_bytes=alignment
        )
        total_bytes = bytes_per_bank * banks
        # Shards are counted as (pages + shard pages - 1) / shard pages, so half the range is enough to wrap.
        if max(paging.pages, banks * pages_per_bank) >> 31:
            warnings = (WRAPPED_PAGES,)
        if isinstance(spec.shard, NdShard) and spec.shard.distribution == "round_robin_1d" and spec.shape[-1:] == (0,):
            warnings = (*warnings, ZERO_WIDTH_ND)
    taken = compute_taken_bytes_per_bank(bytes_per_bank, quantum_bytes=memory_map.quantum_bytes) if paging.pages else 0
    fits = taken <= pool.bytes_per_bank
    return Placement(spec, paging, aligned_page_bytes, banks, bytes_per_bank, taken, total_bytes, fits, warnings)


def _deal_shards(spec: TensorSpec, paging: Paging, memory_map: MemoryMap) -> tuple[int, int]:
    """Return the number of cores that hold data, and the pages of the fullest of them."""
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
    tensor_pages = _count_pages(padded, paging)
    shard_pages = _count_pages(shape, paging)
    ranges = _trim_ranges(tensor_pages, shard_pages, shard) if two_dimensional else shard.ranges
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


def _count_pages(shape: tuple[int, ...], paging: Paging) -> tuple[int, ...]:
    if len(shape) == 1:
        return (ceil_div(shape[0], paging.page_width),)
    return (*shape[:-2], ceil_div(shape[-2], paging.page_height), ceil_div(shape[-1], paging.page_width))


def _trim_ranges(tensor: tuple[int, ...], part: tuple[int, ...], shard: Shard | NdShard) -> tuple[CoreRange, ...]:
    """Return the corner of the grid that the shards of a 2-D distribution need; the library checks only that."""
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
    """Check that each core that may hold a shard owns a bank; the library does not check TRACE."""
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
