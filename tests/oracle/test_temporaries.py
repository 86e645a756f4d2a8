# SPDX-License-Identifier: Apache-2.0
"""Kinds of calls, and of a short L1, that random chains meet too seldom: each of them once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from oracle.sides import Side, twin_side
from oracle.test_operations import Chain
from ttmem.twin.operations.call_syntax import format_call

pytestmark = pytest.mark.oracle

Step = dict[str, Any]
_TYPES = ("bfloat16", "float32", "bfloat8_b", "int32", "uint32", "uint16", "uint8")


def tensor(dtype: str, layout: str, memory: str) -> Step:
    return {"shape": [3, 70, 33], "dtype": dtype, "layout": layout, "memory": memory}


def quotients(memory: str) -> Iterator[list[Step]]:
    """Of all types in both layouts, by numbers and by tensors, rounded and not."""
    rounding = ({}, {"rounding_mode": "floor"}, {"rounding_mode": "trunc"})
    forms = [(dtype, "tile") for dtype in _TYPES] + [(t, "row_major") for t in _TYPES if t != "bfloat8_b"]
    for (dtype, layout), number, rounds in product(forms, (2.0, 3), rounding):
        yield format_call("div", [tensor(dtype, layout, memory)], number, **rounds)
    for first, second in product(forms, repeat=2):
        yield format_call("div", [tensor(*first, memory), tensor(*second, memory)], rounding_mode="floor")


@pytest.mark.parametrize("memory", ["DRAM", "L1"])
def test_quotients_of_all_types(real_device: Callable[[str], Side], memory: str) -> None:
    real, twin = real_device("n150"), twin_side("n150")
    real.open()
    twin.open()
    for steps in quotients(memory):
        chain = Chain(real, twin)
        chain.call(steps)
        chain.compare()


def rows(shape: list[int], memory: str, dtype: str = "bfloat16") -> Step:
    return {"shape": shape, "dtype": dtype, "layout": "row_major", "memory": memory}


def calls_of_rows(memory: str) -> Iterator[list[Step]]:
    """Those that choose by the space in L1 what they do, or how long their pieces are."""
    for wish in (None, "DRAM", "L1"):
        for shape, times in (([1, 2, 25], [2, 80, 2]), ([2, 2, 25], [2, 40, 2]), ([1, 1, 9], [1, 900, 1])):
            yield format_call("repeat", [rows(shape, memory)], times, memory=wish)
        parts = [rows([32, 40], memory), rows([32, 20], memory, "uint32"), rows([32, 20], memory)]
        steps = format_call("scatter", parts, memory=wish)
        steps[-1]["args"].insert(1, -1)
        yield steps


@pytest.mark.parametrize("memory", ["DRAM", "L1"])
@pytest.mark.parametrize("board", ["n150", "p150"])
def test_rows_where_little_is_left(real_device: Callable[[str], Side], board: str, memory: str) -> None:
    real, twin = real_device(board), twin_side(board)
    real.open(worker_l1_size=100_000)
    twin.open(worker_l1_size=100_000)
    for left_bytes, steps in product([*range(32, 800, 32), *range(800, 2600, 160)], calls_of_rows(memory)):
        chain = Chain(real, twin)
        chain.fill(left_bytes)
        chain.call(steps)
        chain.compare()
