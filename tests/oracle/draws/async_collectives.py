# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.collectives``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from oracle.draws.collectives import draw_options
from ttmem.twin.operations.collectives import write_async_call, write_semaphore
from ttmem.twin.operations.record import OperationRecord, Step


def draw_async_collectives(record: OperationRecord, choose: Choose) -> list[Step]:
    adds = "reduce" in record.name
    source = sample.tensor(choose, integers=not adds, most=4)
    source["shape"][-1] = choose.one_of((64, 128, 256, 512, 512, 1024, 100, 96, 48))
    axis = choose.integer(-len(source["shape"]), -1)
    if adds:
        source["shape"][axis] = choose.one_of((64, 96, 128, 256, 512, 40)) if axis >= -2 else choose.one_of((2, 4, 8))
    if not choose.integer(0, 2):
        source |= sample.any_place(choose, source["shape"], source["layout"], sharded=True)
    named: dict[str, Any] = draw_options(record, choose)
    if choose.integer(0, 1):
        named["barrier_semaphore"] = write_semaphore()
    memory = sample.wish(choose)
    if not choose.integer(0, 3):
        wanted = list(source["shape"])
        wanted[axis] = max(wanted[axis] // 2, 1) if adds else 2 * wanted[axis]
        named["memory_config"], memory = sample.any_place(choose, wanted, source["layout"], sharded=True), None
    return write_async_call(record.name, source, 3 if adds else 2, axis, memory=memory, **named)


DRAWS: dict[str, Draw] = {
    "experimental.all_gather_async": draw_async_collectives,
    "experimental.reduce_scatter_minimal_async": draw_async_collectives,
}
