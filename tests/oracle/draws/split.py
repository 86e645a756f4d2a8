# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.split``."""

from __future__ import annotations

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_split(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, most=5, integers=True, odd=True)
    if not source["shape"]:
        return draw_split(record, choose)
    axis = choose.integer(0, len(source["shape"]) - 1)
    size = source["shape"][axis] = choose.one_of((2, 3, 6, 32, 64, 70, 96, 100, 128, 192))
    if record.name == "chunk":
        number = choose.integer(1, 5)
        steps = format_call(record.name, [sample.now_and_then_in_shards(choose, source)], number, axis)
        part = -(-size // number)
        steps[-1]["out"] = [f"result{number}" for number in range(-(-size // part))]
        return steps
    part = choose.one_of([p for p in (1, 2, 16, 32, 50, 64, size) if p <= size and (size // p <= 8 or size == 70)])
    if choose.integer(0, 1) and part < size:
        wanted: int | list[int] = [part, size - part]
        count = 2
    else:
        wanted, count = part, -(-size // part)
    source, place = sample.among_shards(choose, source)
    steps = format_call(record.name, [source], wanted, axis, **place)
    steps[-1]["out"] = [f"result{number}" for number in range(count)]
    return steps


DRAWS: dict[str, Draw] = {
    "split": draw_split,
}
