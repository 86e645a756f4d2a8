# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.binary``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_binary(record: OperationRecord, choose: Choose) -> list[Step]:
    _, named = sample.options(record, choose)
    if not choose.integer(0, 4):
        return _draw_binary_of_shards(record, choose)
    first = sample.tensor(choose, integers=True, odd=True)
    wish = sample.wish(choose)
    if not choose.integer(0, 3):
        steps = format_call(record.name, [first], choose.one_of((2.0, 3, 1)), memory=wish, **named)
        if record.name in ("pow", "subtract", "divide") and not choose.integer(0, 2):
            steps[-1]["args"].reverse()
        return steps
    second = draw_partner(choose, first)
    form = choose.integer(0, 9)
    if form == 0 and not named:
        return format_call(record.name, [first, second], in_place=True)
    if form == 1 and record.has_in_place_form and not named:
        return format_call(f"{record.name}_", [first, second])
    return format_call(record.name, [first, second] if choose.integer(0, 1) else [second, first], memory=wish, **named)


def _draw_binary_of_shards(record: OperationRecord, choose: Choose) -> list[Step]:
    """Two tensors or one and a number, either of them in shards or not, the result too."""
    first = sample.sharded_tensor(choose)
    second = {**first, "dtype": choose.one_of((first["dtype"], first["dtype"], "bfloat16"))}
    if choose.integer(0, 1):
        shape = [size if choose.integer(0, 3) else 1 for size in first["shape"]]
        second |= {"shape": shape, "shard": None, "memory": choose.one_of(sample.MEMORIES)}
    wanted: dict[str, Any] = {}
    if choose.integer(0, 1):
        wanted = {"memory": choose.one_of(sample.MEMORIES)}
        if wanted["memory"] == "L1" and choose.integer(0, 1):
            wanted["shard"] = sample.shard_of(choose, first["shape"]) if choose.integer(0, 1) else first["shard"]
    if not choose.integer(0, 2):
        return format_call(record.name, [first], 2.0, **wanted)
    return format_call(record.name, [first, second] if choose.integer(0, 3) else [second, first], **wanted)


def draw_partner(choose: Choose, first: Step) -> Step:
    """A tensor that can be broadcast to the first, now and then of another type or layout."""
    shape = [size if choose.integer(0, 2) else 1 for size in first["shape"]]
    shorter = choose.integer(0, 1) if len(shape) > 2 else 0
    second = {**first, "shape": shape[shorter:], "memory": choose.one_of(sample.MEMORIES)}
    if not choose.integer(0, 4):
        other = sample.tensor(choose, integers=True, odd=True)
        second |= {"dtype": other["dtype"], "layout": other["layout"]}
    return second


DRAWS: dict[str, Draw] = {
    "binary": draw_binary,
    "comparison": draw_binary,
}
