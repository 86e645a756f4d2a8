# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.gather_scatter``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_embedding(record: OperationRecord, choose: Choose) -> list[Step]:
    length = choose.one_of((1, 7, 32, 64, 100, 300))
    outer = [[], [1], [1], [3]][choose.integer(0, 3)]
    numbers = {
        "shape": [*outer, length],
        "dtype": "uint32",
        "layout": "row_major",
        "memory": choose.one_of(sample.MEMORIES),
    }
    table = {
        "shape": [choose.one_of((32, 100, 500)), choose.one_of((16, 30, 32, 64, 100, 768, 1024))],
        "dtype": "bfloat16",
        "layout": choose.one_of(("row_major", "row_major", "tile")),
        "memory": choose.one_of(sample.MEMORIES),
    }
    named: dict[str, Any] = (
        {"layout": {"layout": choose.one_of(("tile", "row_major"))}} if not choose.integer(0, 2) else {}
    )
    return format_call(record.name, [numbers, table], memory=sample.wish(choose), **named)


def draw_wide_embedding(record: OperationRecord, choose: Choose) -> list[Step]:
    numbers = {"shape": [1, 32 * choose.integer(1, 3)], "dtype": "uint32", "layout": "row_major", "memory": "DRAM"}
    table = {
        "shape": [100, 32 * choose.integer(33, 200)],
        "dtype": "bfloat16",
        "layout": "row_major",
        "memory": choose.one_of(sample.MEMORIES),
    }
    return format_call(record.name, [numbers, table], layout={"layout": "tile"})


DRAWS: dict[str, Draw] = {
    "embedding": draw_embedding,
}
