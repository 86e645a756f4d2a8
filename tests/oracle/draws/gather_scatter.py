# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.gather_scatter``."""

from __future__ import annotations

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_gather(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, most=4)
    if not choose.integer(0, 5):
        source |= {"shape": [32, choose.integer(2000, 100_000)], "memory": "DRAM"}
    rank = len(source["shape"])
    axis = choose.one_of((-1, -1, choose.integer(-rank, -1)))
    size = [length if choose.integer(0, 1) else choose.integer(1, length) for length in source["shape"]]
    size[axis] = choose.one_of((1, 32, 40, 100, 160, 300))
    numbers: Step = {
        **source,
        "shape": size,
        "dtype": choose.one_of(("uint32", "uint16")),
        "memory": choose.one_of(sample.MEMORIES),
    }
    source, wanted = sample.among_shards(choose, source)
    if not choose.integer(0, 5):
        numbers |= sample.any_place(choose, size, numbers["layout"], sharded=True)
    if wanted.get("shard"):
        wanted = sample.any_place(choose, size, numbers["layout"], sharded=True)
    *made, call = format_call(record.name, [source, numbers], **wanted)
    return [*made, {**call, "args": [{"tensor": "t0"}, axis], "kwargs": {**call["kwargs"], "index": {"tensor": "t1"}}}]


def draw_scatter(record: OperationRecord, choose: Choose) -> list[Step]:
    source = {**sample.tensor(choose, most=4)}
    if source["dtype"] == "float32":
        source["layout"] = "row_major"
    rank = len(source["shape"])
    axis = choose.one_of((-1, -1, choose.integer(-rank, -1)))
    size = [length if choose.integer(0, 1) else choose.integer(1, length) for length in source["shape"]]
    numbers = {**source, "shape": size, "dtype": choose.one_of(("uint32", "int32", "uint16"))}
    values = {**source, "memory": choose.one_of(sample.MEMORIES), "shape": choose.one_of((size, size, source["shape"]))}
    steps = format_call(record.name, [source, numbers, values], memory=sample.wish(choose))
    steps[-1]["args"].insert(1, axis)
    return steps


def draw_repeat_interleave(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, most=4, integers=True)
    source, wanted = sample.among_shards(choose, source)
    axis = choose.integer(-len(source["shape"]), -1)
    return format_call(record.name, [source], choose.one_of((1, 2, 3, 8)), axis, **wanted)


DRAWS: dict[str, Draw] = {
    "gather": draw_gather,
    "scatter": draw_scatter,
    "repeat_interleave": draw_repeat_interleave,
}
