# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.mesh_transfers``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.mesh_transfers import write_coordinate
from ttmem.twin.operations.record import OperationRecord, Step


def draw_partition(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, integers=True, most=4)
    axis = choose.integer(-len(source["shape"]), -1)
    source["shape"][axis] = choose.one_of((64, 128, 256, 512, 96, 40)) if axis >= -2 else choose.one_of((2, 4, 8))
    if not choose.integer(0, 2):
        source |= sample.any_place(choose, source["shape"], source["layout"], sharded=True)
    return format_call(record.name, [source], axis, memory=sample.wish(choose))


def draw_broadcast(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, integers=True, most=4)
    if not choose.integer(0, 2):
        source |= sample.any_place(choose, source["shape"], source["layout"], sharded=True)
    sender = write_coordinate(0, choose.integer(0, 1))
    named: dict[str, Any] = {"num_links": choose.integer(1, 2)} if not choose.integer(0, 3) else {}
    return format_call(record.name, [source], sender, memory=sample.wish(choose), **named)


def draw_transfer(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, integers=True, most=4)
    ends = [write_coordinate(0, 0), write_coordinate(0, 1)]
    return format_call(record.name, [source], *sample.shuffled(choose, ends))


DRAWS: dict[str, Draw] = {
    "mesh_partition": draw_partition,
    "broadcast": draw_broadcast,
    "point_to_point": draw_transfer,
}
