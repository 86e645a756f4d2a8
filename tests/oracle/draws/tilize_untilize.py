# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.tilize_untilize``."""

from __future__ import annotations

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_padded(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, most=4, tile_only=True, integers=True)
    return format_call(record.name, [source], choose.one_of((0, 1.5)))


def draw_tilize_untilize(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, integers=True)
    source["layout"] = "row_major" if record.name.startswith("tilize") else "tile"
    if choose.integer(0, 3):
        source["shape"][-2:] = [-(-size // 32) * 32 for size in source["shape"][-2:]]
    if not choose.integer(0, 2):
        source["shape"][-1] *= choose.one_of((4, 16, 40, 100))
        source["shape"][-2] *= choose.one_of((1, 1, 8, 20))
    source, place = sample.among_shards(choose, source)
    return format_call(record.name, [source], **place)


DRAWS: dict[str, Draw] = {
    "tilize": draw_tilize_untilize,
    "tilize_with_zero_padding": draw_tilize_untilize,
    "fill_implicit_tile_padding": draw_padded,
    "untilize": draw_tilize_untilize,
}
