# SPDX-License-Identifier: Apache-2.0
"""Scaled dot product attention of one new row of each user against a cache."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT16, DRAM, INT32, L1, UINT16
from ttmem.twin.operations.attention import ATTENTION_ARGUMENTS, ATTENTION_TYPES, count_cores
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import (
    allocate_results,
    compute_aligned_page_bytes,
    dtype_name,
    layout_name,
    memory_layout_name,
)
from ttmem.twin.operations.heads import measure_padded_matrix
from ttmem.twin.operations.plan import Call, NoRuleError, Plan, PlanBuilder
from ttmem.twin.operations.record import Argument, Step, has_float32_sums
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import InvalidSpecError, Shard, TensorSpec

_PAGED_CONFIG = {"k_chunk_size": 32, "max_cores_per_head_batch": 1}
"""The library's default for paged caches."""
_MOST_CORES_PER_HEAD = 16
"""The default of a configuration."""
_MOST_IN_A_TREE = 64
_REGISTERS = 8
"""The number of tiles that fit the registers."""


def decode(call: Call, plan: PlanBuilder) -> Plan:
    """Plan one query per user, [1, B, heads, depth], against its cache; cores that share a head reduce in a tree."""
    query, key, value = call.inputs[:3]
    is_paged = call.name.startswith("transformer.paged")
    table = call.tensor("page_table_tensor", 3) if is_paged else None
    position, mask = call.tensor("cur_pos_tensor"), call.tensor("attn_mask")
    sink = call.tensor("attention_sink")
    if any(len(spec.shape) != 4 for spec in (query, key, value)) or is_paged != (table is not None):
        return plan.unknown("decode attention whose tensors are not of rank 4, or without a page table")
    if table is not None and len(table.shape) != 2:
        return plan.unknown("decode attention with a page table that is not of rank 2")
    is_causal = bool(call.arguments["is_causal"])
    if is_causal and position is None and not call.arguments.get("cur_pos"):
        return plan.unknown("causal decode attention without positions")
    config = call.arguments["program_config"] or (_PAGED_CONFIG if is_paged else {})
    chunk = _choose_chunk(config, key, is_paged=is_paged)
    batch, heads, depth = query.shape[1:]
    key_heads, wide, deep = key.shape[1], chunk // 32 or _REGISTERS, ceil_div(depth, 32)
    if not chunk and has_float32_sums(call):
        wide //= 2  # as many as the registers hold
    high = ceil_div(heads, 32)
    users = _count_users(table) if table is not None else key.shape[0]
    result = replace(query, shape=(query.shape[0], users, heads, depth), memory=call.memory or DRAM, shard=call.shard)
    (slot,) = allocate_results(plan, [result], _find_faults(call, result, table, chunk))
    sharing = _count_cores_per_head(plan, config, batch, key_heads)
    is_half = is_causal and heads <= 16 and query.dtype is BFLOAT16
    tile = BFLOAT16.tile_bytes() // (2 if is_half else 1)
    plain = BFLOAT16.tile_bytes()
    queries = high * deep * (tile if is_half else query.tile_bytes)
    masks = high * wide * (mask.tile_bytes if mask is not None else tile)
    keys, values = (2 * wide * deep * spec.tile_bytes for spec in (key, value))
    buffers = [queries, keys, values, masks, *([high * tile] if sink else []), tile, high * tile, high * tile]
    if any(spec is not None and spec.shard is not None and spec.memory is not L1 for spec in (position, table)):
        plan.refuse("Only L1 buffers can have an associated circular buffer!")
    if position is not None:
        # One of the two is the tensor itself if it is sharded.
        buffers += [compute_aligned_page_bytes(plan, position)] * (1 if position.shard is not None else 2)
    if table is not None and table.shard is None:
        buffers.append(compute_aligned_page_bytes(plan, table))
    window = [masks] if call.arguments["sliding_window_size"] else []
    buffers += [queries, plain, tile, *window, high * wide * tile, *[high * deep * tile] * 2, *[high * tile] * 7]
    buffers += [*[high * deep * tile] * 2, *[high * tile] * 2]
    if sharing > 1:
        buffers.append((high * deep + 2 * high) * (sharing - 1) * tile)
    written = [] if result.shard is not None else [high * deep * query.tile_bytes]
    plan.launch([*buffers, *written], CIRCULAR)
    return plan.finish(slot, result)


def _count_users(table: TensorSpec) -> int:
    """Return the number of users; each core with a shard of a page table has all of it."""
    rows, cores = measure_padded_matrix(table)[0], table.shard.cores if isinstance(table.shard, Shard) else 1
    if rows % cores:
        raise NoRuleError("a page table that is not equal on all cores")
    return rows // cores


def _choose_chunk(config: Mapping[str, Any], key: TensorSpec, *, is_paged: bool) -> int:
    """Return the rows of a cache per step; 0: as many as fit the registers."""
    chunk = int(config.get("k_chunk_size") or 0)
    if chunk & (chunk - 1):
        raise InvalidSpecError(f"User provided k_chunk_size must be power of 2, got: {chunk}")
    if chunk % 32:
        raise InvalidSpecError(f"User provided k_chunk_size must be multiple of 32, got: {chunk}")
    chunk = chunk or (0 if is_paged else _find_power_of_two_divisor(key.shape[-2]))
    if chunk % 32:
        raise InvalidSpecError(
            f"Chunk size must be multiple of 32, but the maximum calculated k_chunk_size is: {chunk}"
        )
    return chunk


def _find_faults(call: Call, result: TensorSpec, table: TensorSpec | None, chunk: int) -> Iterator[str]:
    """Yield the library's complaints in its order; it checks after it allocated the result."""
    query, key, value = call.inputs[:3]
    for spec in (query, key, value):
        yield f"Unsupported data type {dtype_name(spec.dtype)}." if spec.dtype not in ATTENTION_TYPES else ""
    yield "Inputs to SDPA must be tilized except for Q" if any(not spec.is_tiled for spec in (key, value)) else ""
    if isinstance(query.shard, Shard) and query.shard.kind != "height":
        yield (f"Q tensor memory layout must be HEIGHT_SHARDED when sharded but got {memory_layout_name(query)}")
    if query.shard is None and query.memory is not DRAM:
        yield f"Q tensor buffer type must be DRAM when not sharded but got BufferType::{query.memory.name}"
    if not query.is_tiled and query.shard is None:
        yield (
            "ROW_MAJOR Q is only supported when Q is HEIGHT_SHARDED in L1; interleaved ROW_MAJOR Q is not supported. "
            "Convert Q to TILE layout or shard it."
        )
    for number, spec in enumerate((key, value), 1):
        if spec.memory is not DRAM:
            yield f"Input tensor {number} buffer type must be DRAM but got BufferType::{spec.memory.name}"
    if not query.is_tiled and result.shard is None:
        yield (
            "ROW_MAJOR Q produces a ROW_MAJOR output, which requires a HEIGHT_SHARDED output memory config; got "
            f"{memory_layout_name(result)}"
        )
    if isinstance(result.shard, Shard) and result.shard.kind != "height":
        yield (f"Output memory config layout must be HEIGHT_SHARDED when sharded but got {memory_layout_name(result)}")
    position = call.tensor("cur_pos_tensor")
    if position is not None and position.shard is None:
        rows, places = measure_padded_matrix(position) if len(position.shape) > 1 else (1, 0)
        if rows * prod(position.shape[:-2]) > 1:
            shape = [*position.shape[:-2], rows, places]
            yield (
                f"cur_pos tensor must hold all positions in its last dim (e.g. [B] or [1, B]), got shape Shape({shape})"
            )
    yield from _find_page_faults(call, table) if table is not None else _find_cache_faults(query, key, value, chunk)
    if key.shape[1] != value.shape[1]:
        yield (
            f"Flash decode expects K and V to have same number of heads, but got {key.shape[1]} and {value.shape[1]}"
        )
    if key.shape[1] > 1:
        yield "Sharded output not supported for GQA" if result.shard is not None else ""
        if query.dtype is not BFLOAT16:
            yield f"GQA expects BFLOAT16 input tensor, but got {dtype_name(query.dtype)}"
        if query.shape[2] % key.shape[1]:
            yield f"GQA expects Q to have a multiple of K heads, but got {query.shape[2]} and {key.shape[1]}"


def _find_cache_faults(query: TensorSpec, key: TensorSpec, value: TensorSpec, chunk: int) -> Iterator[str]:
    batch = query.shape[1]
    for name, spec in (("K", key), ("V", value)):
        yield f"{name} tensor batch size ({spec.shape[0]}) must equal B ({batch})" if spec.shape[0] != batch else ""
    yield f"Q tensor batch size must be 1 for decode mode but got {query.shape[0]}" if query.shape[0] != 1 else ""
    rows, others = (round_up(spec.shape[-2], 32) for spec in (key, value))
    yield f"K and V tensors must have the same sequence length. K: {rows}, V: {others}" if rows != others else ""
    yield f"K sequence length must be multiple of chunk size, got: {rows} and {chunk}" if rows % chunk else ""
    width = measure_padded_matrix(query)[1]
    for name, spec in (("K", key), ("V", value)):
        if (own := measure_padded_matrix(spec)[1]) != width:
            yield f"{name} tensor hidden dimension ({own}) must equal Q tensor hidden dimension ({width})"


def _find_page_faults(call: Call, table: TensorSpec) -> Iterator[str]:
    query, key, value = call.inputs[:3]
    position = call.tensor("cur_pos_tensor")
    batch = query.shape[1] if table.shard is not None else measure_padded_matrix(table)[0]
    if call.arguments["is_causal"] and position is not None:
        yield f"Expect cur_pos to be INT32, got {dtype_name(position.dtype)}" if position.dtype is not INT32 else ""
        yield f"Expect cur_pos to be ROW_MAJOR, got {layout_name(position)}" if position.is_tiled else ""
        if position.shard is None and position.shape[-1] != batch:
            yield f"cur_pos must have batch size equal to Q, got {position.shape[0]} and {batch}"
    if table.shard is not None and table.dtype is not UINT16:
        yield "Error: SDPA currently only supports UINT16 datatype for sharded configurations"
    if table.shard is None and table.dtype is not INT32:
        yield "Error: SDPA currently only supports INT32 datatype"
    yield f"Page table tensor layout must be ROW_MAJOR but got {layout_name(table)}" if table.is_tiled else ""
    if isinstance(table.shard, Shard) and table.shape[0] // table.shard.cores != batch:
        yield f"Page_table must have shard height batch_size {batch} equal to Q on {table.shard.cores} cores"
    yield "K and V must have same block size" if round_up(key.shape[-2], 32) != round_up(value.shape[-2], 32) else ""
    if len({measure_padded_matrix(spec)[1] for spec in (query, key, value)}) > 1:
        yield "Q, K, V must have same hidden size"


def _find_power_of_two_divisor(rows: int) -> int:
    """Return the largest power of two up to 512 that divides the rows."""
    return min(512, max(rows & -rows, 2))


def _count_cores_per_head(plan: PlanBuilder, config: Mapping[str, Any], batch: int, key_heads: int) -> int:
    cores = count_cores(plan, config)
    most = int(config.get("max_cores_per_head_batch", _MOST_CORES_PER_HEAD if config else cores))
    if cores > plan.memory_map.grid.cores:
        plan.refuse(f"Cores available ({cores}) exceeds grid size ({plan.memory_map.grid.cores})")
    if cores < batch:
        plan.refuse(f"Cores available ({cores}) must be >= batch size ({batch})")
    sharing = max(1, min(cores, most * batch * key_heads) // batch // key_heads)
    if sharing > _MOST_IN_A_TREE:
        plan.refuse(f"Tree reduction max 6 rounds ({_MOST_IN_A_TREE} cores/head), got {sharing} cores/head")
    return sharing


_QUERY: Step = {**EXAMPLE_TENSOR, "shape": [1, 2, 8, 64]}
_CACHE: Step = {**EXAMPLE_TENSOR, "shape": [2, 1, 64, 64]}
_TABLE: Step = {"shape": [2, 1], "dtype": "int32", "layout": "row_major", "memory": "DRAM"}
*_MADE, _PAGED = format_call(
    "transformer.paged_scaled_dot_product_attention_decode",
    [_QUERY, _CACHE, _CACHE, _TABLE, {**_TABLE, "shape": [1, 2]}],
    page_table_tensor={"tensor": "t3"},
    cur_pos_tensor={"tensor": "t4"},
)

RECORDS = (
    build_record(
        format_call("transformer.scaled_dot_product_attention_decode", [_QUERY, _CACHE, _CACHE], cur_pos=[0, 0]),
        decode,
        *ATTENTION_ARGUMENTS,
        *(Argument("cur_pos", default=None), Argument("sliding_window_size", default=None)),
        family="decode",
        verified_low_rank_and_rare_types=True,
    ),
    build_record(
        [*_MADE, {**_PAGED, "args": _PAGED["args"][:3]}],
        decode,
        *ATTENTION_ARGUMENTS,
        Argument("sliding_window_size", default=None),
        family="decode",
        verified_low_rank_and_rare_types=True,
    ),
)
