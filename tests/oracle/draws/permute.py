# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.permute``."""

from __future__ import annotations

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_transpose(record: OperationRecord, choose: Choose) -> list[Step]:
    source, wanted = sample.among_shards(choose, sample.tensor(choose, integers=True))
    rank = len(source["shape"])
    first, second = sample.shuffled(choose, list(range(rank)))[:2]
    return format_call(record.name, [source], first, second - rank, **wanted)


def draw_permute(record: OperationRecord, choose: Choose) -> list[Step]:
    source, wanted = sample.among_shards(choose, sample.tensor(choose, integers=True))
    dims = sample.shuffled(choose, list(range(len(source["shape"]))))
    return format_call(record.name, [source], dims, **wanted)


DRAWS: dict[str, Draw] = {
    "transpose": draw_transpose,
    "permute": draw_permute,
}
