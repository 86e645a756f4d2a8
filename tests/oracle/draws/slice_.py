# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.slice_``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_slice(record: OperationRecord, choose: Choose) -> list[Step]:
    """Begins of the last two dimensions mostly on the tile grid; steps of 1 said, left out, or larger ones."""
    source = sample.tensor(choose, integers=True, odd=True)
    shape = source["shape"]
    if not choose.integer(0, 3) and len(shape) > 1:
        shape[-1] *= choose.one_of((4, 40))
    begins = [choose.integer(0, size - 1) if choose.integer(0, 1) else 0 for size in shape]
    if choose.integer(0, 1):
        begins[-2:] = [begin // 32 * 32 for begin in begins[-2:]]
    ends = [
        choose.integer(begin + 1, size) if choose.integer(0, 1) else size
        for begin, size in zip(begins, shape, strict=True)
    ]
    steps = [[[1] * len(shape)], [], [[choose.one_of((1, 1, 2, 3)) for _ in shape]]][choose.integer(0, 2)]
    source, wanted = sample.among_shards(choose, source)
    if wanted.get("shard"):
        strides = steps[0] if steps else [1] * len(shape)
        part = [-(-(end - begin) // by) for begin, end, by in zip(begins, ends, strides, strict=True)]
        wanted = sample.any_place(choose, part, source["layout"], sharded=True)
    if choose.integer(0, 4):
        return format_call(record.name, [source], begins, ends, *steps, **wanted)
    named: dict[str, Any] = dict(zip(("slice_start", "slice_end", "slice_step"), (begins, ends, *steps), strict=False))
    return format_call(record.name, [source], **named, **wanted)


DRAWS: dict[str, Draw] = {
    "slice": draw_slice,
}
