# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.elementwise``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_sharded(name: str, choose: Choose, *placed: Any, **named: Any) -> list[Step]:
    """A call of one tensor, with shards before, behind, or on both sides."""
    source = sample.sharded_tensor(choose)
    form = choose.integer(0, 3)
    if form == 0:
        return format_call(name, [source], *placed, **named)
    if form == 1:
        return format_call(name, [source], *placed, memory=choose.one_of(sample.MEMORIES), **named)
    shard = sample.shard_of(choose, source["shape"])
    if form == 2:
        source = {**source, "memory": choose.one_of(sample.MEMORIES), "shard": None}
    return format_call(name, [source], *placed, memory="L1", shard=shard, **named)


def draw_typecast(record: OperationRecord, choose: Choose) -> list[Step]:
    if not choose.integer(0, 4):
        return draw_sharded(record.name, choose, {"dtype": choose.one_of(("bfloat16", "float32", "bfloat8_b"))})
    source = sample.tensor(choose, integers=True, odd=True)
    blocks = ["bfloat8_b", "bfloat4_b"] if source["layout"] == "tile" else []
    target = choose.one_of(("bfloat16", "float32", "uint32", "int32", "uint16", "uint8", *blocks))
    _, named = sample.options(record, choose)
    return format_call(record.name, [source], {"dtype": target}, memory=sample.wish(choose), **named)


def draw_clone(record: OperationRecord, choose: Choose) -> list[Step]:
    if not choose.integer(0, 4):
        return draw_sharded(record.name, choose)
    return format_call(record.name, [sample.tensor(choose, integers=True, odd=True)], memory=sample.wish(choose))


DRAWS: dict[str, Draw] = {
    "typecast": draw_typecast,
    "clone": draw_clone,
}
