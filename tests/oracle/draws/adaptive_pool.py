# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.adaptive_pool``."""

from __future__ import annotations

from oracle.draws.choose import Choose, Draw
from oracle.draws.pool import draw_image
from ttmem.twin.operations.adaptive_pool import CHOICES
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_adaptive(record: OperationRecord, choose: Choose) -> list[Step]:
    batch, height, width = choose.one_of((1, 1, 2)), choose.one_of((7, 14, 28, 33, 56)), choose.one_of((7, 14, 40, 56))
    wanted = [
        choose.one_of([1, 7, size, -(-size // 2), *(d for d in range(1, size) if size % d == 0), 3])
        for size in (height, width)
    ]
    channels = choose.one_of((3, 16, 32, 64, 100, 256, 290))
    source, choices = draw_image(choose, [1, 1, batch * height * width, channels])
    known = {name: value for name, value in choices.items() if name in (*CHOICES, "memory_config")}
    return format_call(record.name, [source], batch, height, width, channels, wanted, **known)


DRAWS: dict[str, Draw] = {
    "adaptive_pool2d": draw_adaptive,
}
