# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.reductions``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_reduce(record: OperationRecord, choose: Choose) -> list[Step]:
    """Any dimensions, kept or not, or all of them; now and then of whole tiles in shards."""
    if not choose.integer(0, 5):
        sizes = [choose.integer(1, 3), 32 * choose.integer(1, 10), 32 * choose.integer(1, 20)]
        tiles: Step = {"shape": sizes, "dtype": choose.one_of(("bfloat16", "float32", "bfloat8_b")), "layout": "tile"}
        placed = tiles | sample.any_place(choose, sizes, "tile", sharded=True)
        wanted = sample.any_place(choose, sizes, "tile", sharded=True) if choose.integer(0, 1) else {}
        kept: dict[str, Any] = {"dim": choose.one_of((-1, -2, [-2, -1])), "keepdim": bool(choose.integer(0, 3))}
        return format_call(record.name, [placed], **wanted, **kept)
    source = sample.tensor(choose, tile_only=True, integers=record.name != "mean", odd=True)
    rank = len(source["shape"])
    if rank and not choose.integer(0, 3):
        source["shape"][choose.integer(0, rank - 1)] = choose.one_of((600, 640, 1000, 1600, 3000))
    named: dict[str, Any] = {"keepdim": True} if choose.integer(0, 1) else {}
    form = choose.integer(0, 6)
    source, place = sample.among_shards(choose, source)
    if rank < 2:
        pass
    elif form == 0:
        named["dim"] = [-2, -1]
    elif form == 6 and rank > 3:
        named["dim"] = [choose.integer(-rank, -3), -2, -1]
    elif form <= 2:
        named["dim"] = choose.one_of((-1, -2))
    elif form in (3, 4):
        named["dim"] = sorted({choose.integer(-rank, -1) for _ in range(choose.integer(1, 3))})
    return format_call(record.name, [source], **place, **named)


DRAWS: dict[str, Draw] = {
    "reduce": draw_reduce,
}
