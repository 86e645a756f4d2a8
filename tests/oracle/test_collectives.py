# SPDX-License-Identifier: Apache-2.0
"""Chips of a mesh together: results, what is kept meanwhile, semaphores that stay, and clashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.choices import HypothesisChoose, renamed
from oracle.conftest import share_of_the_run
from oracle.draws import draw_call
from oracle.sides import Side, twin_side
from oracle.test_operations import CALLS_PER_CHAIN, Chain, results_of
from ttmem.twin.operations import RECORDS

pytestmark = pytest.mark.oracle

COLLECTIVES = [record for record in RECORDS if record.needs_mesh]
_TIMES = 3


@st.composite
def collectives(draw: st.DrawFn) -> list[dict[str, Any]]:
    choose = HypothesisChoose(draw)
    record = choose.one_of(COLLECTIVES)
    return draw_call(record, choose)


@pytest.mark.parametrize(
    ("board", "opened", "axis"),
    [
        ("n300", {"mesh": [1, 2], "l1_small_size": 32768}, None),
        ("n300", {"mesh": [1, 2], "worker_l1_size": 200_000}, None),
        ("t3k", {"mesh": [1, 8], "l1_small_size": 32768}, None),
        ("t3k", {"mesh": [2, 4]}, 1),
        ("t3k", {"mesh": [2, 4]}, None),
        ("galaxy", {"mesh": [8, 4]}, 0),
        ("p300", {"mesh": [1, 2], "worker_l1_size": 250_000}, None),
        ("p150x4", {"mesh": [2, 2], "l1_small_size": 32768}, 0),
        ("p150x4", {"mesh": [1, 4]}, None),
    ],
)
def test_collectives_leave_the_same_memory(
    real_device: Callable[[str], Side], board: str, opened: dict[str, Any], axis: int | None
) -> None:
    real, twin = real_device(board), twin_side(board)
    assert real.open(**opened)["ok"]
    twin.open(**opened)

    @share_of_the_run(0.01, CALLS_PER_CHAIN)
    @given(st.lists(collectives(), min_size=1, max_size=2 * CALLS_PER_CHAIN), st.sampled_from([0, 0, 48_000, 200_000]))
    def compare(drawn: list[list[dict[str, Any]]], left_bytes: int) -> None:
        chain = Chain(real, twin)
        chain.fill(left_bytes)
        for steps in drawn:
            if axis is not None:
                steps[-1]["kwargs"]["cluster_axis"] = axis
            chain.call(steps)
        chain.compare()

    compare()


@pytest.mark.parametrize(("board", "small_bytes"), [("n300", 0), ("n300", 32768), ("p300", 0)])
def test_a_collective_that_is_called_again_finds_its_program_as_it_was(
    real_device: Callable[[str], Side], board: str, small_bytes: int
) -> None:
    """Packets are as many as L1 had room for when the program was made; its semaphores are there already."""
    real, twin = real_device(board), twin_side(board)
    opened = {"mesh": [1, 2], "l1_small_size": small_bytes}
    real.open(**opened)
    twin.open(**opened)

    @share_of_the_run(0.01, _TIMES)
    @given(collectives(), st.tuples(*[st.integers(0, 60_000) | st.integers(0, 300_000)] * _TIMES))
    def compare(steps: list[dict[str, Any]], left_bytes: tuple[int, ...]) -> None:
        chain = Chain(real, twin)
        *allocations, call = steps
        if all(chain.do(step) for step in allocations):
            for number, left in enumerate(left_bytes):
                chain.call_below(renamed(call, {name: f"{name}.{number}" for name in results_of(call)}), left)
        chain.compare()

    compare()
