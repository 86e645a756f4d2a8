# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.roll``."""

from __future__ import annotations

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_roll(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, integers=True)
    if source["dtype"] == "bfloat8_b":
        source["dtype"] = "bfloat16"
    if choose.integer(0, 1):
        source["shape"][-2:] = [-(-size // 32) * 32 for size in source["shape"][-2:]]
    source, place = sample.among_shards(choose, source)
    if not choose.integer(0, 5) and "shard" not in source:
        return format_call(record.name, [source], choose.integer(-3, 40), memory=sample.wish(choose))
    dims = sample.shuffled(choose, list(range(len(source["shape"]))))[: choose.integer(1, 2)]
    shifts = [choose.one_of((choose.integer(-3, 40), 32, 64)) for _ in dims]
    return format_call(record.name, [source], shifts, dims, **place)


DRAWS: dict[str, Draw] = {
    "roll": draw_roll,
}
