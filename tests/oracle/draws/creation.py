# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.creation``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.creation import create
from ttmem.twin.operations.record import OperationRecord, Step


def _draw_place(choose: Choose, *, types: tuple[str, ...]) -> dict[str, Any]:
    dtype = choose.one_of(types)
    layout = "tile" if dtype == "bfloat8_b" else choose.one_of(("tile", "row_major"))
    place = {"dtype": {"dtype": dtype}, "layout": {"layout": layout}, "device": {"device": None}}
    if not choose.integer(0, 4):
        del place["layout"]
    return place


_ALL = ("bfloat16", "float32", "bfloat8_b", "uint32", "int32", "uint16")


def draw_create(record: OperationRecord, choose: Choose) -> list[Step]:
    values = [sample.shape(choose), *([1.0] if record.name == "full" else [])]
    memory = choose.one_of(sample.MEMORIES)
    types = _ALL if record.plan is create else ("bfloat16", "float32")
    return format_call(record.name, [], *values, memory=memory, **_draw_place(choose, types=types))


def draw_arange(record: OperationRecord, choose: Choose) -> list[Step]:
    start, step = choose.integer(0, 5), choose.one_of((1, 1, 2, 3))
    end = start + choose.one_of(sample.SIZES) * choose.one_of((1, 1, 40))
    place = _draw_place(choose, types=("bfloat16", "float32", "int32", "uint32"))
    place.pop("layout", None)
    return format_call(record.name, [], start, end, step, memory=choose.one_of(sample.MEMORIES), **place)


def draw_like(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, integers=True, odd=True)
    named: dict[str, Any] = {"fill_value": 2.0} if record.name == "full_like" else {}
    return format_call(record.name, [source], memory=sample.wish(choose), **named)


def draw_copy(record: OperationRecord, choose: Choose) -> list[Step]:
    source = sample.tensor(choose, integers=True, odd=True)
    return format_call(record.name, [source, {**source, "memory": choose.one_of(sample.MEMORIES)}])


DRAWS: dict[str, Draw] = {
    "zeros": draw_create,
    "ones": draw_create,
    "empty": draw_create,
    "full": draw_create,
    "rand": draw_create,
    "arange": draw_arange,
    "create like": draw_like,
    "copy": draw_copy,
}
