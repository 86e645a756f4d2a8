# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.cumsum_prod_var``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_accumulation(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, tile_only=True, integers=True, odd=True)
    named: dict[str, Any] = {"dim": choose.integer(-len(source["shape"]) or -1, -1)}
    if not choose.integer(0, 3):
        named["dtype"] = {"dtype": choose.one_of(("bfloat16", "float32"))}
    source, place = sample.among_shards(choose, source)
    return format_call(record.name, [source], **place, **named)


def draw_along(record: OperationRecord, choose: Choose) -> list[Step]:
    """One dimension, some of them for variances, or all."""
    source = sample.tensor(choose, tile_only=True, most=4, integers=True)
    rank = len(source["shape"])
    named: dict[str, Any] = {"keepdim": True} if choose.integer(0, 1) else {}
    form = choose.integer(0, 4)
    if form == 1 and record.name != "prod":
        named["dim"] = sorted({choose.integer(-rank, -1) for _ in range(3)})
    elif form:
        named["dim"] = choose.integer(-rank, -1)
    source, place = sample.among_shards(choose, source)
    return format_call(record.name, [source], **place, **named)


DRAWS: dict[str, Draw] = {
    "accumulation": draw_accumulation,
    "prod": draw_along,
    "spread": draw_along,
}
