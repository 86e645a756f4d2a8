# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.to_layout``."""

from __future__ import annotations

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_to_layout(record: OperationRecord, choose: Choose) -> list[Step]:
    """Rows of all widths: whole rows of tiles, blocks of them, and what does not fit."""
    layout: Step = choose.one_of(({"layout": "tile"}, {"attribute": "ttnn.ROW_MAJOR_LAYOUT"}))
    source = sample.tensor(choose, integers=True)
    if not choose.integer(0, 3):
        source["shape"][-2:] = [32 * choose.integer(1, 8), 32 * choose.integer(1, 8)]
        placed = sample.any_place(choose, source["shape"], "tile", sharded=True)
        return format_call(record.name, [source | placed], layout, memory=sample.wish(choose))
    if not choose.integer(0, 2):
        source["shape"][-1] *= choose.one_of((4, 16, 40, 100))
        source["shape"][-2] *= choose.one_of((1, 1, 8, 20))
    return format_call(record.name, [source], layout, memory=sample.wish(choose))


DRAWS: dict[str, Draw] = {
    "to_layout": draw_to_layout,
}
