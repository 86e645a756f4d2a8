# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.pool``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_image(choose: Choose, shape: list[int]) -> tuple[Step, dict[str, Any]]:
    """Rows of channels; now and then tiles, shards as convolutions leave them, and what callers choose of a pooling."""
    source: Step = {"shape": shape, "dtype": "bfloat16", "layout": "row_major", "memory": choose.one_of(("L1", "DRAM"))}
    if choose.integer(0, 1):
        return source, {}
    if choose.integer(0, 1):
        source |= {"layout": "tile", "dtype": choose.one_of(("bfloat16", "bfloat8_b"))}
    if choose.integer(0, 2):
        source |= sample.any_place(choose, shape, source["layout"], sharded=True)
    flags = {"reallocate_halo_output": False, "output_layout": {"layout": "tile"}}
    choices: dict[str, Any] = {name: value for name, value in flags.items() if not choose.integer(0, 3)}
    if "shard" not in source and not choose.integer(0, 2):
        kind = choose.one_of(("HEIGHT", "WIDTH", "BLOCK"))
        choices["applied_shard_scheme"] = {"attribute": f"ttnn.TensorMemoryLayout.{kind}_SHARDED"}
    if not choose.integer(0, 3):
        choices["memory_config"] = {"memory": choose.one_of(("L1", "DRAM"))}
    return source, choices


def draw_pool2d(record: OperationRecord, choose: Choose) -> list[Step]:
    batch, height, width = choose.one_of((1, 1, 2)), choose.one_of((7, 14, 28, 33, 56)), choose.one_of((7, 14, 40, 56))
    channels, size = choose.one_of((3, 16, 32, 64, 100, 256, 290)), choose.one_of((2, 3, 3, 5))
    stride, padding = choose.one_of((1, 2, 2)), choose.one_of((0, size // 2))
    named: dict[str, Any] = {"ceil_mode": bool(choose.integer(0, 1))}
    last: list[Any] = [[choose.one_of((1, 1, 2))] * 2]
    if record.name == "avg_pool2d":
        last, named["count_include_pad"] = [], bool(choose.integer(0, 1))
        if not choose.integer(0, 3):  # the whole image
            size, stride, padding, width = height, 1, 0, height
    source, choices = draw_image(choose, [1, 1, batch * height * width, channels])
    places = [size] * 2, [stride] * 2, [padding] * 2
    return format_call(record.name, [source], batch, height, width, channels, *places, *last, **named, **choices)


DRAWS: dict[str, Draw] = {
    "pool2d": draw_pool2d,
}
