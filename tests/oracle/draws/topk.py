# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.topk``."""

from __future__ import annotations

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_topk(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, tile_only=True, most=4)
    if choose.integer(0, 1):
        source["shape"][-1] = choose.one_of(
            (300, 1000, 1024, 2030, 2048, 4096, 5000, 8190, 8192, 16370, 32768, 65536, 70000)
        )
    dim = -1 if choose.integer(0, 3) else choose.integer(-len(source["shape"]), -1)
    size = source["shape"][dim]
    most = choose.one_of((choose.integer(1, min(size, 64)), choose.integer(1, min(size, 400))))
    _, named = sample.options(record, choose)
    source, place = sample.among_shards(choose, source)
    return format_call(record.name, [source], k=most, dim=dim, **place, **named)


DRAWS: dict[str, Draw] = {
    "topk": draw_topk,
}
