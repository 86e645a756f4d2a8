# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.grid_sample``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from oracle.draws.sample import draw_kernel_config
from ttmem.twin.operations.call_syntax import format_call, format_height_shards
from ttmem.twin.operations.grid_sample import NUMBERS_OF_A_POINT
from ttmem.twin.operations.record import OperationRecord, Step


def draw_grid_sample(record: OperationRecord, choose: Choose) -> list[Step]:
    is_prepared = not choose.integer(0, 2)
    mode = choose.one_of(("bilinear", "nearest")) if is_prepared else "bilinear"
    batch, channels = choose.one_of((1, 1, 2, 8)), 32 * choose.one_of((1, 1, 2, 5, 8, 9, 20))
    high, wide = choose.one_of((1, 7, 30, 300)), choose.one_of((1, 4, 20))
    points = choose.one_of((1, 1, 2, 7))
    image = sample.tensor(choose, [batch, choose.one_of((7, 14, 28)), choose.one_of((7, 20)), channels])
    grid = sample.tensor(choose, [batch, high, wide, points * NUMBERS_OF_A_POINT[mode, is_prepared]])
    for spec in (image, grid):
        spec |= {"layout": "row_major", "dtype": choose.one_of(("bfloat16", "float32"))}
    named: dict[str, Any] = {"mode": mode, "use_precomputed_grid": is_prepared, **draw_kernel_config(choose)}
    if is_prepared:
        grid["dtype"] = "bfloat16"
    if points > 1 and choose.integer(0, 1):
        named["batch_output_channels"] = True
    if not choose.integer(0, 2):
        cores = choose.integer(1, 40)
        grid |= format_height_shards(cores, -(-batch * high * wide // cores), grid["shape"][-1])
        return format_call(record.name, [image, grid], **named)
    if not choose.integer(0, 3):
        image |= sample.any_place(choose, image["shape"], "row_major", sharded=True)
        place = sample.any_place(choose, [batch, high, wide * points, channels], "row_major", sharded=True)
        return format_call(record.name, [image, grid], **place, **named)
    return format_call(record.name, [image, grid], memory=sample.wish(choose), **named)


DRAWS: dict[str, Draw] = {
    "grid_sample": draw_grid_sample,
}
