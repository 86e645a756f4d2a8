# SPDX-License-Identifier: Apache-2.0
"""What stands around attention: heads split and put together, rotary embedding, a cache that is filled."""

from dataclasses import replace

from ttmem._errors import BadInputError
from ttmem.allocator.operations import draws
from ttmem.allocator.operations.elementwise import result_like
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.allocator.programs import CIRCULAR
from ttmem.tensors import TILE, round_up

_TILES_AHEAD = 4
_AHEAD_BY_WIDTH = {1: 4, 2: 4, 3: 4, 4: 8, 8: 16}
"""Tiles that are read ahead, by the tiles of a head's width."""
_NOT_TILES = "heads of interleaved tiles are known"


def _is_known(call: Call) -> bool:
    return all(spec.layout is TILE and spec.shard is None for spec in call.inputs)


def concat_heads(call: Call, plan: PlanWriter) -> Plan:
    """A row of tiles of all heads at a time, and the next one."""
    source = call.inputs[0]
    if not _is_known(call) or len(source.shape) != 4 or source.shape[-1] % 32:
        return plan.give_up(_NOT_TILES)
    batch, heads, rows, width = source.shape
    outer = (batch,) if call.name.endswith("concatenate_heads") else (batch, 1)
    result = replace(result_like(source, call.memory), shape=(*outer, rows, heads * width))
    return plan.one_program(result, [2 * heads * (width // 32) * source.dtype.tile_bytes()])


def split_heads(call: Call, plan: PlanWriter) -> Plan:
    """Queries, keys and values out of one tensor; keys may be transposed on the way, which takes two more buffers."""
    source = call.inputs[0]
    heads = int(call.arguments["num_heads"])
    key_heads = int(call.arguments["num_kv_heads"] or heads)
    flips = bool(call.arguments["transpose_k_heads" if "transpose_k_heads" in call.arguments else "transpose_key"])
    if not _is_known(call) or len(call.inputs) > 1 or len(source.shape) < 3:
        return plan.give_up(_NOT_TILES)
    if source.shape[-1] % (heads + 2 * key_heads):
        raise BadInputError(f"{source.shape[-1]} is no multiple of {heads + 2 * key_heads} heads")
    batch, rows, width = source.shape[0], source.shape[-2], source.shape[-1] // (heads + 2 * key_heads)
    if width % 32 or (len(source.shape) == 4 and source.shape[1] != 1):
        return plan.give_up("heads of whole tiles are known")
    like = result_like(source, call.memory)
    keys = (batch, key_heads, width, rows) if flips else (batch, key_heads, rows, width)
    shapes = ((batch, heads, rows, width), keys, (batch, key_heads, rows, width))
    specs = [replace(like, shape=shape) for shape in shapes]
    slots = [plan.allocate(spec) for spec in specs]
    tile = source.dtype.tile_bytes()
    if flips:
        plan.launch([_TILES_AHEAD * tile] * 3)
    elif width // 32 in _AHEAD_BY_WIDTH:
        plan.launch([_AHEAD_BY_WIDTH[width // 32] * tile])
    else:
        most = max(2 * width // 32, _TILES_AHEAD) * tile
        plan.launch([_TILES_AHEAD * tile], at_least="heads of a width that was not compared", at_most_bytes=most)
    return plan.finish_all(list(zip(slots, specs, strict=True)))


def rotary(call: Call, plan: PlanWriter) -> Plan:
    """Rows of tiles of the tensor, of its rotated self, and of both tables, each twice; single tiles between."""
    source = call.inputs[0]
    if not _is_known(call) or len(call.inputs) != 3 or call.arguments["token_index"] is not None:
        return plan.give_up("a rotary embedding of one token, or of shards")
    *outer, rows, width = source.shape
    result = replace(result_like(source, call.memory), shape=(*outer, round_up(rows, 32), width))
    tiles = [spec.dtype.tile_bytes() for spec in call.inputs]
    own, cosine, sine = tiles
    across = -(-width // 32)
    ahead = 2 * across
    slot = plan.allocate(result)
    plan.launch([ahead * own] * 2 + [ahead * cosine, ahead * sine, own, own, cosine, sine, ahead * own], CIRCULAR)
    return plan.finish(slot, result)


def fill_cache(call: Call, plan: PlanWriter) -> Plan:
    """Into the cache that is there."""
    cache, source = call.inputs
    if not _is_known(call) or cache.dtype is not source.dtype:
        return plan.give_up("a cache of interleaved tiles of the same type is known")
    plan.launch([2 * source.dtype.tile_bytes()])
    return plan.finish(-1, cache)


def _tiles(choose: Choose, *shape: int) -> Step:
    return {
        "shape": list(shape),
        "dtype": choose.one_of(("bfloat16", "bfloat16", "bfloat8_b", "float32")),
        "layout": "tile",
        "memory": choose.one_of(draws.MEMORIES),
    }


def _draw_concat_heads(record: OperationRecord, choose: Choose) -> list[Step]:
    rows = choose.one_of((32, 64, 100, 128))
    source = _tiles(choose, choose.integer(1, 2), choose.one_of((1, 4, 8, 12)), rows, choose.one_of((32, 64, 128)))
    return write_call(record.name, [source], memory=draws.wish(choose))


def _draw_split_heads(record: OperationRecord, choose: Choose) -> list[Step]:
    heads, width = choose.one_of((1, 4, 8)), choose.one_of((32, 64, 96, 128, 256))
    flips = bool(choose.integer(0, 1))
    batch, rows = choose.integer(1, 2), choose.one_of((32, 64, 96))
    if record.name.startswith("transformer"):
        source = _tiles(choose, batch, rows, 3 * heads * width)
        steps = write_call(record.name, [source], memory=draws.wish(choose), num_heads=heads)
        steps[-1]["kwargs"]["transpose_key"] = flips
        steps[-1]["out"] = ["queries", "keys", "values"]
        return steps
    key_heads = choose.one_of((1, heads))
    source = _tiles(choose, batch, 1, rows, (heads + 2 * key_heads) * width)
    options = {"num_heads": heads, "num_kv_heads": key_heads, "transpose_k_heads": flips}
    steps = write_call(record.name, [source], memory=draws.wish(choose))
    steps[-1]["kwargs"] |= options
    steps[-1]["out"] = ["queries", "keys", "values"]
    return steps


def _draw_rotary(record: OperationRecord, choose: Choose) -> list[Step]:
    rows, width = choose.one_of((32, 60, 64, 128)), choose.one_of((64, 128))
    source = {**_tiles(choose, 1, choose.one_of((1, 4, 8)), rows, width), "dtype": "bfloat16"}
    table = {**_tiles(choose, 1, 1, 128, width), "dtype": "bfloat16"}
    return write_call(record.name, [source, table, table], memory=draws.wish(choose))


def _draw_fill_cache(record: OperationRecord, choose: Choose) -> list[Step]:
    heads, width = choose.one_of((1, 2, 8)), choose.one_of((32, 64, 128))
    cache = _tiles(choose, choose.integer(1, 4), heads, 128, width)
    source = {**cache, "shape": [1, heads, choose.one_of((32, 64, 128)), width]}
    return write_call(record.name, [cache, {**source, "memory": choose.one_of(draws.MEMORIES)}], 0)


def _named(name: str, shape: list[int], **options: object) -> list[Step]:
    steps = write_call(name, [{"shape": shape, "dtype": "bfloat16", "layout": "tile", "memory": "DRAM"}])
    steps[-1]["kwargs"] |= options
    return steps


_TABLE: Step = {"shape": [1, 1, 64, 64], "dtype": "bfloat16", "layout": "tile", "memory": "DRAM"}
RECORDS = (
    *(
        record_of(_named(name, [1, 8, 64, 64]), concat_heads, _draw_concat_heads, family="concat heads")
        for name in ("experimental.nlp_concat_heads", "transformer.concatenate_heads")
    ),
    record_of(
        _named("experimental.nlp_create_qkv_heads", [1, 1, 64, 768], num_heads=8, num_kv_heads=2),
        split_heads,
        _draw_split_heads,
        Argument("num_heads"),
        *(Argument("num_kv_heads", default=None), Argument("transpose_k_heads", default=True)),
        family="split heads",
    ),
    record_of(
        _named("transformer.split_query_key_value_and_split_heads", [1, 64, 768], num_heads=4),
        split_heads,
        _draw_split_heads,
        Argument("num_heads"),
        *(Argument("num_kv_heads", default=None), Argument("transpose_key", default=True)),
        family="split heads",
    ),
    record_of(
        write_call("experimental.rotary_embedding", [_TABLE] * 3),
        rotary,
        _draw_rotary,
        Argument("token_index", 0, None),
    ),
    record_of(write_call("fill_cache", [_TABLE] * 2, 0), fill_cache, _draw_fill_cache, Argument("batch_index", 0)),
)
