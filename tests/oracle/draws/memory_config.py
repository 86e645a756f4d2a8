# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.memory_config``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_to_memory_config(record: OperationRecord, choose: Choose) -> list[Step]:
    if not choose.integer(0, 1):
        source = sample.tensor(choose, integers=True, odd=True)
        dtype: Step = {} if choose.integer(0, 3) else {"dtype": {"dtype": source["dtype"]}}
        return format_call(record.name, [source], {"memory": choose.one_of(sample.MEMORIES)}, **dtype)
    return _draw_sharding(record, choose, bool(choose.integer(0, 2)), bool(choose.integer(0, 2)))


def draw_to_shards(record: OperationRecord, choose: Choose) -> list[Step]:
    return _draw_sharding(record, choose, False, True)


def draw_to_pages(record: OperationRecord, choose: Choose) -> list[Step]:
    return _draw_sharding(record, choose, True, False)


def draw_reshard(record: OperationRecord, choose: Choose) -> list[Step]:
    return _draw_sharding(record, choose, True, True)


def _draw_sharding(record: OperationRecord, choose: Choose, before: bool, after: bool) -> list[Step]:
    """Tiles or rows; shards before, behind, or on both sides, in L1 and now and then in DRAM."""
    outer = [choose.one_of((1, 1, 2, 3)) for _ in range(choose.integer(0, 2))]
    sizes = [*outer, choose.one_of((1, 32, 48, 64, 96, 160, 300)), choose.one_of((16, 32, 64, 96, 250, 256, 512))]
    layout = choose.one_of(("tile", "tile", "row_major"))
    types = ("bfloat16", "float32", "bfloat8_b") if layout == "tile" else ("bfloat16", "float32", "uint32")
    source: Step = {"shape": sizes, "dtype": choose.one_of(types), "layout": layout}
    source |= sample.any_place(choose, sizes, layout, sharded=before)
    wanted: dict[str, Any] = {}
    if record.name != "to_memory_config" and record.arguments and layout == "tile" and not choose.integer(0, 3):
        wanted = {"output_dtype": {"dtype": choose.one_of(types)}}
    place = sample.any_place(choose, sizes, layout, sharded=after)
    if choose.integer(0, 2):
        return format_call(record.name, [source], place, **wanted)
    return format_call(record.name, [source], place, *wanted.values())


DRAWS: dict[str, Draw] = {
    "to_memory_config": draw_to_memory_config,
    "interleaved_to_sharded": draw_to_shards,
    "sharded_to_interleaved": draw_to_pages,
    "reshard": draw_reshard,
}
