# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.softmax``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from oracle.draws.elementwise import draw_sharded
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step
from ttmem.twin.operations.softmax import SHARDED_CONFIG


def draw_softmax(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, tile_only=True, integers=not choose.integer(0, 5), odd=True)
    source["shape"] = source["shape"] or [choose.one_of(sample.SIZES)]
    dim = choose.one_of((-1, -1, -1, -min(2, len(source["shape"])), -len(source["shape"])))
    if not choose.integer(0, 3):
        source["shape"][dim] *= choose.one_of((8, 32, 64))  # rows that do not fit a core
    _, named = sample.options(record, choose)
    if not choose.integer(0, 3):
        return draw_sharded(record.name, choose, dim=-1, **named)
    source, place = sample.among_shards(choose, source)
    return format_call(record.name, [source], **place, dim=dim, **named)


def draw_in_place(record: OperationRecord, choose: Choose) -> list[Step]:
    """Of pages, or of shards with or without a config that says how they are cut."""
    _, named = sample.options(record, choose)
    if not choose.integer(0, 2):
        return format_call(record.name, [sample.tensor(choose, tile_only=True, most=4)], **named)
    source = sample.sharded_tensor(choose)
    high, wide = (size // 32 for size in source["shard"]["shape"])
    _, _, last_column, last_row = source["shard"]["ranges"][0]
    if choose.integer(0, 2):
        grid = {"tuple": [last_column + 1, last_row + 1]}
        sizes: dict[str, Any] = {"subblock_w": 1, "block_h": high, "block_w": wide}
        named["program_config"] = {"new": SHARDED_CONFIG, "kwargs": {"compute_with_storage_grid_size": grid, **sizes}}
    return format_call(record.name, [source], **named)


DRAWS: dict[str, Draw] = {
    "softmax": draw_softmax,
    "softmax_in_place": draw_in_place,
}
