# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.decode_heads``."""

from __future__ import annotations

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call, format_height_shards
from ttmem.twin.operations.record import OperationRecord, Step

_SHARDED_MOST = 64


def draw_new_heads(record: OperationRecord, choose: Choose) -> list[Step]:
    heads, depth, users = choose.one_of((1, 4, 8, 32)), choose.one_of((32, 64, 128)), choose.one_of((1, 5, 8, 32))
    key_heads = choose.one_of((1, heads))
    width = (heads + 2 * key_heads) * depth
    source = sample.tiles(choose, 1, 1, users, width)
    tiles = width // 32
    if choose.integer(0, 1) and tiles <= _SHARDED_MOST:
        shard = {"kind": "width", "shape": [32, 32], "ranges": format_height_shards(tiles, 32, 32)["shard"]["ranges"]}
        source |= {"memory": "L1", "shard": shard}
    elif not choose.integer(0, 3):
        source |= sample.any_place(choose, source["shape"], "tile", sharded=True)
    steps = format_call(record.name, [source], memory=choose.one_of((None, "L1")), num_heads=heads)
    steps[-1]["kwargs"]["num_kv_heads"] = key_heads
    if not choose.integer(0, 3):
        steps[-1]["kwargs"]["overlap_qk_coregrid"] = bool(choose.integer(0, 1))
    steps[-1]["out"] = ["queries", "keys", "values"]
    return steps


def draw_concat_new_heads(record: OperationRecord, choose: Choose) -> list[Step]:
    users, depth, heads = choose.one_of((1, 4, 8, 16, 32)), choose.one_of((32, 64, 128)), choose.one_of((1, 7, 8, 32))
    source = sample.tiles(choose, 1, users, choose.one_of((heads, 32)), depth) | format_height_shards(users, 32, depth)
    if not choose.integer(0, 7):
        source |= sample.any_place(choose, source["shape"], "tile", sharded=True)
    return format_call(record.name, [source], num_heads=heads)


DRAWS: dict[str, Draw] = {
    "experimental.nlp_create_qkv_heads_decode": draw_new_heads,
    "experimental.nlp_concat_heads_decode": draw_concat_new_heads,
}
