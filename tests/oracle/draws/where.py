# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.where``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.binary import draw_partner
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_addcmul(record: OperationRecord, choose: Choose) -> list[Step]:
    _, named = sample.options(record, choose)
    first = sample.tensor(choose, tile_only=True)
    others = [{**first, "memory": choose.one_of(sample.MEMORIES)} for _ in range(2)]
    return format_call(record.name, [first, *others], memory=sample.wish(choose), **named)


def draw_triangle(record: OperationRecord, choose: Choose) -> list[Step]:
    placed, named = sample.options(record, choose)
    is_any = not choose.integer(0, 4)
    tensor = sample.tensor(choose, tile_only=not is_any, integers=is_any, odd=True)
    return format_call(record.name, [tensor], *placed, memory=sample.wish(choose), **named)


def draw_where(record: OperationRecord, choose: Choose) -> list[Step]:
    if not choose.integer(0, 5):
        tensor = sample.tensor(choose, sample.shape(choose), tile_only=True)
        placed = sample.any_place(choose, tensor["shape"], "tile", sharded=True)
        alike = choose.integer(0, 1)
        some = [
            tensor | (placed if alike else sample.any_place(choose, tensor["shape"], "tile", sharded=True))
            for _ in range(3)
        ]
        wanted = choose.one_of(({}, {"memory": "L1"}, {"memory": "DRAM"}, placed))
        return format_call(record.name, some, **wanted)
    value = sample.tensor(choose, integers=True, odd=True)
    mask = draw_partner(choose, value)
    if choose.integer(0, 3):
        value |= {"dtype": choose.one_of(("bfloat16", "bfloat16", "float32", "bfloat8_b", "int32")), "layout": "tile"}
        mask |= {"dtype": choose.one_of((value["dtype"], "int32", "uint16", "uint8")), "layout": "tile"}
    values: list[Any] = [value, {**draw_partner(choose, value), "dtype": value["dtype"], "layout": value["layout"]}]
    given = choose.integer(0, 3)
    if given > 1:
        return format_call(record.name, [mask, *sample.shuffled(choose, values)], memory=sample.wish(choose))
    steps = format_call(record.name, [mask, values[given]], memory=sample.wish(choose))
    steps[-1]["args"].insert(1 + given, 2.0)
    return steps


DRAWS: dict[str, Draw] = {
    "where": draw_where,
    "triangle": draw_triangle,
    "addcmul": draw_addcmul,
}
