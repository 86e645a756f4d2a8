# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.rotary``."""

from __future__ import annotations

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


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


DRAWS: dict[str, Draw] = {
    "experimental.rotary_embedding": draw_rotary,
}
