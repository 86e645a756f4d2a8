# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.collectives``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_collectives(record: OperationRecord, choose: Choose) -> list[Step]:
    adds = record.name in ("reduce_scatter", "all_reduce")
    source = sample.tensor(choose, integers=not adds, most=4)
    source["shape"][-1] = choose.one_of((64, 128, 256, 512, 512, 1024, 100, 96, 48))
    axis = choose.integer(-len(source["shape"]), -1)
    if record.name == "reduce_scatter":
        source["shape"][axis] = choose.one_of((64, 96, 128, 256, 512, 40)) if axis >= -2 else choose.one_of((2, 4, 8))
    is_sharded = not choose.integer(0, 2)
    if is_sharded:
        source |= sample.any_place(choose, source["shape"], source["layout"], sharded=True)
    dim = [axis] if record.arguments[0].name == "dim" else []
    *made, call = format_call(record.name, [source], *dim, memory=sample.wish(choose))
    if not choose.integer(0, 2):
        wanted = list(source["shape"])
        if dim:
            wanted[axis] = wanted[axis] * 2 if record.name == "all_gather" else max(wanted[axis] // 2, 1)
        where = sample.any_place(choose, wanted, source["layout"], sharded=True)
        call["kwargs"]["memory_config"] = where
    call["kwargs"] |= draw_options(record, choose)
    return [*made, call]


def draw_options(record: OperationRecord, choose: Choose) -> dict[str, Any]:
    """Mostly none."""
    if choose.integer(0, 3):
        return {}
    named = [argument for argument in record.arguments if argument.samples]
    return {argument.name: choose.one_of(argument.samples) for argument in named if choose.integer(0, 1)}


DRAWS: dict[str, Draw] = {
    "all_gather": draw_collectives,
    "reduce_scatter": draw_collectives,
    "all_reduce": draw_collectives,
    "all_broadcast": draw_collectives,
}
