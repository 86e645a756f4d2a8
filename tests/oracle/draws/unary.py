# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.unary``."""

from __future__ import annotations

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from oracle.draws.elementwise import draw_sharded
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_unary(record: OperationRecord, choose: Choose) -> list[Step]:
    placed, named = sample.options(record, choose)
    if not choose.integer(0, 3):
        return draw_sharded(record.name, choose, *placed, **named)
    source = sample.tensor(choose, integers=not choose.integer(0, 2), odd=True)
    if not choose.integer(0, 5):
        return format_call(record.name, [source], *placed, in_place=True, **named)
    return format_call(record.name, [source], *placed, memory=sample.wish(choose), **named)


DRAWS: dict[str, Draw] = {
    "unary": draw_unary,
}
