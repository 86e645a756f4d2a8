# SPDX-License-Identifier: Apache-2.0
"""Matrix products with a program config: buffers and shards."""

from dataclasses import replace
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import DRAM, L1, MemoryMap
from ttmem.hardware.boards import Grid
from ttmem.twin.operations.conv_parallelization import fill_rows
from ttmem.twin.operations.matmul_blocks import Sums
from ttmem.twin.operations.matmul_configs import (
    DRAM_SHARDS,
    GRID,
    LINE,
    REUSE,
    ConfiguredProduct,
    UnknownConfigError,
    find_config_fault,
)
from ttmem.twin.operations.plan import PlanBuilder
from ttmem.twin.tensor_spec import CoreRange, Shard, TensorSpec

_TILE = 32


def launch_configured(
    plan: PlanBuilder, work: ConfiguredProduct, result: TensorSpec, wished: Shard | None, sums: Sums
) -> tuple[int, TensorSpec]:
    """Allocate the result and launch the program that fills it; raises UnknownConfigError for unverified shards."""
    chip = plan.memory_map.grid
    why = find_config_fault(work, chip) or _find_bias_fault(work)
    if wished is not None and work.config.core_height and work.config.core_width:
        result = replace(result, shard=compute_result_shard(work, wished, chip))
    if why:
        plan.allocate(result)
        plan.refuse(why)
    why = find_shard_fault(work, result, wished)
    if why:
        plan.estimate(f"a program config is refused for {why}; the library's message is not verified")
        plan.refuse(f"{work.config.name} with {why}")
    slot = plan.allocate(result)
    plan.launch(compute_buffers(work, result, sums, plan.memory_map))
    return slot, result


def _find_bias_fault(work: ConfiguredProduct) -> str:
    """Return the refusal of a bias: without multicast the program adds a whole matrix, with it one row of tiles."""
    if work.bias is None:
        return ""
    if (wide := work.bias.tiles_across) != work.width:
        return describe_unequal_widths(wide * _TILE, work.width * _TILE)
    if work.config.kind != REUSE:
        return ""
    rows, own = work.matrix_height, round_up(work.bias.shape[-2], _TILE)
    if own == rows * _TILE:
        return ""
    return (
        f"Unsupported bias shape: padded second last dimension of bias, {own}, not equal to expected bias height, "
        f"{rows * _TILE} (tile height {_TILE} x {rows} bias tile-row(s))"
    )


def describe_unequal_widths(own: int, wanted: int) -> str:
    """Return the library's refusal of a fused bias of another width, both in whole tiles."""
    return (
        f"Unsupported bias shape: padded last dimension of bias, {own}, not equal to second input's padded last "
        f"dimension, {wanted}."
    )


def is_scalar_bias(bias: TensorSpec, width: int) -> bool:
    """Return whether a bias has one number per row for all columns: no program adds such a bias itself."""
    return bias.shape[-1] == 1 != width


def can_add_bias(bias: TensorSpec, second: TensorSpec, width: int) -> bool:
    """Return whether a program with multicast adds the bias: one row of tiles as wide as the result, no batches."""
    is_row = bias.shape[-2] <= _TILE and not is_scalar_bias(bias, width)
    return is_row and all(size == 1 for spec in (bias, second) for size in spec.shape[:-2])


def can_fuse_bias(work: ConfiguredProduct, bias: TensorSpec) -> bool:
    """Return whether the program adds the bias: one row of tiles, no batches; without multicast a whole matrix."""
    if work.config.kind != REUSE:
        return can_add_bias(bias, work.second, work.second_shape[-1])
    whole = work.matrix_height * _TILE, work.width * _TILE
    is_plain = not work.is_first_transposed and work.second.shape == work.second_shape and prod(bias.shape[:-2]) == 1
    if is_plain and bias.shape[-2:] == whole and work.config.core_height >= work.matrix_height:
        return True
    return can_add_bias(bias, work.second, work.second_shape[-1]) and bias.shape[-2] > 1


def compute_buffers(work: ConfiguredProduct, result: TensorSpec, sums: Sums, memory_map: MemoryMap) -> list[int]:
    """Return the program's buffers in order. Tensors sharded in L1 need none."""
    config, alignment = work.config, memory_map.architecture.dram_alignment_bytes
    if config.kind == DRAM_SHARDS:
        return _compute_dram_sharded_buffers(work, result, sums, memory_map)
    steps = work.depth // config.depth
    one, two = work.batches

    def count_tile_bytes(spec: TensorSpec, *, is_read_in_pages: bool) -> int:
        size = spec.tile_bytes
        return round_up(size, alignment) if is_read_in_pages else size

    first = count_tile_bytes(work.first, is_read_in_pages=work.first.shard is None)
    second = count_tile_bytes(work.second, is_read_in_pages=work.second.shard is None)
    height, width = config.height, config.width
    copies = (2 if one * steps > 1 else 1, 2 if (one if config.kind == GRID else two) * steps > 1 else 1)
    if config.kind == REUSE:
        copies, height, width = (2, 2), min(config.core_height, work.matrix_height), config.core_width
    read = copies[0] * height * config.depth * first
    is_column = config.kind == LINE and not config.spreads_first
    if is_column and one == 1 < two:
        read = config.core_height * work.depth * first
    elif is_column and work.first.shard is not None:
        read = one * config.core_height * work.depth * first
    sizes = [0 if _works_in_place(work) else read]
    sizes.append(0 if work.second.shard and work.second.memory is L1 else copies[1] * width * config.depth * second)
    bias = 0 if work.bias is None else count_tile_bytes(work.bias, is_read_in_pages=config.kind != REUSE)
    if bias and config.kind == REUSE:
        sizes.append(height * width * bias)
    tiles = height * width if config.kind != REUSE else config.core_height * width
    sizes.append(0 if result.shard else tiles * result.tile_bytes)
    between = sums.choose_partial_dtype(result.dtype, steps)
    if between is not result.dtype or (
        result.shard and (config.core_height, config.core_width) != (height, width) and config.kind != REUSE
    ):
        sizes.append(tiles * between.tile_bytes())
    if bias and config.kind != REUSE:
        sizes.append(width * bias)
    if work.is_first_transposed:
        sizes.append(read)
    return [size for size in sizes if size]


def _works_in_place(work: ConfiguredProduct) -> bool:
    """Return whether the program reads the first input in place."""
    config, shard = work.config, work.first.shard
    if not isinstance(shard, Shard):
        return False
    if config.kind == GRID:
        return shard.kind == "height"
    several = config.core_height > config.height and config.core_width > config.width
    is_cut = shard.width // _TILE > config.depth or several
    return config.kind == REUSE or (not config.spreads_first and not is_cut)


def _compute_dram_sharded_buffers(
    work: ConfiguredProduct, result: TensorSpec, sums: Sums, memory_map: MemoryMap
) -> list[int]:
    """Return the buffers with one reading core per DRAM bank; its columns are rounded up to whole groups."""
    config, alignment, shard = work.config, memory_map.architecture.dram_alignment_bytes, work.second.shard
    assert isinstance(shard, Shard)
    banks = memory_map.pool(DRAM).banks
    banks -= max(shard.width // _TILE * banks - work.width, 0) // (shard.width // _TILE)
    read = ceil_div(work.width, banks)
    computed = _round_up_to_groups(read, config.core_height, work.destinations)
    steps = work.depth // config.depth
    second = round_up(work.second.tile_bytes, alignment)
    sizes = [
        (2 if steps > 1 else 1) * config.core_height * config.depth * work.first.tile_bytes,
        (3 if steps > 1 else 1) * read * config.depth * second,
        config.core_height * computed * result.tile_bytes,
    ]
    if (between := sums.choose_partial_dtype(result.dtype, steps)) is not result.dtype:
        sizes.append(config.core_height * computed * between.tile_bytes())
    if work.bias is not None:
        sizes.append(computed * ceil_div(work.bias.tile_bytes, alignment) * alignment)
    return sizes


_GROUPS: tuple[tuple[int, int], ...] = (
    (4, 2),
    (2, 4),
    (8, 1),
    (1, 8),
    (7, 1),
    (1, 7),
    (3, 2),
    (2, 3),
    (6, 1),
    (1, 6),
    (5, 1),
    (1, 5),
    (2, 2),
)
_GROUPS += ((4, 1), (1, 4), (3, 1), (1, 3), (2, 1), (1, 2), (1, 1))
"""Height and width of the blocks that the registers work on at a time, the best first."""


def _round_up_to_groups(width: int, height: int, most: int) -> int:
    """Return the columns of a core, rounded up to whole groups if that makes fewer groups."""
    down, across = next((h, w) for h, w in _GROUPS if h * w <= most and height % h == 0 == width % w)
    if down > 1 or across >= most:
        return width
    groups, chosen = width // across, across
    for wider in range(across + 1, most + 1):
        if ceil_div(width, wider) < groups:
            groups, chosen = ceil_div(width, wider), wider
    return chosen * groups


def compute_result_shard(work: ConfiguredProduct, wished: Shard, chip: Grid) -> Shard:
    """Return the result's shards: the config decides; the caller only asks for a sharded result."""
    config = work.config
    height, width = config.core_height * _TILE, config.core_width * _TILE
    if config.kind == GRID:
        # Rows of the whole tensor, though batches may be computed one after the other.
        across, down = work.core_grid
        return Shard(wished.kind, height, width, (CoreRange(0, 0, across - 1, down - 1),), config.by_columns)
    if config.kind == REUSE:
        return Shard(wished.kind, height, width, wished.ranges, _find_orientation(work))
    grid = chip if config.kind == DRAM_SHARDS else Grid(config.columns, config.rows)
    return Shard(wished.kind, height, width, fill_rows(work.cores_down * work.cores_across, grid))


def _find_orientation(work: ConfiguredProduct) -> bool:
    for spec in (work.first, work.second):
        if spec.shard is not None:
            return spec.shard.by_column
    return True


def find_shard_fault(work: ConfiguredProduct, result: TensorSpec, wished: Shard | None) -> str:
    """Return the reason why the library refuses these shards with this config, or an empty string."""
    first, second, config = work.first.shard, work.second.shard, work.config
    if any(shard is not None and not isinstance(shard, Shard) for shard in (first, second, wished)):
        raise UnknownConfigError("ND shards")
    if any(spec.shard and spec.memory is not L1 for spec in (work.first, result)):
        raise UnknownConfigError("inputs or results sharded in DRAM")
    if config.kind == DRAM_SHARDS:
        return _find_dram_shard_fault(work, wished)
    if second is not None:
        raise UnknownConfigError("a second input in shards")
    why = _find_first_shard_fault(work, first) if isinstance(first, Shard) else ""
    if why or wished is None:
        return why
    kinds = {GRID: ("block",), LINE: ("width",) if config.spreads_first else ("height",), REUSE: ("height", "block")}
    if wished.kind not in kinds[config.kind] or (
        isinstance(first, Shard) and wished.kind != first.kind and config.kind != GRID
    ):
        if wished.kind == "block" and config.kind == LINE:
            raise UnknownConfigError("a block-sharded result on a line")
        return f"a result in {wished.kind} shards"
    if config.sub_width != config.core_width and config.sub_height != 1:
        return "sub-blocks neither of one row nor of a core's width"
    if config.kind != REUSE and config.width != config.core_width and config.height != 1:
        if config.kind == GRID:
            raise UnknownConfigError("blocks neither of one row nor of a core's width")
        return "blocks neither of one row nor of a core's width"
    blocks = prod(work.first_shape[:-2]) * work.matrix_height // config.core_height
    if config.kind == REUSE and first is None and blocks < wished.cores:
        raise UnknownConfigError("a result on more cores than there are blocks")
    if config.kind == LINE:
        own, all_of_it = (config.core_height, work.height) if config.spreads_first else (config.core_width, work.width)
        return "" if own == all_of_it else "a line whose cores have more than the tensor in the other direction"
    return ""


def _find_first_shard_fault(work: ConfiguredProduct, shard: Shard) -> str:
    config = work.config
    high, wide = shard.height // _TILE, shard.width // _TILE
    kinds = {GRID: ("block", "height"), LINE: ("width",) if config.spreads_first else ("height",)}
    if shard.kind not in kinds.get(config.kind, ("height", "block")):
        return f"a first input in {shard.kind} shards"
    if config.kind != REUSE and not config.joins_batches:
        return "batches that are not joined"
    if shard.by_column != (config.kind == GRID and config.by_columns and shard.kind == "block"):
        if config.kind == REUSE:
            raise UnknownConfigError("shards by column")
        return "shards in the other orientation"
    is_whole = config.kind == REUSE or shard.kind == "height"
    if high != config.core_height or wide % config.depth or (is_whole and wide != work.depth):
        return "shards of another size than the config's blocks"
    if (config.kind == REUSE or (config.kind == GRID and shard.kind == "height")) and wide != config.depth:
        return "shards of another size than the config's blocks"
    if config.kind == LINE:
        return (
            "less rows than the config's blocks"
            if config.spreads_first and work.height != config.core_height
            else "fewer shards than blocks"
            if not config.spreads_first and work.cores_down > shard.cores
            else ""
        )
    if config.kind == GRID and shard.kind == "height":
        return "height shards next to each other" if any(r.columns > 1 for r in shard.ranges) else ""
    blocks = prod(work.first_shape[:-2]) * work.matrix_height // config.core_height
    return "blocks that the cores cannot share" if config.kind == REUSE and blocks % shard.cores else ""


def _find_dram_shard_fault(work: ConfiguredProduct, wished: Shard | None) -> str:
    first, second, config = work.first.shard, work.second.shard, work.config
    if not isinstance(first, Shard) or not isinstance(second, Shard) or wished is None:
        return "a first input, a second or a result without shards"
    if work.second.memory is not DRAM or second.by_column:
        raise UnknownConfigError("a second input that is not in row-major shards of DRAM")
    if {first.kind, second.kind, wished.kind} != {"width"} or first.by_column:
        return "shards that are not width shards"
    if work.height != 1 or config.core_height != 1 or first.height != _TILE:
        return "more than one row of tiles"
    if work.depth % config.depth or first.width // _TILE % config.depth or work.depth % (first.width // _TILE):
        return "blocks that do not divide the depth"
    return ""
