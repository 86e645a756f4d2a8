# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.concat``."""

from __future__ import annotations

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_concat(record: OperationRecord, choose: Choose) -> list[Step]:
    first = sample.tensor(choose, integers=True, odd=True)
    if not first["shape"]:
        return draw_concat(record, choose)
    if not choose.integer(0, 3):
        first["shape"][-1] *= choose.one_of((4, 40, 200, 1000))
    axis = choose.integer(0, len(first["shape"]) - 1)
    sizes = (1, 32, 64, 96) if choose.integer(0, 1) else sample.SIZES
    others = [
        {**_resized(first, axis, choose.one_of(sizes)), "memory": choose.one_of(sample.MEMORIES)}
        for _ in range(choose.integer(1, 3))
    ]
    if not choose.integer(0, 9):
        others = (others * 100)[: choose.one_of((46, 47, 50, 93, 95, 100))]
    tensors = [first, *others]
    if len(first["shape"]) > 1 and not choose.integer(0, 5):
        tensors = [one | sample.any_place(choose, one["shape"], one["layout"], sharded=True) for one in tensors]
    return format_call(record.name, tensors, axis, memory=sample.wish(choose), as_list=True)


def _resized(tensor: Step, axis: int, size: int) -> Step:
    shape = list(tensor["shape"])
    shape[axis] = size
    return {**tensor, "shape": shape}


def draw_stack(record: OperationRecord, choose: Choose) -> list[Step]:
    first = sample.tensor(choose, most=3, integers=True, odd=True)
    rank = len(first["shape"])
    if rank > 1 and not choose.integer(0, 5):
        first |= sample.any_place(choose, first["shape"], first["layout"], sharded=True)
    return format_call(record.name, [first] * choose.integer(2, 3), choose.integer(-rank - 1, rank), as_list=True)


DRAWS: dict[str, Draw] = {
    "concat": draw_concat,
    "stack": draw_stack,
}
