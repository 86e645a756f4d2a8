# SPDX-License-Identifier: Apache-2.0
"""Upsample: pixels are repeated (nearest), or blended from shards with a halo (bilinear)."""

from dataclasses import replace
from functools import lru_cache
from math import floor, prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT16, DATA_TYPES, L1, L1_SMALL
from ttmem.twin.operations.call_syntax import build_record, format_call
from ttmem.twin.operations.conv_parallelization import fill_rows
from ttmem.twin.operations.elementwise import spec_like
from ttmem.twin.operations.halo import Dealing, deal, gather, list_cores
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.sliding_window import Window
from ttmem.twin.placement import compute_paging
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import ROW_MAJOR, CoreRange, InvalidSpecError, Shard, TensorSpec

_NARROWEST = "input channels should be divisible by 32"
_PADDED_TILES = "Tiled input must be tile-aligned (no padding difference)"
_ONLY_OF_SHARDS = "Output memory config is sharded but input memory config is not sharded"
_OTHER_PAGES = "Input and output page sizes must match for nearest upsample, got input_page_size={} output_page_size={}"
_OTHER_STICKS = "Input and output sticks should have same size"
_LONG_STICKS = (
    "DFB 'upsample_shard_in' (entry_size {} * num_entries {} = {} bytes) is larger than the per-bank allocation of its "
    "borrowed TensorParameter 'upsample_shard_input' ({} bytes)."
)
_NO_SHARDS = "bad optional access"
_SHARDS_OF_DRAM = (
    "DFB 'upsample_shard_in' borrows memory from TensorParameter 'upsample_shard_input', but its TensorSpec is not "
    "L1-resident (L1 is required). Both L1 and L1_SMALL are accepted."
)
_FLOAT_PAGES = 4
_MOST_TILES, _TILE = 8, 32


def upsample(call: Call, plan: PlanBuilder) -> Plan:
    """Upsample images with channels last."""
    source, given = call.inputs[0], call.arguments["scale_factor"]
    factors = tuple(given) if isinstance(given, (list, tuple)) else (given, given)
    if len(factors) != 2 or len(source.shape) != 4 or not all(float(factor) > 0 for factor in factors):
        raise BadInputError(
            f"upsample needs a tensor of rank 4 and two factors, not {list(source.shape)} and {given!r}"
        )
    whole = all(float(factor) == int(factor) for factor in factors)
    if call.arguments["mode"] == "bilinear":
        if not whole or source.dtype is not BFLOAT16 or source.is_tiled or call.shard is not None:
            return plan.unknown(
                "bilinear upsample of tiles, of other types or factors, or into shards that the caller gives"
            )
        return _upsample_bilinear(call, plan, (int(factors[0]), int(factors[1])))
    return _upsample_nearest(call, plan, (float(factors[0]), float(factors[1])), whole=whole)


def _upsample_nearest(call: Call, plan: PlanBuilder, factors: tuple[float, float], *, whole: bool) -> Plan:
    """Repeat pixels: rows pass through L1, tiles are untilized; shards repeat their pixels in place."""
    source = call.inputs[0]
    batch, height, width, channels = source.shape
    shape = (batch, floor(height * factors[0]), floor(width * factors[1]), channels)
    dtype = BFLOAT16 if source.dtype.is_block_float else source.dtype
    result = replace(spec_like(source, call.memory, dtype), shape=shape, layout=ROW_MAJOR)
    if not prod(shape):
        return plan.unknown("upsample to an empty image: the library crashes")
    if source.shard is not None:
        return _upsample_shards(call, plan, result, whole=whole)
    if call.shard is not None:
        raise InvalidSpecError(_ONLY_OF_SHARDS)
    if source.is_tiled:
        if not whole:
            return plan.unknown("tiles by other than whole factors")
        slot = plan.allocate(result)
        if width % _TILE or channels % _TILE:
            plan.refuse(_PADDED_TILES)
        tiles = channels // _TILE * min(2, ceil_div(batch * height * width // _TILE, plan.memory_map.grid.cores))
        plan.launch([tiles * source.tile_bytes, tiles * dtype.tile_bytes()])
        return plan.finish(slot, result)
    page = compute_paging(source).page_bytes
    if not whole:
        return plan.finish_with_program(result, [_FLOAT_PAGES * _align_float_page(plan, source, result)])
    pixels_per_core = ceil_div(batch * height * width, plan.memory_map.grid.cores)
    row = round_up(page, plan.memory_map.architecture.dram_alignment_bytes)
    return plan.finish_with_program(result, [min(2, pixels_per_core) * row])


def _upsample_shards(call: Call, plan: PlanBuilder, result: TensorSpec, *, whole: bool) -> Plan:
    """Enlarge each shard in place; a table lists the pixels that two readers of a core repeat."""
    source, shard = call.inputs[0], call.inputs[0].shard
    if not isinstance(shard, Shard) or source.is_tiled or call.shard is not None:
        return plan.unknown("upsample of tiles in shards, of ND shards, or into shards that the caller gives")
    batch, height, width, _ = source.shape
    down, across = result.shape[1] // height, result.shape[2] // width
    if not whole or shard.kind == "width":
        grown = replace(shard, height=ceil_div(prod(result.shape[:3]), _count_pixel_cores(shard)))
        made = result if call.memory is not None else replace(result, memory=source.memory, shard=grown)
        slot = plan.allocate(made)
        pages = compute_paging(source).page_bytes, compute_paging(made).page_bytes
        if pages[0] != pages[1]:
            plan.refuse(_OTHER_PAGES.format(*pages))
        plan.launch([_FLOAT_PAGES * _align_float_page(plan, source, made)])
        return plan.finish(slot, made)
    if call.memory is not None:
        plan.allocate(result)
        plan.refuse(_OTHER_STICKS if source.shape[-1] % shard.width else _NO_SHARDS)
    made = replace(result, shard=replace(shard, height=shard.height * down * across))
    slot = plan.allocate(made)
    cores = _find_busy_cores(shard, batch * height * width)
    entries = _count_intervals(batch * height, width, down, shard.height)
    table = Shard("height", 1, 8 * entries, cores, shard.by_column)
    spec = TensorSpec((len(cores), 8 * entries), DATA_TYPES.find("uint16"), ROW_MAJOR, L1_SMALL, table)
    plan.allocate(spec, cache_key=("upsample", source, result.shape))
    if source.memory is not L1:
        plan.refuse(_SHARDS_OF_DRAM)
    _check_sticks(plan, source, shard)
    plan.launch([])
    return plan.finish(slot, made)


def _check_sticks(plan: PlanBuilder, source: TensorSpec, shard: Shard) -> None:
    """Refuse blocks as the library does, which divides a stick by all columns of cores, shared or not."""
    if shard.kind != "block":
        return
    element, alignment = source.element_bytes, plan.memory_map.architecture.l1_alignment_bytes
    stick = round_up(source.shape[-1], shard.width) * element // shard.ranges[0].columns
    stick, there = round_up(stick, alignment), shard.height * round_up(shard.width * element, alignment)
    if stick * shard.height > there:
        plan.refuse(_LONG_STICKS.format(stick, shard.height, stick * shard.height, there))


def _align_float_page(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> int:
    alignments = (plan.memory_map.page_alignment_bytes(spec.memory) for spec in (source, result))
    return round_up(compute_paging(result).page_bytes, max(alignments))


def _count_pixel_cores(shard: Shard) -> int:
    """Return the number of cores that share the pixels."""
    columns, rows = (len(set(places)) for places in zip(*list_cores(shard), strict=True))
    return {"height": shard.cores, "width": 1}.get(shard.kind, columns if shard.by_column else rows)


def _find_busy_cores(shard: Shard, pixels: int) -> tuple[CoreRange, ...]:
    """Return the cores whose shards are not empty: the first ones, or the first lines of a block."""
    used = ceil_div(pixels, shard.height)
    if shard.kind == "block":
        used *= shard.cores // _count_pixel_cores(shard)
    return tuple(CoreRange(x, y, x, y) for x, y in list_cores(shard)[:used])


@lru_cache(maxsize=1024)
def _count_intervals(rows: int, width: int, down: int, pixels_per_core: int) -> int:
    """Return the most stretches of pixels that a reader repeats, half of a core's output each, by rows and shards."""
    import numpy as np

    outputs = np.arange(rows * down * width)
    per_core = pixels_per_core * down
    first_half = (per_core + 1) // 2
    pixel, place = outputs // (width * down) * width + outputs % width, outputs % per_core
    begins = (pixel % pixels_per_core == 0) | (place == 0) | (place == first_half)
    begins |= (outputs % width == 0) & (outputs // width % down > 0)
    readers = 2 * (outputs // per_core) + (place >= first_half)
    return int(np.bincount(readers[begins]).max())


def _upsample_bilinear(call: Call, plan: PlanBuilder, scale: tuple[int, int]) -> Plan:
    """Blend pixels of shards with a halo; the sharded result is copied to the requested memory."""
    source = call.inputs[0]
    batch, height, width, channels = source.shape
    window = Window(batch, height, width, (2, 2), padding=(1, 1, 1, 1), enlarged=scale)
    grid, pixels, given = plan.memory_map.grid, batch * height * width, source.shard
    if given is not None and not (isinstance(given, Shard) and given.kind == "height" and source.memory is L1):
        return plan.unknown("bilinear upsample of shards other than height shards in L1")
    cores = given.cores if given else min(grid.cores, pixels)
    ranges, per_core = (given.ranges, given.height) if given else (fill_rows(cores, grid), ceil_div(pixels, cores))
    wide = given.width if given else channels
    dealing = Dealing(window, "height", ranges, cores, channels, wide, per_core, ceil_div(window.outputs, cores))
    slot, dealt = (-1, source) if given else deal(plan, dealing, source, is_padded=False)
    gathered, halo = gather(plan, dealing, slot, dealt, frees_input=False, moves=False)
    shape = (batch, window.output_height, window.output_width, channels)
    shard = Shard("height", dealing.outputs_per_core, wide, ranges, bool(given and given.by_column))
    result = TensorSpec(shape, source.dtype, ROW_MAJOR, L1, shard)
    if given and call.memory is not None:
        plan.allocate(replace(result, memory=call.memory, shard=None))
        plan.refuse(_NARROWEST if channels % _TILE else _NO_SHARDS)
    made = plan.allocate(result)
    if channels % 32:
        plan.refuse(_NARROWEST)
    stick, tile = halo.dtype.mantissa_bits // 8 * channels, halo.tile_bytes
    most = _MOST_TILES * 32 * halo.dtype.mantissa_bits // 8
    plan.launch([8 * min(stick, most), 8 * stick, 2 * tile, 2 * tile], CIRCULAR)
    if call.memory is None:
        plan.free(gathered, slot)
        return plan.finish(made, result)
    wanted = replace(result, memory=call.memory, shard=None)
    delivered = plan.allocate(wanted)
    plan.free(made, gathered, slot)
    return plan.finish(delivered, wanted)


RECORDS = (
    build_record(
        format_call(
            "upsample", [{"shape": [1, 8, 8, 32], "dtype": "bfloat16", "layout": "row_major", "memory": "DRAM"}], [2, 2]
        ),
        upsample,
        *(Argument("scale_factor", 0), Argument("mode", default="nearest")),
    ),
)
