# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.pad``."""

from __future__ import annotations

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_pad(record: OperationRecord, choose: Choose) -> list[Step]:
    source, wanted = sample.among_shards(choose, sample.tensor(choose, most=4))
    has_room = source.get("shard") and not wanted and choose.integer(0, 1)
    front = (0, 1, 3) if source["layout"] == "row_major" else (0,)
    padding = [[choose.one_of(front), choose.one_of((0, 0, 1, 2))] for _ in source["shape"][:-2]]
    padding += [[choose.one_of(front), choose.one_of((0, 1, 10, 32))] for _ in range(2)]
    if has_room:  # else most results do not fit their shards
        padding = [[0, 0] for _ in padding[:-1]] + [[0, choose.one_of((16, 32))]]
    pairs = [{"tuple": pair} for pair in padding]
    if wanted.get("shard"):
        shape = [size + sum(pair) for size, pair in zip(source["shape"], padding, strict=True)]
        wanted = sample.any_place(choose, shape, source["layout"], sharded=True)
    return format_call(record.name, [source], pairs, 0.0, **wanted)


DRAWS: dict[str, Draw] = {
    "pad": draw_pad,
}
