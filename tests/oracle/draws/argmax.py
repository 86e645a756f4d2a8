# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.argmax``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_argmax(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, most=4)
    if not choose.integer(0, 2):
        source["shape"][-1] = choose.one_of((400, 512, 700, 1024, 1500, 4096, 10000, 40000))
    named: dict[str, Any] = {"keepdim": True} if choose.integer(0, 1) else {}
    if choose.integer(0, 3):
        named["dim"] = choose.integer(-len(source["shape"]), -1)
    return format_call(record.name, [source], memory=sample.wish(choose), **named)


DRAWS: dict[str, Draw] = {
    "argmax": draw_argmax,
}
