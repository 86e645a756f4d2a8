# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.rotary``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from oracle.draws.sample import draw_kernel_config
from ttmem.twin.operations.call_syntax import format_call, format_height_shards
from ttmem.twin.operations.record import OperationRecord, Step
from ttmem.twin.operations.rotary import write_fused_call


def draw_tiles(choose: Choose, *shape: int) -> Step:
    return {"shape": list(shape), "dtype": "bfloat16", "layout": "tile", "memory": choose.one_of(sample.MEMORIES)}


def draw_rotary(record: OperationRecord, choose: Choose) -> list[Step]:
    rows, width = choose.one_of((1, 32, 60, 64, 128)), choose.one_of((32, 64, 128, 256))
    source = draw_tiles(choose, 1, choose.one_of((1, 4, 8)), rows, width)
    table = draw_tiles(choose, 1, 1, choose.one_of((128, 300)), width)
    if not choose.integer(0, 2):
        source["dtype"], table["dtype"] = (choose.one_of(("bfloat16", "bfloat8_b")) for _ in range(2))
    token = [choose.integer(0, 100)] if choose.integer(0, 1) else []
    tables, where = [table, table], Step(memory=sample.wish(choose))
    if not choose.integer(0, 2):
        tables = [table | sample.any_place(choose, table["shape"], "tile", sharded=True) for table in tables]
        source |= sample.any_place(choose, source["shape"], "tile", sharded=bool(choose.integer(0, 2)))
        if not choose.integer(0, 2):
            where = sample.any_place(choose, source["shape"], "tile", sharded=True)
    elif source["dtype"] == table["dtype"] == "bfloat16" and not choose.integer(0, 3):
        source["layout"] = choose.one_of(("tile", "row_major"))
        tables = [{**table, "layout": choose.one_of(("tile", "row_major"))} for table in tables]
    return format_call(record.name, [source, *tables], *token, **where)


def draw_llama(record: OperationRecord, choose: Choose) -> list[Step]:
    width, heads = choose.one_of((32, 64, 96, 128)), choose.one_of((1, 2, 4, 8, 32))
    matrix = draw_tiles(choose, 1, 1, 32, 32)
    if choose.integer(0, 1):
        rows = choose.one_of((32, 64, 100, 512, 2048, 5000))
        source = draw_tiles(choose, choose.one_of((1, 1, 2, 9)), heads, rows, width)
        table = draw_tiles(choose, 1, choose.one_of((1, 1, heads)), rows, width)
        down = -(-rows // 32)
        if table["shape"][1] == 1 and down <= 56 and not choose.integer(0, 2):
            table |= format_height_shards(choose.one_of((down, 56)), 32, width)
        named: dict[str, Any] = {"memory": sample.wish(choose), **draw_kernel_config(choose)}
        return format_call(record.name, [source, table, table, matrix], **named)
    users = choose.one_of((1, 2, 7, 8, 32))
    where = format_height_shards(users, 32, width)
    source, table = ({**draw_tiles(choose, 1, users, size, width), **where} for size in (heads, 1))
    matrix |= {"shape": [1, 1, 32 * users, 32], **format_height_shards(users, 32, 32)}
    return format_call(record.name, [source, table, table, matrix], is_decode_mode=True, **draw_kernel_config(choose))


def draw_both(record: OperationRecord, choose: Choose) -> list[Step]:
    users, width, heads = choose.one_of((1, 8, 16)), choose.one_of((32, 64, 128)), choose.one_of((4, 8, 32))
    query = {**draw_tiles(choose, 1, users, heads, width), **format_height_shards(users, 32, width)}
    return write_fused_call(record.name, query, choose.one_of((1, heads)), **draw_kernel_config(choose))


DRAWS: dict[str, Draw] = {
    "experimental.rotary_embedding": draw_rotary,
    "experimental.rotary_embedding_llama": draw_llama,
    "experimental.rotary_embedding_llama_fused_qk": draw_both,
}
