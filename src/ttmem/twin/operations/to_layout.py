# SPDX-License-Identifier: Apache-2.0
"""Conversions between row-major and tiles: `to_layout` and its tilize and untilize programs.

Both process a whole row of tiles at a time if L1 has room for one, otherwise square blocks of tiles.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import isqrt, prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT8_B, BFLOAT16, L1, UINT8
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import PADDED_SHARD_ROWS, has_padded_shard_rows, has_whole_shards, spec_like
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder
from ttmem.twin.operations.record import Argument
from ttmem.twin.placement import place
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import LAYOUTS, ROW_MAJOR, TILE, InvalidSpecError, Shard, TensorSpec

_WIDE_ROW_TILES = 32
"""Rows of more tiles than this are cut into blocks if that keeps more cores busy."""
_WIDEST_PLAIN_ROW_BYTES = 800_000
"""Double-buffered rows that need more than this use the untilize that can cut them."""
_PLAIN_TILE_BYTES = 2048


def to_layout(call: Call, plan: PlanBuilder) -> Plan:
    """Tilize or untilize; block floats become bfloat16 rows. A tensor in the layout stays."""
    source, layout = call.inputs[0], LAYOUTS.find(str(call.arguments["layout"]).removeprefix("ttnn."))
    if layout is source.layout:
        return plan.finish(-1, source)
    result = change_layout(spec_like(source, call.memory), layout is TILE)
    if source.shard is not None:
        return _convert_shards(call, plan, result)
    slot = tilize(plan, source, result) if layout is TILE else untilize(plan, source, result)
    return plan.finish(slot, result)


def _convert_shards(call: Call, plan: PlanBuilder, result: TensorSpec) -> Plan:
    """Convert shards of whole tiles: in place without buffers, into pages through one or two rows of tiles."""
    source, shard = call.inputs[0], call.inputs[0].shard
    is_padded = any(size % 32 for size in (1, *source.shape)[-2:])
    if not isinstance(shard, Shard) or source.memory is not L1 or is_padded or shard.height % 32 or shard.width % 32:
        return plan.unknown("a layout change of shards or tensors with partial tiles")
    if len(source.shape) > 4 and source.padded[-1] % shard.width | source.shape[-1] % shard.width:
        return plan.unknown("more than four dimensions, the last of which does not divide evenly into shards")
    if not source.is_tiled and not fits_whole_rows(plan, source, result):
        return plan.unknown("row-major shards that are tilized block by block, through pages")
    if result.shard is not None:
        return plan.finish_with_program(result, [])
    if not source.is_tiled:
        if has_padded_shard_rows(source) or (shard.kind == "height" and shard.by_column):
            return plan.unknown(
                PADDED_SHARD_ROWS if has_padded_shard_rows(source) else "row-major shards with column-major cores"
            )
        if shard.kind == "height" and result.memory is L1:  # read where they are
            return plan.finish_with_program(result, [shard.width // 32 * result.tile_bytes])
        return plan.finish(tilize(plan, replace(source, shard=None), result), result)
    row = shard.width // 32 * (2 if shard.height > 32 else 1)
    read = [] if has_whole_shards(source) else [row * source.tile_bytes]
    return plan.finish_with_program(result, [*read, row * result.tile_bytes])


def change_layout(spec: TensorSpec, tiled: bool) -> TensorSpec:
    """Return the spec in tiles or row-major; row-major block floats become bfloat16."""
    plain = BFLOAT16 if spec.dtype.is_block_float else spec.dtype
    return replace(spec, layout=TILE if tiled else ROW_MAJOR, dtype=plain)


def fits_whole_rows(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> bool:
    """Return whether L1 has room for whole rows of tiles, without blocks."""
    return _fits_whole_rows(plan, source, result)[0]


def _fits_whole_rows(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> tuple[bool, int, int]:
    """Return whether whole rows of tiles fit, the bytes of a block per tile, and its fixed bytes."""
    before, after = source.tile_bytes, result.tile_bytes
    # A block needs one row of its elements more, and room to shift it into alignment.
    per_tile, fixed = before + after + before // 32, 2 * plan.memory_map.quantum_bytes
    space = plan.l1_space() - _count_l1_bytes(plan, result)
    return space > _measure_tile_grid(result).across * per_tile + fixed, per_tile, fixed


def tilize(plan: PlanBuilder, source: TensorSpec, result: TensorSpec, *, may_pad: bool = False) -> int:
    """Tilize interleaved rows; tile padding is added by a separate kernel, which whole tiles use too if it
    ``may_pad``."""
    before, after = source.tile_bytes, result.tile_bytes
    if source.dtype is UINT8 and (1, 1, *source.shape)[-2:] != result.padded[-2:]:
        plan.allocate(result)
        raise InvalidSpecError("Can only tilize bfloat16/float32 or int32/uint32/uint16 or fp8_e4m3 tensors")
    if not source.elements:
        return plan.allocate(result)
    grid = _measure_tile_grid(result)
    fits, per_tile, fixed = _fits_whole_rows(plan, source, result)
    space = plan.l1_space() - _count_l1_bytes(plan, result)
    slot = plan.allocate(result)
    height, width = (1, 1, *source.shape)[-2:]
    by_block = not fits or _blocks_use_more_cores(plan, grid, height * width // 1024)
    if plan.memory_map.architecture.name == "blackhole" and source.dtype is UINT8:
        by_block = True  # only this kernel reads rows of bytes correctly there
    if not by_block:
        plan.launch([grid.across * before, grid.across * after])
        return slot

    def choose_buffers() -> list[list[int]]:
        tiles = _choose_block_tiles(plan, grid, max(plan.l1_space() - fixed, 0) // per_tile)
        return [[block * before, block * after, block * (before // 32) + fixed] for block in tiles]

    # With padding the library also checks whether columns of tiles fit; the answer is part of the program's key.
    may_pad |= result.padded != source.shape
    fits_columns = may_pad and space > grid.down * per_tile + fixed
    plan.launch_kept(("tilize", _merge_outer(source), _merge_outer(result), fits, fits_columns), choose_buffers)
    return slot


def untilize(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> int:
    """Untilize interleaved tiles, without the tile padding."""
    if not source.elements:
        return plan.allocate(result)
    padded = source.padded != source.shape
    if padded or source.dtype not in (BFLOAT16, BFLOAT8_B):
        return untilize_by_rows(plan, source, result)
    return untilize_plainly(plan, source, result)


def untilize_plainly(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> int:
    """Untilize bfloat16 and bfloat8_b. A core takes a row of tiles, or a part of one if cores are left, double-buffered
    if there is room.
    """
    grid = _measure_tile_grid(source)
    cores = plan.memory_map.grid.cores
    part = grid.across
    padded = source.padded != source.shape
    if grid.rows == 1 and not padded:
        part = ceil_div(grid.across, cores)
    elif grid.rows < cores and not padded:
        part //= max(d for d in range(1, min(cores // grid.rows, part) + 1) if part % d == 0)
    tile = _PLAIN_TILE_BYTES
    too_wide = grid.rows > 1 and 2 * grid.across * tile > _WIDEST_PLAIN_ROW_BYTES
    if too_wide or 2 * part * tile > plan.l1_space() - _count_l1_bytes(plan, result):
        return untilize_by_rows(plan, source, result)
    slot = plan.allocate(result)
    space = plan.l1_space()
    inputs = 2 * part if 3 * part * tile <= space else part
    outputs = 2 * part if 4 * part * tile <= space else part
    before = round_up(source.tile_bytes, plan.memory_map.quantum_bytes)
    plan.launch([inputs * before, outputs * tile], CIRCULAR)
    return slot


def untilize_by_rows(plan: PlanBuilder, source: TensorSpec, result: TensorSpec, *, ahead: bool = True) -> int:
    """Untilize by rows of tiles; a core takes two if it may read ``ahead``, has several and none is padded."""
    if source.dtype is not BFLOAT8_B and source.dtype.is_block_float:
        raise InvalidSpecError("Only TILE layout is supported for BFLOAT8_B dtype!")
    grid = _measure_tile_grid(source)
    before, after = source.tile_bytes, result.tile_bytes
    fits = plan.l1_space() - _count_l1_bytes(plan, result) > grid.across * (before + after)
    slot = plan.allocate(result)
    padded = source.padded != source.shape
    # Without padding the library treats all matrices as one for this choice, but not for the blocks.
    seen = grid if padded else replace(grid, down=grid.rows)
    if fits and not _blocks_use_more_cores(plan, seen, grid.across * grid.down):
        if not padded and grid.rows > 1 and (part := _choose_row_part(plan, grid.across, before, after)):
            plan.launch([part * before, part * after])
            return slot
        depth = 2 if ahead and not padded and grid.rows > plan.memory_map.grid.cores else 1
        plan.launch([depth * grid.across * before, depth * grid.across * after])
        return slot

    def choose_buffers() -> list[list[int]]:
        tiles = _choose_block_tiles(plan, grid, plan.l1_space() // (before + after))
        return [[block * before, block * after] for block in tiles]

    plan.launch_kept(("untilize", _merge_outer(source), _merge_outer(result), fits), choose_buffers)
    return slot


def _choose_row_part(plan: PlanBuilder, across: int, before: int, after: int) -> int:
    """Return the tiles taken at a time from rows that do not fit half of L1 twice; 0: they fit."""
    half = plan.memory_map.architecture.l1_bytes_per_core // 2 - plan.memory_map.l1_base_address
    if across <= half // (2 * before):
        return 0
    most = half // (before + after)
    return max(part for part in range(1, most + 1) if across % part == 0)


def _merge_outer(spec: TensorSpec) -> TensorSpec:
    """Return the spec as the kernels see it, with outer dimensions merged."""
    shape = spec.shape
    return spec if len(shape) <= 4 else replace(spec, shape=(prod(shape[:-3]), *shape[-3:]))


@dataclass(frozen=True, slots=True)
class _TileGrid:
    across: int
    """Tiles per row."""
    down: int
    """Rows of tiles of one matrix."""
    rows: int
    """Rows of tiles of all matrices."""


def _measure_tile_grid(spec: TensorSpec) -> _TileGrid:
    padded = (1, 1, *replace(spec, layout=TILE).padded)
    across, down = padded[-1] // 32, padded[-2] // 32
    return _TileGrid(across, down, prod(padded[:-2]) * down)


def _count_l1_bytes(plan: PlanBuilder, spec: TensorSpec) -> int:
    return place(spec, plan.memory_map).taken_bytes_per_bank if spec.memory is L1 else 0


def _blocks_use_more_cores(plan: PlanBuilder, grid: _TileGrid, tiles: int) -> bool:
    """Return whether square blocks of wide rows keep more cores busy than whole rows."""
    if grid.across <= _WIDE_ROW_TILES or (grid.down <= _WIDE_ROW_TILES and grid.across <= grid.down):
        return False
    cores = plan.memory_map.grid.cores
    rows_per_core = ceil_div(grid.rows, cores)
    block = _choose_square_block(cores, tiles, grid.across, grid.down)
    return ceil_div(grid.rows, rows_per_core) < ceil_div(grid.across, block) * ceil_div(grid.down, block)


@lru_cache(maxsize=1024)
def _choose_square_block(cores: int, tiles: int, across: int, down: int) -> int:
    """Return the side of the smallest square block that holds a core's share and needs fewer blocks than cores."""
    share = ceil_div(tiles, cores)
    side = isqrt(share)
    if side * side != share:
        side += 1
    for candidate in range(max(side, 1), across * down + 1):
        if ceil_div(across, candidate) * ceil_div(down, candidate) < cores:
            return candidate
    return 1


def _choose_block_tiles(plan: PlanBuilder, grid: _TileGrid, most: int) -> list[int]:
    """Return the tiles that a core holds at a time when the matrix is cut into square blocks: the first cores, and
    those of the last column.
    """
    cores = plan.memory_map.grid.cores
    side = part = _choose_square_block(cores, grid.across * grid.down, grid.across, grid.down)
    if side > most:
        try:
            side, part = _choose_smaller_blocks(cores, grid.across, grid.down, most)
        except InvalidSpecError as error:
            plan.refuse(error.message)
    # The last column of blocks is not cut into parts.
    return [tiles for tiles in (part if grid.across >= side else 0, grid.across % side) if tiles]


@lru_cache(maxsize=1024)
def _choose_smaller_blocks(cores: int, across: int, down: int, most: int) -> tuple[int, int]:
    """Return the side of the blocks, and of the parts that they are processed in, of which one fits."""
    if most < 1:
        raise InvalidSpecError("single_block_size_limit must be at least 1")
    if ceil_div(across, most) * ceil_div(down, most) < cores:
        return most, most
    best: tuple[int, int, int] | None = None
    found = (0, 0)
    for part in range(most - 1, 0, -1):
        for times in range(2, ceil_div(across, part) + 1):
            side = times * part
            blocks = ceil_div(across, side) * ceil_div(down, side)
            if blocks <= cores and across % side < most and (best is None or (blocks, -times) > best[:2]):
                best, found = (blocks, -times, part), (side, part)
    if best is None:
        raise InvalidSpecError("No solution found for single_block_size")
    return found


RECORDS = (
    build_record(
        format_call("to_layout", [EXAMPLE_TENSOR], {"layout": "row_major"}),
        to_layout,
        Argument("layout", 0),
        verified_with_shards=False,
    ),
)
