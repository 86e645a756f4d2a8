# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.attention_decode``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.attention import draw_tensor
from oracle.draws.choose import Choose, Draw
from oracle.draws.sample import draw_kernel_config
from ttmem.base.arithmetic import round_up
from ttmem.twin.operations.call_syntax import format_call, format_height_shards
from ttmem.twin.operations.record import OperationRecord, Step


def draw_decode(record: OperationRecord, choose: Choose) -> list[Step]:
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
    query = {**draw_tensor(choose, [1, batch, heads, depth]), "memory": "DRAM", "dtype": "bfloat16"}
    where: Step = {"memory": sample.wish(choose)}
    if choose.integer(0, 1):
        query |= format_height_shards(batch, 32, depth)
        if key_heads == 1 and choose.integer(0, 1):
            where = format_height_shards(batch, 32, depth)
    if not choose.integer(0, 3):
        named["sliding_window_size"] = 64
    caches = [{**draw_tensor(choose, cache), "memory": "DRAM"} for _ in range(2)]
    if not choose.integer(0, 3):
        columns = choose.integer(1, 6)
        part = [-(-cache[0] * cache[1] * round_up(cache[2], 32) // (32 * columns)) * 32, depth]
        shard = {"kind": "height", "shape": part, "ranges": [[0, 0, columns - 1, 0]]}
        caches = [{**spec, "shard": shard} for spec in caches]
    *made, call = format_call(record.name, [query, *caches, *more], **where, **named, **draw_kernel_config(choose))
    return [*made, {**call, "args": call["args"][:3]}]


DRAWS: dict[str, Draw] = {
    "decode": draw_decode,
}
