# SPDX-License-Identifier: Apache-2.0
"""Scaled dot product attention: over whole sequences, and of one new row against a cache."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf, sqrt
from typing import Any

from ttmem._errors import BadInputError
from ttmem.allocator.operations import draws
from ttmem.allocator.operations.draws import EXAMPLE_TENSOR
from ttmem.allocator.operations.elementwise import aligned_page, double_buffered_tiles, result_like, spell_type
from ttmem.allocator.operations.kernel_config import (
    KERNEL_CONFIG,
    adds_in_float32,
    draw_kernel_config,
    type_between,
)
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.allocator.programs import CIRCULAR, end_of_stack
from ttmem.hardware import BFLOAT8_B, BFLOAT16, BLACKHOLE, DATA_TYPES, DRAM
from ttmem.tensors import TILE, InvalidSpecError, Shard, TensorSpec

_CHUNK = 32
"""Rows of queries and of keys that are worked on at a time, unless the caller says otherwise."""
_SUBBLOCKS = (
    (2, 4), (1, 8), (1, 7), (2, 3), (1, 6), (1, 5), (2, 2), (1, 4), (1, 3), (1, 2), (2, 1), (1, 1),
)  # fmt: skip
_COUNTER_BYTES = 96
_COUNTED_CHUNK = 64
_DEEPEST_COMPARED = 384
BFLOAT4_B = DATA_TYPES.find("bfloat4_b")
_TYPES = (BFLOAT16, BFLOAT8_B, BFLOAT4_B)
_PAGED_CONFIG = {"k_chunk_size": _CHUNK, "max_cores_per_head_batch": 1}
"""What the library assumes for paged caches."""
_MOST_CORES_PER_HEAD = 16
"""Where a configuration does not say."""
_MOST_IN_A_TREE = 64
_REGISTERS = 8
"""Tiles that the registers hold."""


def attention(call: Call, plan: PlanWriter) -> Plan:
    """Chunks of queries meet all chunks of keys in turn; a mask is divided by the scale first."""
    query, key, value = call.inputs[:3]
    mask = call.tensor("attn_mask", 3)
    if any(spec.layout is not TILE or spec.shard is not None or len(spec.shape) != 4 for spec in call.inputs):
        raise BadInputError("attention takes interleaved tiles of rank 4")
    is_causal = bool(call.arguments["is_causal"])
    if is_causal and mask is not None:
        raise BadInputError("attention is causal or has a mask, not both")
    scaled = 0
    scale = call.arguments["scale"]
    if mask is not None and (1 / sqrt(-(-query.shape[-1] // 32) * 32) if scale is None else scale) != 1.0:
        scaled = plan.allocate(mask)
        number = BFLOAT16 if mask.dtype.is_block_float else mask.dtype
        before, after = double_buffered_tiles(mask, mask)
        plan.launch([before, number.tile_bytes(), after], CIRCULAR)
    result = result_like(query, call.memory or DRAM)
    slot = plan.allocate(result)
    _check(plan, query, key, value, mask, is_causal=is_causal)
    buffers = _buffers(plan, call, mask)
    is_deep = query.shape[-1] > _DEEPEST_COMPARED and is_causal and plan.memory_map.architecture is BLACKHOLE
    most = end_of_stack([*buffers, 2 * _COUNTER_BYTES], plan.memory_map) - plan.memory_map.l1_base_address
    why = "counters of causal attention with heads this deep" if is_deep else ""
    plan.launch(buffers, CIRCULAR, at_least=why, at_most_bytes=most)
    plan.free(scaled)
    return plan.finish(slot, result)


def _check(
    plan: PlanWriter,
    query: TensorSpec,
    key: TensorSpec,
    value: TensorSpec,
    mask: TensorSpec | None,
    *,
    is_causal: bool,
) -> None:
    """What the library looks at when the result is there."""
    for spec in (query, key, value):
        if spec.dtype not in _TYPES:
            plan.refuse(
                "Data type of input tensor must be BFLOAT16, BFLOAT8_B, or BFLOAT4_B and is " + spell_type(spec.dtype)
            )
    if mask is not None and mask.dtype not in _TYPES:
        plan.refuse("When mask is provided to SDPA, it must be in BF16, BFP8, or BFP4 dataformat")
    if query.shape[-1] % 32:
        plan.refuse("Padding is not supported on the head_dim dimension")
    for name, side, spec in (("Q", -2, query), ("K", -1, key)):
        if mask is not None and len(mask.shape) == 4 and mask.shape[side] != spec.shape[-2]:
            plan.refuse(f"Mask sequence length must match {name} sequence length")
    if mask is not None and not all(own in (1, other) for own, other in zip(mask.shape[:2], query.shape, strict=False)):
        plan.refuse("Mask batch and num_heads must either be 1 or must match Q")
    if is_causal and query.shape[-2] != key.shape[-2]:
        sizes = f"Got Q: {query.shape[-2]}, K: {key.shape[-2]}"
        plan.refuse(f"Causal SDPA requires Q and K to have the same sequence length. {sizes}")
    if key.shape != value.shape or (key.shape[0], key.shape[3]) != (query.shape[0], query.shape[3]):
        plan.refuse("K and V must match, and Q in batch and hidden dim")
    if query.shape[1] % key.shape[1]:
        plan.refuse(
            "Q num_heads must be >= K num_heads and divisible by K num_heads. "
            f"Got Q: {query.shape[1]}, K: {key.shape[1]}"
        )


def _deals_in_pairs(query: TensorSpec, config: Mapping[str, Any]) -> bool:
    """Whether a light and a heavy chunk of a causal sequence go to the same core."""
    return -(-query.shape[-2] // int(config.get("q_chunk_size", _CHUNK))) % 2 == 0


def _buffers(plan: PlanWriter, call: Call, mask: TensorSpec | None) -> list[int]:
    query, key, value = call.inputs[:3]
    config, is_causal = call.arguments["program_config"] or {}, bool(call.arguments["is_causal"])
    batch, heads, rows, depth = query.shape
    keys = key.shape[-2]
    chunk, key_chunk = (int(config.get(name, _CHUNK)) for name in ("q_chunk_size", "k_chunk_size"))
    cores = _cores(plan, config)
    high, wide, deep = chunk // 32, key_chunk // 32, depth // 32
    total = batch * heads * -(-rows // chunk)
    # Causal work is dealt out in pairs, one light and one heavy chunk together.
    pairs = is_causal and _deals_in_pairs(query, config)
    most = 2 * -(-(total // 2) // cores) if pairs else -(-total // cores)
    plain, between = BFLOAT16.tile_bytes(), type_between(call).tile_bytes()
    flows = not adds_in_float32(call)
    """Without sums in float32 rows leave as soon as they are done."""
    buffers = [
        high * deep * (2 if most > 1 else 1) * query.dtype.tile_bytes(),
        2 * wide * deep * key.dtype.tile_bytes(),
        2 * wide * deep * value.dtype.tile_bytes(),
    ]
    if pairs and plan.memory_map.architecture is BLACKHOLE and cores >= _cores_that_count(key, chunk, flows):
        buffers.append(_COUNTER_BYTES)
    if mask is not None:
        buffers.append(2 * high * wide * mask.dtype.tile_bytes())
    elif is_causal or (flows and (rows % chunk or keys % key_chunk)):
        buffers.append((1 + is_causal + (not is_causal and keys % 32 > 0)) * plain)
    elif rows % chunk or keys % key_chunk:
        buffers.append(2 * high * wide * BFLOAT4_B.tile_bytes())
    buffers += [plain] * (3 if flows else 2)
    largest, summed = [high * plain] * 2, [high * between] * 2
    buffers += [high * wide * between, high * deep * plain, high * deep * plain, *largest, *summed, high * plain]
    finished = 2 * _finished_rows(high, deep) if flows else high
    return [*buffers, finished * deep * query.dtype.tile_bytes()]


def _cores(plan: PlanWriter, config: Mapping[str, Any]) -> int:
    grid = plan.memory_map.grid
    columns, rows = config.get("compute_with_storage_grid_size", (grid.columns, grid.rows))
    if columns > grid.columns or rows > grid.rows:
        raise BadInputError(
            f"a grid of {columns}x{rows} cores is more than the {grid.columns}x{grid.rows} of the board"
        )
    return int(columns * rows)


def _cores_that_count(key: TensorSpec, chunk: int, flows: bool) -> float:
    """From so many on, Blackhole keeps a few counters beside the values: where keys come slower than they are used."""
    if chunk > _COUNTED_CHUNK or key.shape[-1] > _DEEPEST_COMPARED or (key.dtype.is_block_float and not flows):
        return inf
    return 32 if flows and not key.dtype.is_block_float and key.shape[-1] >= 128 else 64


def _finished_rows(high: int, deep: int) -> int:
    """Rows of tiles that leave together: those of the largest subblock that divides the chunk."""
    height, width = next(block for block in _SUBBLOCKS if high % block[0] == 0 and deep % block[1] == 0)
    return 2 if height == 1 and 2 * width <= _REGISTERS and high >= 2 else height


def decode(call: Call, plan: PlanWriter) -> Plan:
    """One query per sample, [1, B, heads, depth], against its cache; cores that share a head gather in a tree."""
    query, key, value = call.inputs[:3]
    is_paged = call.name.startswith("transformer.paged")
    table = call.tensor("page_table_tensor", 3) if is_paged else None
    position, mask = call.tensor("cur_pos_tensor"), call.tensor("attn_mask")
    sink = call.tensor("attention_sink")
    if any(spec.shard is not None for spec in call.inputs[1:]) or query.layout is not TILE or len(query.shape) != 4:
        return plan.give_up("attention with sharded caches and places, or of row-major queries")
    is_causal = bool(call.arguments["is_causal"])
    if is_causal and position is None and not call.arguments.get("cur_pos"):
        raise BadInputError("causal attention of new rows needs their places: cur_pos_tensor, or cur_pos without pages")
    if is_paged != (table is not None) or any(len(spec.shape) != 4 for spec in (key, value)):
        raise BadInputError("attention of new rows takes caches of rank 4, and a page table where they are paged")
    config = call.arguments["program_config"] or (
        {"k_chunk_size": 32, "max_cores_per_head_batch": 1} if is_paged else {}
    )
    batch, heads, depth = query.shape[1:]
    chunk = int(config.get("k_chunk_size") or 0) or (0 if is_paged else _power_of_two_in(key.shape[-2]))
    if chunk % 32:
        raise InvalidSpecError(
            f"Chunk size must be multiple of 32, but the maximum calculated k_chunk_size is: {chunk}"
        )
    key_heads, wide, deep = key.shape[1], chunk // 32 or _REGISTERS, depth // 32
    if not chunk and adds_in_float32(call):
        wide //= 2  # as many as the registers hold
    high = -(-heads // 32)
    result = replace(query, memory=call.memory or DRAM, shard=call.shard)
    other = next((name for name, spec in (("K", key), ("V", value)) if not is_paged and spec.shape[0] != batch), "")
    unequal = f"{other} tensor batch size ({(value if other == 'V' else key).shape[0]}) must equal B ({batch})"
    if other and result.shard is not None:
        raise BadInputError(unequal)
    slot = plan.allocate(result)
    for spec in (query, key, value):
        if spec.dtype not in _TYPES:
            plan.refuse(f"Unsupported data type {spell_type(spec.dtype)}.")
    if isinstance(query.shard, Shard) and query.shard.kind != "height":
        plan.refuse(
            "Q tensor memory layout must be HEIGHT_SHARDED when sharded but got "
            f"TensorMemoryLayout::{query.shard.kind.upper()}_SHARDED"
        )
    if other:
        plan.refuse(unequal)
    if not is_paged and key.shape[-2] % chunk:
        plan.refuse(f"K sequence length must be multiple of chunk size, got: {key.shape[-2]} and {chunk}")
    sharing = _cores_per_head(plan, config, batch, key_heads)
    is_half = is_causal and heads <= 16 and query.dtype is BFLOAT16
    tile = BFLOAT16.tile_bytes() // (2 if is_half else 1)
    plain = BFLOAT16.tile_bytes()
    queries = high * deep * (tile if is_half else query.dtype.tile_bytes())
    masks = high * wide * (mask.dtype.tile_bytes() if mask is not None else tile)
    keys, values = (2 * wide * deep * spec.dtype.tile_bytes() for spec in (key, value))
    if result.shard is not None and key_heads > 1:
        plan.refuse("Sharded output not supported for GQA")
    buffers = [queries, keys, values, masks, *([high * tile] if sink else []), tile, high * tile, high * tile]
    if position is not None:
        buffers += [aligned_page(plan, position)] * 2
    if table is not None:
        buffers.append(aligned_page(plan, table))
    window = [masks] if call.arguments["sliding_window_size"] else []
    buffers += [queries, plain, tile, *window, high * wide * tile, *[high * deep * tile] * 2, *[high * tile] * 7]
    buffers += [*[high * deep * tile] * 2, *[high * tile] * 2]
    if sharing > 1:
        buffers.append((high * deep + 2 * high) * (sharing - 1) * tile)
    written = [] if result.shard is not None else [high * deep * query.dtype.tile_bytes()]
    plan.launch([*buffers, *written], CIRCULAR)
    return plan.finish(slot, result)


def _power_of_two_in(rows: int) -> int:
    """The largest that divides the cache, up to 512."""
    return min(512, max(rows & -rows, 2))


def _cores_per_head(plan: PlanWriter, config: Mapping[str, Any], batch: int, key_heads: int) -> int:
    cores = _cores(plan, config)
    most = int(config.get("max_cores_per_head_batch", _MOST_CORES_PER_HEAD if config else cores))
    if cores < batch:
        plan.refuse(f"Cores available ({cores}) must be >= batch size ({batch})")
    sharing = max(1, min(cores, most * batch * key_heads) // batch // key_heads)
    if sharing > _MOST_IN_A_TREE:
        plan.refuse(f"Tree reduction max 6 rounds ({_MOST_IN_A_TREE} cores/head), got {sharing} cores/head")
    return sharing


def _draw_attention(record: OperationRecord, choose: Choose) -> list[Step]:
    batch, heads = choose.one_of((1, 1, 2, 4, 9)), choose.one_of((1, 2, 8, 12, 32))
    depth = choose.one_of((32, 64, 64, 64, 80, 96, 128, 256))
    rows = choose.one_of((1, 17, 32, 49, 64, 100, 128, 197, 256, 400))
    keys = rows if choose.integer(0, 2) else choose.one_of((1, 32, 49, 77, 128, 300))
    groups = choose.one_of([heads, *(n for n in (1, 2, 4) if heads % n == 0)])
    sizes = ([batch, heads, rows, depth], [batch, groups, keys, depth], [batch, groups, keys, depth])
    tensors, named = [_tensor(choose, size) for size in sizes], dict[str, Any](is_causal=False)
    kind = choose.integer(0, 2)
    if kind == 0 and rows == keys:
        named["is_causal"] = True
    elif kind == 1:
        named["attn_mask"] = {"tensor": "t3"}
        size = [choose.one_of((1, batch)), choose.one_of((1, heads)), rows, keys]
        tensors.append({**_tensor(choose, size), "memory": "DRAM"})
    if choose.integer(0, 1):
        named["scale"] = choose.one_of((0.125, 1.0))
    if not choose.integer(0, 3):
        config = {
            "compute_with_storage_grid_size": {"tuple": [choose.integer(3, 8), choose.integer(3, 8)]},
            "q_chunk_size": choose.one_of((32, 64, 128, 256)),
            "k_chunk_size": choose.one_of((32, 64, 128, 256)),
        }
        named["program_config"] = {"new": "ttnn.SDPAProgramConfig", "kwargs": config}
    *made, call = write_call(record.name, tensors, memory=draws.wish(choose), **named, **draw_kernel_config(choose))
    return [*made, {**call, "args": call["args"][:3]}]


def _draw_decode(record: OperationRecord, choose: Choose) -> list[Step]:
    batch, depth = choose.one_of((1, 2, 4, 8, 16, 32)), choose.one_of((32, 64, 128))
    key_heads = choose.one_of((1, 2, 4, 8))
    heads = key_heads * choose.one_of((1, 2, 4))
    named: dict[str, Any] = {}
    numbers = {"dtype": "int32", "layout": "row_major", "memory": "DRAM"}
    if "paged" in record.name:
        blocks, rows = choose.one_of((4, 8, 16)), choose.one_of((32, 64, 128))
        cache = [batch * blocks, key_heads, rows, depth]
        named["page_table_tensor"] = {"tensor": "t3"}
        more: list[Step] = [{**numbers, "shape": [batch, blocks]}]
    else:
        cache, more = (
            [choose.one_of((batch, batch, batch, 1)), key_heads, choose.one_of((32, 64, 256, 1024, 96)), depth],
            [],
        )
    if choose.integer(0, 1) or more:
        named["cur_pos_tensor"] = {"tensor": f"t{3 + len(more)}"}
        more.append({**numbers, "shape": [1, batch]})
    else:
        named["cur_pos"] = [0] * batch
    if not choose.integer(0, 2):
        config = {
            "compute_with_storage_grid_size": {"tuple": [8, choose.integer(4, 7)]},
            "q_chunk_size": choose.one_of((0, 32)),
            "k_chunk_size": choose.one_of((0, 32, 64)),
        }
        named["program_config"] = {"new": "ttnn.SDPAProgramConfig", "kwargs": config}
    query = {**_tensor(choose, [1, batch, heads, depth]), "memory": "DRAM", "dtype": "bfloat16"}
    where: Step = {"memory": draws.wish(choose)}
    if choose.integer(0, 1):
        query |= draws.height_shards(batch, 32, depth)
        if key_heads == 1 and choose.integer(0, 1):
            where = draws.height_shards(batch, 32, depth)
    if not choose.integer(0, 3):
        named["sliding_window_size"] = 64
    caches = [{**_tensor(choose, cache), "memory": "DRAM"} for _ in range(2)]
    *made, call = write_call(record.name, [query, *caches, *more], **where, **named, **draw_kernel_config(choose))
    return [*made, {**call, "args": call["args"][:3]}]


def _tensor(choose: Choose, sizes: list[int]) -> Step:
    """Of a type that attention takes, mostly."""
    made = draws.tensor(choose, sizes, tile_only=True, odd=True)
    return {**made, "dtype": "bfloat16"} if made["dtype"] == "float32" and choose.integer(0, 9) else made


_HEADS: Step = {**EXAMPLE_TENSOR, "shape": [1, 2, 64, 64]}

_QUERY: Step = {**EXAMPLE_TENSOR, "shape": [1, 2, 8, 64]}
_CACHE: Step = {**EXAMPLE_TENSOR, "shape": [2, 1, 64, 64]}
_TABLE: Step = {"shape": [2, 1], "dtype": "int32", "layout": "row_major", "memory": "DRAM"}
*_MADE, _PAGED = write_call(
    "transformer.paged_scaled_dot_product_attention_decode",
    [_QUERY, _CACHE, _CACHE, _TABLE, {**_TABLE, "shape": [1, 2]}],
    page_table_tensor={"tensor": "t3"},
    cur_pos_tensor={"tensor": "t4"},
)
_COMMON = (
    Argument("is_causal", default=True),
    Argument("scale", default=None),
    Argument("program_config", default=None),
    KERNEL_CONFIG,
)

RECORDS = (
    record_of(
        write_call("transformer.scaled_dot_product_attention", [_HEADS] * 3, is_causal=False),
        attention,
        _draw_attention,
        *_COMMON,
        family="attention",
        is_drawn_odd=True,
    ),
    record_of(
        write_call("transformer.scaled_dot_product_attention_decode", [_QUERY, _CACHE, _CACHE], cur_pos=[0, 0]),
        decode,
        _draw_decode,
        *_COMMON,
        *(Argument("cur_pos", default=None), Argument("sliding_window_size", default=None)),
        family="decode",
        takes_shards=True,
        is_drawn_odd=True,
    ),
    record_of(
        [*_MADE, {**_PAGED, "args": _PAGED["args"][:3]}],
        decode,
        _draw_decode,
        *_COMMON,
        Argument("sliding_window_size", default=None),
        family="decode",
        takes_shards=True,
        is_drawn_odd=True,
    ),
)
