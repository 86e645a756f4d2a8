# SPDX-License-Identifier: Apache-2.0
"""Convolutions with a kernel of one pixel: products of matrices, of pages or of shards."""

from dataclasses import replace

from ttmem.hardware import DRAM, L1, Memory
from ttmem.twin.operations.conv_config import HEIGHT, UnknownChoiceError
from ttmem.twin.operations.conv_parallelization import Convolution, Scheme
from ttmem.twin.operations.conv_steps import Parameters, dealt_out, delivered, prepare, settled
from ttmem.twin.operations.matmul import product, product_spec
from ttmem.twin.operations.matmul_blocks import Sums
from ttmem.twin.operations.matmul_configs import GRID, LINE, Config, Configured
from ttmem.twin.operations.matmul_program_config import configured_product
from ttmem.twin.operations.plan import PlanWriter
from ttmem.twin.operations.to_layout import tilize
from ttmem.twin.tensor_spec import TILE, TensorSpec

_TILE = 32
_OTHER_GRID = "MatmulMultiCoreReuseMultiCast{}ProgramConfig: output shard grid {} must lie within extent {}-{}"


def multiply(
    plan: PlanWriter,
    made: Convolution,
    source: TensorSpec,
    parameters: Parameters,
    memory: Memory | None = None,
) -> tuple[int, TensorSpec]:
    """A kernel of one pixel: sticks times weights. The input becomes tiles, before or after the weights are moved."""
    scheme = settled(plan, made, source)
    if made.choices.kind or source.shard is not None:
        return _multiply_in_shards(plan, scheme, source, parameters, memory)
    if made.choices.frees_input and source.memory is L1:
        raise UnknownChoiceError("an interleaved input that goes")
    tiles, is_early = replace(source, layout=TILE), scheme.kind != HEIGHT
    tiled = tilize(plan, source, tiles) if not source.is_tiled and is_early else 0
    weight = TensorSpec((1, 1, made.in_channels, made.out_channels), parameters.weight.dtype, TILE, DRAM)
    bias = None if parameters.bias is None else replace(weight, shape=(1, 1, 1, made.out_channels))
    parameters.move(plan, made.in_channels, made.out_channels)
    if not source.is_tiled and not is_early:
        tiled = tilize(plan, source, tiles)
    wanted = product_spec(tiles, weight, (False, False), None, made.out_dtype)
    sums = Sums(made.sums_in_float32, made.choices.sums_in_l1)
    slot, spec, copies = product(plan, tiles, weight, wanted, (False, False), bias, sums)
    plan.free(*copies)
    slot, spec = delivered(plan, slot, spec, memory)
    plan.free(tiled)
    return slot, spec


def _multiply_in_shards(
    plan: PlanWriter, scheme: Scheme, source: TensorSpec, parameters: Parameters, memory: Memory | None
) -> tuple[int, TensorSpec]:
    """With a program config that follows from the shards."""
    made, early = scheme.convolution, 0
    goes = made.choices.frees_input and source.memory is L1
    if source.shard is None and not source.is_tiled and scheme.kind != HEIGHT:
        tiles = replace(source, layout=TILE)
        early = tilize(plan, source, tiles)
        if goes:
            raise UnknownChoiceError("an interleaved input that goes")
        source = tiles
    slot, dealt = dealt_out(plan, scheme, source)
    plan.free(early)
    prepare(plan, scheme, parameters)
    if not dealt.is_tiled:
        if slot < 0 and made.window.outputs % _TILE:
            raise UnknownChoiceError("rows in shards that end within a tile")
        tiles = replace(dealt, layout=TILE)
        if not _has_room_for_a_row(plan, tiles):
            raise UnknownChoiceError("shards that become tiles by way of DRAM, for L1 has no room for a row of tiles")
        tiled = plan.allocate(tiles)
        plan.free(slot)
        if slot < 0 and goes:
            plan.free_input(0)
            goes = False
        slot, dealt = tiled, tiles
    shape = (1, 1, made.window.outputs, made.out_channels)
    config = _product_config(scheme)
    _check_grid(plan, scheme)
    rows, columns = scheme.weight_shape
    weight = TensorSpec((1, 1, rows, columns), parameters.weight.dtype, TILE, DRAM)
    bias = None if parameters.bias is None else replace(weight, shape=(1, 1, 1, columns))
    first = replace(dealt, shape=(1, 1, made.window.outputs, rows))
    registers = 4 if made.sums_in_float32 else 8
    work = Configured(config, first, weight, bias, first.shape, weight.shape, False, registers)
    result = TensorSpec(shape, made.out_dtype, TILE, L1)
    sums = Sums(made.sums_in_float32, made.choices.sums_in_l1)
    made_slot, result = configured_product(plan, work, result, scheme.out_shard, sums)
    if slot > 0:
        plan.free(slot)
    elif goes:
        plan.free_input(0)
    return delivered(plan, made_slot, result, memory)


def _has_room_for_a_row(plan: PlanWriter, tiles: TensorSpec) -> bool:
    """For a row of tiles before and behind, and what shifts it into alignment; what the result takes is not counted.

    Without it the library goes through DRAM, and refuses there what is not whole tiles.
    """
    tile, across = tiles.tile_bytes, tiles.tiles_across
    return plan.l1_space() > across * (2 * tile + tile // _TILE) + 2 * plan.memory_map.quantum_bytes


def _check_grid(plan: PlanWriter, scheme: Scheme) -> None:
    """Products count cores from the first one of the chip, within as many columns and rows as the shards have."""
    ranges = scheme.out_shard.ranges
    columns, rows = (
        max(ends) - min(starts) + 1
        for starts, ends in (
            ([one.start_x for one in ranges], [one.end_x for one in ranges]),
            ([one.start_y for one in ranges], [one.end_y for one in ranges]),
        )
    )
    if any(one.end_x >= columns or one.end_y >= rows for one in ranges):
        shards = ", ".join(f"[{one.start_x}-{one.start_y} - {one.end_x}-{one.end_y}]" for one in ranges)
        kind = "1D" if scheme.kind == HEIGHT else ""
        plan.refuse(_OTHER_GRID.format(kind, f"{{{shards}}}", columns, rows))


def _product_config(scheme: Scheme) -> Config:
    """As the library makes it for a convolution's shards."""
    high, wide = scheme.out_tiles_high, scheme.out_tiles_wide
    ranges = scheme.out_shard.ranges
    sub_height, sub_width = _largest_part(scheme.block_tiles_high, wide, 4 if scheme.convolution.sums_in_float32 else 8)
    return Config(
        LINE if scheme.kind == HEIGHT else GRID,
        scheme.block_tiles_wide,
        high,
        wide,
        max(one.end_x for one in ranges) + 1,
        max(one.end_y for one in ranges) + 1,
        sub_height=sub_height,
        sub_width=sub_width,
        height=high,
        width=wide,
        spreads_first=scheme.kind != HEIGHT,
        has_activation=scheme.convolution.choices.activates,
    )


_PARTS = (
    *((2, 4), (4, 2), (1, 8), (8, 1), (1, 7), (7, 1), (2, 3), (3, 2), (1, 6), (6, 1)),
    *((1, 5), (5, 1), (2, 2), (1, 4), (4, 1), (1, 3), (3, 1), (1, 2), (2, 1), (1, 1)),
)
"""Of a block, in the order in which the library tries them: height by width in tiles."""


def _largest_part(height: int, width: int, registers: int) -> tuple[int, int]:
    """The first that divides a block, is as wide as it or one tile high, and fits the registers."""
    return next(
        (high, wide)
        for high, wide in _PARTS
        if high * wide <= registers and not height % high and not width % wide and (wide == width or high == 1)
    )
