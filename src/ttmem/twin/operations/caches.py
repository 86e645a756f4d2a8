# SPDX-License-Identifier: Apache-2.0
"""Key and value caches: filled with a prompt, updated with a row of each user."""

from ttmem.base.arithmetic import round_up
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT8_B, BFLOAT16, DATA_TYPES, DRAM, FLOAT32, INT32, L1, UINT32, DataType
from ttmem.twin.operations.call_syntax import build_record, format_call, format_height_shards
from ttmem.twin.operations.elementwise import compute_aligned_page_bytes, describe_not_in_l1
from ttmem.twin.operations.plan import Call, NoRuleError, Plan, PlanBuilder
from ttmem.twin.operations.record import KERNEL_CONFIG, Argument, Step, choose_intermediate_dtype
from ttmem.twin.placement import compute_paging
from ttmem.twin.tensor_spec import Shard, TensorSpec

_CACHED_TYPES = (FLOAT32, BFLOAT16, BFLOAT8_B)
BFLOAT4_B = DATA_TYPES.find("bfloat4_b")
_MOST_USERS = 32
_MOST_DIMENSIONS = 4


def _check(call: Call, cache: TensorSpec, source: TensorSpec) -> None:
    """Run the library's first checks; raise NoRuleError for inputs that are not verified."""
    is_paged, fills_pages = "paged" in call.name, call.name.endswith("paged_fill_cache")
    if call.tensor("batch_idx_tensor") is not None:
        raise NoRuleError("a cache with batch_idx_tensor")
    if cache.shard is not None and not fills_pages:
        raise BadInputError("Only interleaved cache is supported")
    if (not source.is_tiled and "fused" in call.name) or (
        fills_pages and any(not spec.is_tiled for spec in (cache, source))
    ):
        raise NoRuleError("row-major caches, or row-major tensors that are written into a cache")
    if not cache.is_tiled or not source.is_tiled:
        raise BadInputError("a cache and its source must be tiled")
    if len(cache.shape) != 4 or len(source.shape) != 4:
        raise NoRuleError("a cache or source that is not of rank 4")
    if cache.dtype not in (*_CACHED_TYPES, *([BFLOAT4_B] if is_paged else [])):
        raise BadInputError("the data type of a cache must be a float")
    if source.shape[0] != 1 or source.tiles_across != cache.tiles_across:
        raise BadInputError("the source of a cache must have batch 1 and the width of the cache")
    if source.shard is not None and not _holds_rows(source):
        raise BadInputError("shards that are written into a cache must be in L1 and hold whole rows")
    if not is_paged and source.shape[1] != cache.shape[1]:
        raise BadInputError("the source of a cache must have as many heads as the cache")


def _holds_rows(spec: TensorSpec) -> bool:
    paging, shard = compute_paging(spec), spec.shard
    return (
        isinstance(shard, Shard)
        and spec.memory is L1
        and shard.kind != "width"
        and shard.width == paging.physical_width
        and paging.physical_height % shard.height == 0
    )


def fill_cache(call: Call, plan: PlanBuilder) -> Plan:
    """Write into the existing cache; shards are read in place."""
    cache, source = call.inputs
    _check(call, cache, source)
    if cache.dtype is not source.dtype or source.shape[-2] > round_up(cache.shape[-2], 32):
        raise BadInputError("the source of a cache must have its type and no more rows")
    if source.shard is not None and round_up(source.shape[-2], 32) % source.shard.height:
        raise BadInputError("shards that fill a cache must divide the sequence")
    plan.launch([] if source.shard is not None else [2 * source.tile_bytes])
    return plan.finish(-1, cache)


def update_cache(call: Call, plan: PlanBuilder) -> Plan:
    """Update a row of each user: two users at a time are untilized, changed and tilized, then written by head."""
    cache, source = call.inputs
    _check(call, cache, source)
    users, rows = cache.shape[0], round_up(source.shape[-2], 32)
    offset = int(call.arguments["batch_offset"])
    if source.dtype not in _CACHED_TYPES or users > rows or offset + min(users, _MOST_USERS) > _MOST_USERS:
        raise BadInputError("an update of a cache must have a row for each user")
    across, tile = cache.tiles_across, cache.tile_bytes
    keeps = cache.dtype is FLOAT32
    """float32 is changed without conversion and not read ahead."""
    together = 2 - users % 2
    between = _choose_cache_dtype(call, cache).tile_bytes()
    ahead = 2 * together * across
    read = [] if source.shard is not None else [(1 if keeps else 2) * across * source.tile_bytes]
    patched = [ahead * between, (across if keeps else ahead) * between]
    plan.launch([ahead * tile, *read, *patched, rows * across * tile])
    return plan.finish(-1, cache)


def _choose_cache_dtype(call: Call, cache: TensorSpec) -> DataType:
    return FLOAT32 if cache.dtype is FLOAT32 else choose_intermediate_dtype(call)


def update_paged_cache(call: Call, plan: PlanBuilder) -> Plan:
    """Update a row of each user on the core of its shard."""
    cache, source = call.inputs[:2]
    _check_update(call, cache, source)
    buffers = [*_list_patch_buffers(call, cache, source), *_list_position_buffers(call, plan, source.shape[1])]
    plan.launch(buffers)
    return plan.finish(-1, cache)


def update_two_paged_caches(call: Call, plan: PlanBuilder) -> Plan:
    """Update keys and values together, on different cores."""
    keys, key_rows, values, value_rows = call.inputs[:4]
    for cache, source in ((keys, key_rows), (values, value_rows)):
        _check_update(call, cache, source)
    shards = [source.shard for source in (key_rows, value_rows)]
    if key_rows.shape != value_rows.shape or keys.shape != values.shape or keys.dtype is not values.dtype:
        raise NoRuleError("keys and values of different shapes or types")
    if any(one.intersects(two) for one in shards[0].ranges for two in shards[1].ranges):  # type: ignore[union-attr]
        raise BadInputError("keys and values that are written together must be on different cores")
    plan.launch(
        [*_list_patch_buffers(call, keys, key_rows), *_list_position_buffers(call, plan, key_rows.shape[1], fused=True)]
    )
    return plan.finish_all([(-1, keys), (-3, values)])


def _check_update(call: Call, cache: TensorSpec, source: TensorSpec) -> None:
    _check(call, cache, source)
    if source.shard is None or source.dtype not in (FLOAT32, BFLOAT16) or cache.memory is not DRAM:
        raise BadInputError("rows that are written into a cache must be shards of bfloat16 or float32")
    if source.shard.by_column or source.shape[-1] % 32:
        raise BadInputError("rows that are written into a cache must be distributed row by row and be whole tiles wide")


def _list_patch_buffers(call: Call, cache: TensorSpec, source: TensorSpec) -> list[int]:
    """Return the buffers of cache tiles: tilized, untilized, changed, and the results of all users."""
    across = source.tiles_across
    between = 2 * across * _choose_cache_dtype(call, cache).tile_bytes()
    tile = cache.tile_bytes
    return [2 * across * tile, between, between, source.shape[1] * across * tile]


def _list_position_buffers(call: Call, plan: PlanBuilder, users: int, *, fused: bool = False) -> list[int]:
    """Return the buffers of positions: an index per user, and the page table of a paged cache."""
    table, numbers = call.tensor("page_table"), call.tensor("update_idxs_tensor")
    cache = call.inputs[0]
    found: list[int] = []
    if any(spec is not None and spec.shard is not None for spec in (table, numbers)):
        raise NoRuleError("sharded positions or page tables")
    if numbers is not None:
        if numbers.dtype is not INT32 or numbers.is_tiled or numbers.memory is not DRAM:
            raise BadInputError("positions in a cache must be row-major int32 in DRAM")
        if numbers.shard is not None or numbers.shape[0] != users:
            raise BadInputError("a cache needs a position for each user")
        found.append(compute_aligned_page_bytes(plan, numbers) if fused else INT32.tile_bytes())
    elif len(call.arguments["update_idxs"]) != users:
        raise BadInputError("a cache needs a position for each user")
    if table is None:
        if cache.shape[0] != (1 if call.arguments["share_cache"] else users):
            raise BadInputError("a cache without pages needs a part for each user")
        return found
    if numbers is None or table.dtype is not INT32 or table.is_tiled or table.shard is not None:
        raise BadInputError("a paged cache needs a page table of int32, and positions in a tensor")
    if table.shape[0] != users or table.shape[1] > cache.shape[0]:
        raise BadInputError("a page table needs a row for each user, and no more pages than the cache")
    page = table.shape[-1] * 4
    return [*found, compute_aligned_page_bytes(plan, table) if fused else page]


def fill_paged_cache(call: Call, plan: PlanBuilder) -> Plan:
    """Fill the pages of one user from a whole prompt, a row of tiles at a time."""
    cache, source, table = call.inputs[:3]
    which = call.tensor("batch_idx_tensor")
    _check_paged_fill(call, cache, source, table)
    numbers = [] if which is None else [4 * which.elements]
    if which is not None and (which.is_tiled or which.memory is not DRAM or which.elements != 1):
        raise BadInputError("batch_idx_tensor must be one row-major number in DRAM")
    ahead = 2 * source.tiles_across * source.tile_bytes
    plan.launch([ahead, compute_aligned_page_bytes(plan, table), *numbers])
    return plan.finish(-1, cache)


def _check_paged_fill(call: Call, cache: TensorSpec, source: TensorSpec, table: TensorSpec) -> None:
    _check(call, cache, source)
    if source.shard is not None or cache.dtype is not source.dtype or source.shape[-1] % 32:
        raise BadInputError("the source of a paged cache must be interleaved tiles of its type")
    if table.dtype is not INT32 or table.shard is not None:
        raise BadInputError("a page table must be interleaved int32")
    if table.is_tiled or len(table.shape) != 2:
        raise NoRuleError("a page table that is tiled or not of rank 2")
    if (
        source.shape[1] != cache.shape[1]
        or source.shape[-2] > cache.shape[-2] * table.shape[-1]
        or cache.shape[-2] % 32
    ):
        raise BadInputError("the source of a paged cache must have as many heads and no more rows")
    if call.tensor("batch_idx_tensor") is None and int(call.arguments["batch_idx"]) >= table.shape[0]:
        raise BadInputError("batch_idx is not in the page table")


def plus_one(call: Call, plan: PlanBuilder) -> Plan:
    """Increment the position of each user in place."""
    source = call.inputs[0]
    if source.dtype not in (INT32, UINT32):
        raise BadInputError("Only INT32 and UINT32 is supported for inputs!")
    if source.is_tiled:
        raise BadInputError("Only ROW_MAJOR layout is supported for inputs!")
    if len(source.shape) > _MOST_DIMENSIONS:
        raise BadInputError("must have 1 to 4 dimensions for input tensor")
    if source.shard is not None and source.memory is not L1:
        raise BadInputError(describe_not_in_l1("in0", "input", source))
    if isinstance(source.shard, Shard):
        alignment = plan.memory_map.page_alignment_bytes(L1)
        row, there = (
            4 * compute_paging(source).physical_width,
            source.shard.height * round_up(4 * source.shard.width, alignment),
        )
        if row > there:
            raise BadInputError(
                f"DFB 'in0' (entry_size {row} * num_entries 1 = {row} bytes) is larger than the per-bank allocation of "
                f"its borrowed TensorParameter 'input' ({there} bytes)."
            )
    plan.launch([compute_aligned_page_bytes(plan, source)] if source.shard is None else [])
    return plan.finish(-1, source)


NUMBERS: Step = {"dtype": "int32", "layout": "row_major", "memory": "DRAM"}


_CACHE: Step = {"shape": [1, 1, 64, 64], "dtype": "bfloat16", "layout": "tile", "memory": "DRAM"}
_ROWS: Step = {**_CACHE, "shape": [1, 1, 1, 64], **format_height_shards(1, 32, 64)}
_SECOND: Step = {**_ROWS, **format_height_shards(1, 32, 64, first_row=1)}
_BY_PLACE = (Argument("update_idxs", default=()), Argument("share_cache", default=False), KERNEL_CONFIG)
RECORDS = (
    build_record(
        format_call("fill_cache", [_CACHE] * 2, 0),
        fill_cache,
        Argument("batch_index", 0),
        family="cache",
        verified_with_shards=False,
    ),
    build_record(
        format_call("update_cache", [{**_CACHE, "shape": [32, 1, 64, 64]}, {**_CACHE, "shape": [1, 1, 32, 64]}], 0),
        update_cache,
        *(Argument("update_idx", 0), Argument("batch_offset", 1, 0), KERNEL_CONFIG),
        family="cache",
        verified_with_shards=False,
    ),
    build_record(
        format_call("experimental.paged_update_cache", [_CACHE, _ROWS], update_idxs=[0]),
        update_paged_cache,
        *_BY_PLACE,
        family="paged cache",
        verified_low_rank_and_rare_types=True,
        verified_with_shards=False,
    ),
    build_record(
        [
            *(steps := format_call("experimental.paged_fused_update_cache", [_CACHE, _ROWS, _CACHE, _SECOND]))[:-1],
            {**steps[-1], "kwargs": {"update_idxs": [0]}, "out": ["keys", "values"]},
        ],
        update_two_paged_caches,
        *_BY_PLACE,
        family="paged cache",
        verified_low_rank_and_rare_types=True,
        verified_with_shards=False,
    ),
    build_record(
        format_call("experimental.paged_fill_cache", [_CACHE, _CACHE, {**NUMBERS, "shape": [1, 1]}], batch_idx=0),
        fill_paged_cache,
        Argument("batch_idx", default=0),
        family="paged cache",
        verified_low_rank_and_rare_types=True,
        verified_with_shards=False,
    ),
    build_record(
        format_call("plus_one", [{**NUMBERS, "shape": [32]}]),
        plus_one,
        verified_low_rank_and_rare_types=True,
        verified_with_shards=False,
    ),
)
