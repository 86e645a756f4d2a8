# SPDX-License-Identifier: Apache-2.0
"""Rotary embeddings: of whole sequences, of one token, of the new row of every user."""

from dataclasses import replace
from typing import Any

from ttmem._errors import BadInputError
from ttmem.allocator.operations import draws
from ttmem.allocator.operations.elementwise import result_like, wanted_like
from ttmem.allocator.operations.kernel_config import KERNEL_CONFIG, adds_in_float32, draw_kernel_config
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.allocator.programs import CIRCULAR
from ttmem.hardware import BFLOAT16
from ttmem.tensors import TILE, Shard, TensorSpec, round_up

_ROWS_OF_TABLES_KEPT = 8
"""As many rows of tiles are turned with tables that stay; for more they are read again."""
_MOST_USERS = 32
_WIDEST = 256
_WIDEST_IN_FLOAT32 = 128


def rotary(call: Call, plan: PlanWriter) -> Plan:
    """Rows of tiles of the tensor, of its rotated self, and of both tables, each twice; single tiles between.

    Of one token the tables' row is untilized, taken out and tilized again.
    """
    source = call.inputs[0]
    if any(spec.layout is not TILE or spec.shard is not None for spec in call.inputs) or len(call.inputs) != 3:
        return plan.give_up("a rotary embedding of shards, or of rows")
    cosine_table = call.inputs[1]
    *outer, rows, width = source.shape
    across = -(-width // 32)
    token = call.arguments["token_index"]
    if across > 1 and across % 2:
        raise BadInputError(f"a width of {width} has no two halves of tiles")
    if token is not None and (source.shape[0] != 1 or cosine_table.shape[-2] <= int(token)):
        raise BadInputError("the rotary embedding of one token needs a table with that token")
    if cosine_table.shape[:-2] != (1, 1) or -(-cosine_table.shape[-1] // 32) != across:
        shape = list(cosine_table.shape)
        raise BadInputError(f"Cosine cache dimensions must match input dimensions: {shape} for heads of {width}")
    if token is None and cosine_table.shape[-2] < rows:
        raise BadInputError(f"tables of {cosine_table.shape[-2]} rows for a sequence of {rows}")
    result = replace(result_like(source, call.memory), shape=(*outer, round_up(rows, 32), across * 32))
    own, cosine, sine = (spec.dtype.tile_bytes() for spec in call.inputs)
    ahead, deep = 2 * across, (2 if token is None else 1) * across
    tables = [deep * cosine, deep * sine]
    if across == 1:  # turned by a matrix of one tile
        buffers = [ahead * own, own, *tables, *[own] * 3, ahead * own]
    else:
        buffers = [*[ahead * own] * 2, *tables, BFLOAT16.tile_bytes(), own, cosine, sine, ahead * own]
    if token is not None:
        plain = across * BFLOAT16.tile_bytes()
        buffers += [plain, plain, across * cosine, across * sine]
    return plan.one_program(result, buffers, CIRCULAR)


def rotary_llama(call: Call, plan: PlanWriter) -> Plan:
    """By a matrix that swaps pairs: of a sequence on all cores, of the new row of every user on its own core."""
    source, cosine, sine, matrix = call.inputs
    if any(spec.layout is not TILE or spec.dtype is not BFLOAT16 for spec in call.inputs) or cosine.shape != sine.shape:
        raise BadInputError("this rotary embedding takes tiles of bfloat16")
    _check_width(call, source)
    if call.arguments["is_decode_mode"]:
        return _of_users(call, plan)
    if any(spec.shard is not None for spec in call.inputs):
        return plan.give_up("a rotary embedding of a sequence with sharded tables")
    batch, heads, rows, width = source.shape
    if cosine.shape[0] != 1 or cosine.shape[-1] != width or cosine.shape[1] not in (1, heads):
        raise BadInputError("tables of a rotary embedding are as wide as the tensor, of one head or of all")
    if matrix.shape != (1, 1, 32, 32):
        raise BadInputError("the matrix of a rotary embedding is one tile")
    tile, across, cores = BFLOAT16.tile_bytes(), -(-width // 32), plan.memory_map.grid.cores
    down = -(-rows // 32)
    deep = -(-down // min(cores // min(batch, cores), down))
    if deep * heads > _ROWS_OF_TABLES_KEPT or cosine.shape[1] == heads:
        deep = 1
    ahead, between = 2 * across * tile, across * tile
    buffers = [*[deep * ahead] * 3, tile, *[between] * 3, ahead, between]
    return plan.one_program(result_like(source, call.memory), buffers)


def _check_width(call: Call, source: TensorSpec) -> None:
    width = source.shape[-1]
    # Unless the caller says otherwise these kernels add up in float32.
    precise = call.arguments["compute_kernel_config"] is None or adds_in_float32(call)
    if len(source.shape) != 4 or width > (_WIDEST_IN_FLOAT32 if precise else _WIDEST):
        raise BadInputError(f"heads of {width} are too wide for a rotary embedding")


def _of_users(call: Call, plan: PlanWriter) -> Plan:
    """All that is there already is used in its place; only what lies between takes room."""
    source, cosine, _, matrix = call.inputs
    for spec in call.inputs:
        if not isinstance(spec.shard, Shard) or spec.shard.kind != "height":
            raise BadInputError("the rotary embedding of new rows takes shards of rows")
    users, width = source.shape[1], source.shape[-1]
    if source.shape[0] != 1 or width % 32 or users > plan.memory_map.grid.cores or cosine.shape[1] != users:
        raise BadInputError("the rotary embedding of new rows has a row of the tables for every user")
    if cosine.shard.height != 32 or (matrix.shard.height, matrix.shard.width) != (32, 32):  # type: ignore[union-attr]
        raise BadInputError("tables of new rows have one row of tiles on each core")
    result = wanted_like(call, source)
    if result.shard != source.shard:
        return plan.give_up("a rotary embedding into other shards")
    return plan.one_program(result, [width // 32 * BFLOAT16.tile_bytes()] * 3)


def rotary_llama_both(call: Call, plan: PlanWriter) -> Plan:
    """Queries and keys of new rows at once, on different cores."""
    query, key, cosine, sine, matrix = call.inputs
    for spec in call.inputs:
        if not isinstance(spec.shard, Shard) or spec.shard.kind != "height" or spec.dtype is not BFLOAT16:
            raise BadInputError("the rotary embedding of queries and keys takes shards of rows of bfloat16")
    if any(spec.layout is not TILE for spec in call.inputs):
        return plan.give_up("a rotary embedding of rows that are no tiles")
    _check_width(call, query)
    users, width = query.shape[1], query.shape[-1]
    if (key.shape[1], key.shape[-1]) != (users, width) or users > _MOST_USERS or cosine.shape != sine.shape:
        raise BadInputError("queries and keys of a rotary embedding have the same users and width")
    first, second = (spec.shard.ranges for spec in (query, key))  # type: ignore[union-attr]
    if any(one.intersects(two) for one in first for two in second):
        raise BadInputError("queries and keys of a rotary embedding lie on different cores")
    if cosine.shape[1] != 2 * users or width % 32 or matrix.shard.cores < sum(c.cores for c in first + second):  # type: ignore[union-attr]
        raise BadInputError("tables of a rotary embedding have a row for every query and every key")
    slots = [plan.allocate(spec) for spec in (query, key)]
    plan.launch([width // 32 * BFLOAT16.tile_bytes()] * 3)
    return plan.finish_all(list(zip(slots, (query, key), strict=True)))


def _tiles(choose: Choose, *shape: int) -> Step:
    return {"shape": list(shape), "dtype": "bfloat16", "layout": "tile", "memory": choose.one_of(draws.MEMORIES)}


def _draw_rotary(record: OperationRecord, choose: Choose) -> list[Step]:
    rows, width = choose.one_of((1, 32, 60, 64, 128)), choose.one_of((32, 64, 128, 256))
    source = _tiles(choose, 1, choose.one_of((1, 4, 8)), rows, width)
    table = _tiles(choose, 1, 1, choose.one_of((128, 300)), width)
    if not choose.integer(0, 2):
        source["dtype"], table["dtype"] = (choose.one_of(("bfloat16", "bfloat8_b")) for _ in range(2))
    token = [choose.integer(0, 100)] if choose.integer(0, 1) else []
    return write_call(record.name, [source, table, table], *token, memory=draws.wish(choose))


def _draw_llama(record: OperationRecord, choose: Choose) -> list[Step]:
    width, heads = choose.one_of((32, 64, 96, 128)), choose.one_of((1, 2, 4, 8, 32))
    matrix = _tiles(choose, 1, 1, 32, 32)
    if choose.integer(0, 1):
        rows = choose.one_of((32, 64, 100, 512, 2048, 5000))
        source = _tiles(choose, choose.one_of((1, 1, 2, 9)), heads, rows, width)
        table = _tiles(choose, 1, choose.one_of((1, 1, heads)), rows, width)
        named: dict[str, Any] = {"memory": draws.wish(choose), **draw_kernel_config(choose)}
        return write_call(record.name, [source, table, table, matrix], **named)
    users = choose.one_of((1, 2, 7, 8, 32))
    where = draws.height_shards(users, 32, width)
    source, table = ({**_tiles(choose, 1, users, size, width), **where} for size in (heads, 1))
    matrix |= {"shape": [1, 1, 32 * users, 32], **draws.height_shards(users, 32, 32)}
    return write_call(record.name, [source, table, table, matrix], is_decode_mode=True, **draw_kernel_config(choose))


def _draw_both(record: OperationRecord, choose: Choose) -> list[Step]:
    users, width, heads = choose.one_of((1, 8, 16)), choose.one_of((32, 64, 128)), choose.one_of((4, 8, 32))
    query = {**_tiles(choose, 1, users, heads, width), **draws.height_shards(users, 32, width)}
    return _both(record.name, query, choose.one_of((1, heads)), **draw_kernel_config(choose))


def _both(name: str, query: Step, key_heads: int, **named: Any) -> list[Step]:
    _, users, _, width = query["shape"]
    rows = -(-users // 8)
    key = {**query, "shape": [1, users, key_heads, width], **draws.height_shards(users, 32, width, first_row=rows)}
    ranges = [*query["shard"]["ranges"], *key["shard"]["ranges"]]
    shard = {**query["shard"], "ranges": ranges}
    table = {**query, "shape": [1, 2 * users, 1, width], "shard": shard}
    matrix = {**query, "shape": [1, 1, 64 * users, 32], "shard": {**shard, "shape": [32, 32]}}
    *made, call = write_call(name, [query, key, table, table, matrix], **named)
    return [*made, {**call, "out": ["queries", "keys"]}]


_TABLE: Step = {"shape": [1, 1, 64, 64], "dtype": "bfloat16", "layout": "tile", "memory": "DRAM"}
_QUERY: Step = {**_TABLE, "shape": [1, 1, 8, 64], **draws.height_shards(1, 32, 64)}
_LLAMA = "experimental.rotary_embedding_llama"
RECORDS = (
    record_of(
        write_call("experimental.rotary_embedding", [_TABLE] * 3),
        rotary,
        _draw_rotary,
        Argument("token_index", 0, None),
    ),
    record_of(
        write_call(_LLAMA, [_TABLE] * 3 + [{**_TABLE, "shape": [1, 1, 32, 32]}]),
        rotary_llama,
        _draw_llama,
        *(Argument("is_decode_mode", default=False), KERNEL_CONFIG),
        takes_shards=True,
    ),
    record_of(_both(f"{_LLAMA}_fused_qk", _QUERY, 1), rotary_llama_both, _draw_both, KERNEL_CONFIG),
)
