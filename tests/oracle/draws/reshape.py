# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.reshape``."""

from __future__ import annotations

from math import prod

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_reshape(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, most=4, tile_only=bool(choose.integer(0, 2)), integers=True, odd=True)
    source = sample.now_and_then_in_shards(choose, source)
    left = prod(source["shape"])
    shape = []
    for _ in range(choose.integer(0, 3)):
        shape.append(choose.one_of([d for d in range(1, min(left, 400) + 1) if left % d == 0]))
        left //= shape[-1]
    return format_call(record.name, [source], sample.shuffled(choose, [*shape, left]), memory=sample.wish(choose))


def draw_view(record: OperationRecord, choose: Choose) -> list[Step]:
    """Mostly what stays where it is: outer dimensions in one."""
    if not choose.integer(0, 3):
        *made, call = draw_reshape(record, choose)
        return [*made, {**call, "kwargs": {}}]
    source = sample.tensor(choose, most=4, integers=True)
    *outer, height, width = source["shape"]
    return format_call(record.name, [source], [prod(outer), height, width])


def draw_squeeze(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, most=4, integers=True, odd=True)
    rank = len(source["shape"]) + (record.name == "unsqueeze")
    if not rank:
        return draw_squeeze(record, choose)
    if record.name == "squeeze" and not choose.integer(0, 4):
        return format_call(record.name, [source])
    return format_call(record.name, [source], choose.integer(-rank, rank - 1))


DRAWS: dict[str, Draw] = {
    "reshape": draw_reshape,
    "view": draw_view,
    "squeeze": draw_squeeze,
    "unsqueeze": draw_squeeze,
}
