# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.upsample``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_upsample(record: OperationRecord, choose: Choose) -> list[Step]:
    shape = [choose.one_of((1, 2)), *(choose.one_of((1, 7, 16, 20, 33)) for _ in range(2)), 32 * choose.integer(1, 9)]
    named: dict[str, Any] = {"mode": choose.one_of(("nearest", "bilinear"))} if choose.integer(0, 2) else {}
    memory: str | None = choose.one_of(("L1", "DRAM"))
    source: Step = {"shape": shape, "dtype": "bfloat16", "layout": "row_major", "memory": memory}
    if not choose.integer(0, 2):
        source |= sample.any_place(choose, shape, "row_major", sharded=True)
        memory = choose.one_of((None, None, None, "DRAM"))
    elif not choose.integer(0, 3):
        shape[2] = 32 * choose.integer(1, 3)
        source |= {"layout": "tile", "dtype": choose.one_of(("bfloat16", "bfloat8_b"))}
    return format_call(record.name, [source], [choose.integer(1, 4), choose.integer(1, 4)], memory=memory, **named)


DRAWS: dict[str, Draw] = {
    "upsample": draw_upsample,
}
