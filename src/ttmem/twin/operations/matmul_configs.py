# SPDX-License-Identifier: Apache-2.0
"""Program configs for a matrix product: those of the caller with their checks, and those that the library makes.

The library makes one where the caller names the cores (`core_grid`), or where the first input is sharded.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware.boards import Grid
from ttmem.twin.operations.matmul_blocks import Product, find_largest_block
from ttmem.twin.operations.result_shards import bound_cores
from ttmem.twin.tensor_spec import Shard, TensorSpec

GRID, LINE, REUSE, DRAM_SHARDS = "MultiCast", "MultiCast1D", "", "MultiCastDRAMSharded"
"""The varying part of a config's name: a grid, a line, no multicast, weights sharded in DRAM."""
_TILE = 32
_DESTINATIONS = 8
"""The number of tiles that the registers hold."""


class UnknownConfigError(Exception):
    """A config, or a field of one, whose effect is not verified."""


@dataclass(frozen=True, slots=True)
class Config:
    """The fields of a config; sizes in tiles."""

    kind: str
    depth: int
    core_height: int
    core_width: int
    columns: int = 0
    rows: int = 0
    sub_height: int = 1
    sub_width: int = 1
    height: int = 0
    width: int = 0
    """Size of a block that a core works on at a time; ``core_height`` by ``core_width`` may be several blocks."""
    by_columns: bool = False
    joins_batches: bool = True
    spreads_first: bool = True
    """On a line, all cores get the first input, not the second."""
    has_activation: bool = False

    @property
    def name(self) -> str:
        return f"MatmulMultiCoreReuse{self.kind}ProgramConfig"


_KNOWN_FIELDS = (
    "new compute_with_storage_grid_size in0_block_w out_subblock_h out_subblock_w out_block_h out_block_w per_core_M "
    "per_core_N transpose_mcast fused_activation fuse_batch mcast_in0"
)
_WITHOUT_MEANING = {"gather_in0": False, "untilize_out": False, "stream_in1": False, "num_global_cb_receivers": 1}
"""Fields with large effects, and the values with which they have none."""


def read_config(given: Mapping[str, Any]) -> Config:
    """Read a config as written in a step; raises UnknownConfigError for one that is not verified."""
    kinds = {f"MatmulMultiCoreReuse{kind}ProgramConfig": kind for kind in (GRID, LINE, REUSE, DRAM_SHARDS)}
    kind = kinds.get(str(given.get("new", "")).rpartition(".")[2])
    if kind is None:
        raise UnknownConfigError(str(given.get("new")))
    for name in set(given) - set(_KNOWN_FIELDS.split()):
        if given[name] not in (_WITHOUT_MEANING.get(name), None):
            raise UnknownConfigError(name)
    depth, height, width = (int(given[name]) for name in ("in0_block_w", "per_core_M", "per_core_N"))
    activates = given.get("fused_activation") is not None
    if kind == DRAM_SHARDS:
        return Config(kind, depth, height, width, has_activation=activates)
    columns, rows = read_grid(given["compute_with_storage_grid_size"])
    high, wide = (None, None) if kind == REUSE else (given.get("out_block_h"), given.get("out_block_w"))
    return Config(
        kind,
        depth,
        height,
        width,
        columns,
        rows,
        sub_height=int(given["out_subblock_h"]),
        sub_width=int(given["out_subblock_w"]),
        height=height if high is None else int(high),
        width=width if wide is None else int(wide),
        by_columns=bool(given.get("transpose_mcast")),
        joins_batches=bool(given.get("fuse_batch", True)) and kind != REUSE,
        spreads_first=bool(given.get("mcast_in0", True)),
        has_activation=activates,
    )


def read_grid(given: Any) -> tuple[int, int]:
    """Return columns and rows."""
    if isinstance(given, Mapping):
        return int(given["x"]), int(given["y"])
    columns, rows = given
    return int(columns), int(rows)


@dataclass(frozen=True, slots=True)
class ConfiguredProduct:
    """A product with its config, and the shapes of its inputs as they are multiplied."""

    config: Config
    first: TensorSpec
    second: TensorSpec
    bias: TensorSpec | None
    """A bias that the program itself adds."""
    first_shape: tuple[int, ...]
    second_shape: tuple[int, ...]
    is_first_transposed: bool
    destinations: int

    @property
    def matrix_height(self) -> int:
        return ceil_div(self.first_shape[-2], _TILE)

    @property
    def batches(self) -> tuple[int, int]:
        """Return the batches of both inputs; 1 if they are joined into one tall matrix."""
        if self.config.joins_batches:
            return 1, 1
        return prod(self.first_shape[:-2]), prod(self.second_shape[:-2])

    @property
    def height(self) -> int:
        joined = prod(self.first_shape[:-2]) if self.config.joins_batches else 1
        return joined * self.matrix_height

    @property
    def depth(self) -> int:
        return ceil_div(self.first_shape[-1], _TILE)

    @property
    def width(self) -> int:
        return ceil_div(self.second_shape[-1], _TILE)

    @property
    def cores_down(self) -> int:
        """Return the rows of cores with work."""
        return ceil_div(self.height, self.config.core_height)

    @property
    def cores_across(self) -> int:
        return ceil_div(self.width, self.config.core_width)

    @property
    def core_grid(self) -> tuple[int, int]:
        """Return the columns and rows of the chip's cores with work."""
        size = self.cores_across, self.cores_down
        return size[::-1] if self.config.by_columns else size


def count_register_tiles(kernel_config: Mapping[str, Any] | None, *, in_float32: bool) -> int:
    """Return the number of tiles that the registers hold at a time."""
    tiles = _DESTINATIONS // 2 if in_float32 else _DESTINATIONS
    return tiles * 2 if (kernel_config or {}).get("dst_full_sync_en") else tiles


def find_config_fault(work: ConfiguredProduct, chip: Grid) -> str:
    """Return the library's first refusal of the config, or an empty string; shards are checked elsewhere."""
    return next(iter(_find_faults(work, chip)), "")


def _find_faults(work: ConfiguredProduct, chip: Grid) -> Iterator[str]:
    config = work.config
    if config.kind != DRAM_SHARDS:
        yield from _find_block_faults(config, chip, work.depth, work.destinations)
    if config.kind in (GRID, LINE):
        yield from _find_sharing_faults(work)
    yield from _find_batch_faults(work)
    if config.kind == REUSE:
        yield from _find_reuse_faults(work)


def _find_block_faults(config: Config, chip: Grid, depth: int, destinations: int) -> Iterator[str]:
    name = config.name
    if config.columns < 1 or config.rows < 1:
        yield f"{name}: compute_with_storage_grid_size must be non-zero, got ({config.columns}, {config.rows})"
    if config.columns > chip.columns or config.rows > chip.rows:
        yield (
            f"{name}: compute_with_storage_grid_size ({config.columns}, {config.rows}) must fit within device grid "
            f"({chip.columns}, {chip.rows})"
        )
    sizes = {"in0_block_w": config.depth, "per_core_M": config.core_height, "per_core_N": config.core_width}
    sizes |= {"out_subblock_h": config.sub_height, "out_subblock_w": config.sub_width}
    sizes |= {"out_block_h": config.height, "out_block_w": config.width}
    yield from (f"{name}: {what} is 0, which is not valid" for what, size in sizes.items() if size == 0)
    if depth % config.depth:
        yield f"{name}: Kt ({depth}) must be divisible by in0_block_w ({config.depth})"
    pairs = [("out_subblock_h", "out_block_h"), ("out_subblock_w", "out_block_w")]
    pairs += [("out_block_h", "per_core_M"), ("out_block_w", "per_core_N")]
    if config.kind == REUSE:
        pairs = [("out_subblock_h", "per_core_M"), ("out_subblock_w", "per_core_N")]
    for part, whole in pairs:
        if sizes[whole] % sizes[part]:
            yield f"{name}: {whole} ({sizes[whole]}) must be divisible by {part} ({sizes[part]})"
    if config.sub_height * config.sub_width > destinations:
        yield (
            f"{name}: out_subblock_w {config.sub_width} times out_subblock_h {config.sub_height} needs to be at most "
            f"{destinations} to fit in hardware"
        )


def _find_sharing_faults(work: ConfiguredProduct) -> Iterator[str]:
    config, name = work.config, work.config.name
    if config.kind == GRID:
        across, down = work.core_grid
        axes = (across, config.columns, "x", "columns"), (down, config.rows, "y", "rows")
        for blocks, most, axis, called in axes:
            if blocks > most:
                yield (
                    f"{name}: Num output blocks along {axis} ({blocks}) must be smaller than or equal to the number of "
                    f"{called} in compute grid ({most})!"
                )
        return
    cores = config.columns * config.rows
    if work.cores_down * work.cores_across > cores:
        blocks = work.cores_down * work.cores_across
        yield f"{name}: Number of blocks exceeds number of cores: {blocks} blocks > {cores} cores"
    if config.spreads_first and work.cores_down > 1:
        yield (
            f"{name}: mcast_in0 requires M ({work.height}) to fit within a single per_core_M block "
            f"({config.core_height}), got num_blocks_y={work.cores_down}"
        )
    if not config.spreads_first:
        yield from _find_tail_faults(work)


def _find_tail_faults(work: ConfiguredProduct) -> Iterator[str]:
    """Yield refusals of a line that shares rows: the remainder must be in the last block."""
    config, name = work.config, work.config.name
    if work.cores_across > 1:
        yield (
            f"{name}: mcast_in1 requires N ({work.width}) to fit within a single per_core_N block "
            f"({config.core_width}), got num_blocks_x={work.cores_across}. A single in1 sender multicasts one "
            "per_core_N-wide weight slice to the whole grid, so multi-column N is not supported here; use "
            "MatmulMultiCoreReuseMultiCastProgramConfig (the 2D factory) for multi-column N."
        )
    needed, there = ceil_div(work.width, config.width), config.core_width // config.width
    if needed != there:
        yield (
            f"{name}: mcast_in1 requires the logical N tail to be in the final internal W block; got N={work.width}, "
            f"per_core_N={config.core_width}, out_block_w={config.width} (logical blocks={needed}, physical "
            f"blocks={there}). Reduce per_core_N or increase out_block_w."
        )
    if work.cores_down > 1:
        return
    needed, there = ceil_div(work.height, config.height), config.core_height // config.height
    sizes = f"got M={work.height}, per_core_M={config.core_height}, out_block_h={config.height}"
    if needed != there:
        yield (
            f"{name}: a single-Y mcast_in1 sender requires the logical M tail to be in the final internal H block; "
            f"{sizes} (logical blocks={needed}, physical blocks={there}). Reduce per_core_M or increase out_block_h."
        )
    if work.height % config.height and there > 1:
        yield (
            f"{name}: a single-Y mcast_in1 sender supports a partial final H block only when per_core_M contains one "
            f"internal H block; {sizes} (physical blocks={there})."
        )


_UNEQUAL_BATCHES = (
    "bmm (non-bcast matmul) expects input tensors of shapes BCMK*BCKN=BCMN or batch dimension {} mismatch: "
    "a={} vs b={} (dimension mismatch only allowed when all batch dimensions of a are size 1 and using "
    "MatmulMultiCoreReuseMultiCast1DProgramConfig with fuse_batch=false, fused_activation=none, mcast_in0=false, and "
    "non-sharded inputs for in0 reuse optimization)"
)


def describe_unequal_batches(first: tuple[int, ...], second: tuple[int, ...]) -> str:
    """Return the library's refusal of unequal batches of the same rank."""
    place = next(place for place, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)
    return _UNEQUAL_BATCHES.format(place, first[place], second[place])


def describe_unequal_ranks(first: tuple[int, ...], second: tuple[int, ...]) -> str:
    """Return the library's refusal of batches in tensors of different ranks."""
    return (
        f"Batched (non-bcast) matmul requires inputs of the same rank, got a_shape rank: {len(first)} vs b_shape rank: "
        f"{len(second)}"
    )


def _find_batch_faults(work: ConfiguredProduct) -> Iterator[str]:
    config, first, second = work.config, work.first_shape[:-2], work.second_shape[:-2]
    is_shared = prod(second) == 1 and (config.kind != REUSE or prod(first) > 1)
    if not is_shared and len(first) != len(second):
        yield describe_unequal_ranks(work.first_shape, work.second_shape)
    keeps_first = config.kind == LINE and not (
        config.joins_batches or config.has_activation or config.spreads_first or work.first.shard or work.second.shard
    )
    if not is_shared and first != second and not (keeps_first and prod(first) == 1):
        yield describe_unequal_batches(first, second)
    if config.joins_batches and config.kind in (GRID, LINE):
        if prod(second) > 1:
            yield (
                f"{config.name}: Matmul with fused batch requires input tensors of shapes BCMK*11KN=BCMN or "
                "equivalent. Please change the second input tensor or adjust the program config."
            )
        if work.is_first_transposed and prod(first) > 1 and work.matrix_height > 1:
            padded = [*first, *(round_up(size, _TILE) for size in work.first_shape[-2:])]
            yield (
                f"{config.name}: transpose_a with fuse_batch is not supported when batch dimensions exist and "
                f"M_per_batch > 1 (batch_size={prod(first)}, M_per_batch={work.matrix_height}, "
                f"a_shape_padded=Shape({padded}))"
            )


def _find_reuse_faults(work: ConfiguredProduct) -> Iterator[str]:
    config, name = work.config, work.config.name
    height, own = work.matrix_height, work.config.core_height
    first, second = (prod(shape[:-2]) for shape in (work.first_shape, work.second_shape))
    if own > height and own % height:
        yield f"{name}: per_core_M, {own}, must be a multiple of M, {height} if per_core_M > M!"
    if own > height and first * height % own:
        yield f"{name}: input a total height, {first * height}, must be divisible by per_core_M, {own}!"
    if own <= height and height % own:
        yield f"{name}: per_core_M, {own}, must divide M, {height}, if per_core_M < M!"
    if work.width != config.core_width:
        yield f"{name}: N ({work.width}) must equal per_core_N ({config.core_width})"
    if first > 1 and second == 1:
        yield f"{name}: Batch broadcasting is not supported for the chosen program config"
    if first > 1 and second > 1 and height % config.sub_height:
        yield (
            f"{name}: out_subblock_h ({config.sub_height}) needs to divide M ({height}) evenly and does not. "
            "Please update your program config."
        )


_NARROW = 8
_DEEPEST = 4
"""Tiles along the shared dimension that a grid works on at a time, if they divide it."""


def choose_grid_config(work: Product, grid: Grid, space: int) -> Config:
    """Build the config for a grid of cores, with ``space`` bytes free below the lowest tensor of L1."""

    def fits(height: int, width: int, depth: int) -> bool:
        return work.estimate(height, width, depth) < space

    if work.second_batch > 1:
        if not fits(work.height, work.width, 1):
            raise UnknownConfigError("a core_grid with batches that do not fit one by one")
        return Config(
            *(REUSE, 1, work.height, work.width, grid.columns, grid.rows, 1, 1, work.height, work.width),
            joins_batches=False,
        )
    height, cores = work.first_batch * work.height, grid.columns * grid.rows
    small, large = sorted((height, work.width))
    if large // small > _NARROW or 1 in (work.height, work.width, work.depth):
        is_tall = height > work.width
        own = (ceil_div(height, cores), work.width) if is_tall else (height, ceil_div(work.width, cores))
        depth = _find_largest_divisor(work.depth, ceil_div(work.depth, cores))
        block = find_largest_block(*own, [depth], fits)
        return Config(
            *(LINE, depth, *own, grid.columns, grid.rows, 1, 1, block[0], block[1]), spreads_first=not is_tall
        )
    own = ceil_div(height, grid.rows), ceil_div(work.width, grid.columns)
    depth = _find_largest_divisor(work.depth, _DEEPEST)
    block = find_largest_block(*own, [depth], fits)
    return Config(GRID, depth, *own, grid.columns, grid.rows, 1, 1, block[0], block[1])


def choose_sharded_config(work: Product, shard: Shard, grid: Grid, *, cuts_result: bool, space: int) -> Config:
    """Build the library's config for a sharded first input: on its cores, with blocks of its size.

    Block shards on a single row or column of cores use all of the ``grid``.
    """

    def fits(height: int, width: int, depth: int) -> bool:
        shards = height * (shard.width // 32) * work.first.tile_bytes()
        return work.estimate(height, width, depth) + shards < space

    box = bound_cores(shard)
    across, down = box.columns, box.rows
    high, deep, height = shard.height // 32, shard.width // 32, work.first_batch * work.height
    if work.second_batch > 1:
        if shard.kind == "width" or high > work.height:
            raise UnknownConfigError("batches in width shards, or several batches in one shard")
        own = high, work.width
        return Config(REUSE, deep, *own, across, down, 1, 1, *own, joins_batches=False)
    if shard.kind == "block":
        if 1 in (across, down):
            own, depth = (high, max(work.width * deep // work.depth, 1)), gcd(deep, work.depth)
            block = find_largest_block(*own, [depth], fits)
            size = grid.columns, grid.rows
            return Config(GRID, depth, *own, *size, 1, 1, block[0], block[1], by_columns=shard.by_column)
        wide, tall = (down, across) if shard.by_column else (across, down)
        if wide != ceil_div(work.depth, deep) or tall != ceil_div(height, high):
            raise UnknownConfigError("block shards that leave some of their cores empty")
        depth = gcd(deep, work.depth) if wide == work.depth // deep else 1
        own = ceil_div(height, tall), ceil_div(work.width, wide)
        block = find_largest_block(*own, [depth], fits)
        return Config(GRID, depth, *own, across, down, 1, 1, block[0], block[1], by_columns=shard.by_column)
    if shard.by_column:
        raise UnknownConfigError("shards by column")
    spreads = shard.kind == "width"
    own = (height, ceil_div(work.width, shard.cores)) if spreads else (high, work.width)
    depth = gcd(deep, work.depth) if spreads else work.depth
    block = find_largest_block(*own, [depth], fits)
    block_height = 1 if cuts_result and block[1] != own[1] else block[0]
    return Config(LINE, depth, *own, across, down, 1, 1, block_height, block[1], spreads_first=spreads)


def _find_largest_divisor(number: int, most: int) -> int:
    """Return the largest divisor up to ``most``."""
    return next(size for size in range(most, 0, -1) if number % size == 0)
