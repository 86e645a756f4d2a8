# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.repeat``."""

from __future__ import annotations

from math import prod

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_repeat(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, integers=True, odd=True)
    times = [choose.one_of((1, 1, 2, 3)) for _ in source["shape"]]
    if prod(source["shape"]) > 100_000:
        times = [1, *times[1:]]
    source, place = sample.among_shards(choose, source)
    return format_call(record.name, [source], times, **place)


def draw_expand(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, integers=True, odd=True)
    wanted = list(source["shape"])
    source["shape"] = [1 if choose.integer(0, 1) else size for size in wanted]
    outer = [choose.one_of((1, 2, 3))] if not choose.integer(0, 2) else []
    source, place = sample.among_shards(choose, source)
    return format_call(record.name, [source], outer + wanted, **place)


DRAWS: dict[str, Draw] = {
    "repeat": draw_repeat,
    "expand": draw_expand,
}
