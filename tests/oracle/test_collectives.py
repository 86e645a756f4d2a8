# SPDX-License-Identifier: Apache-2.0
"""Chips of a mesh together: results, what is kept meanwhile, semaphores that stay, and clashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from oracle.choices import HypothesisChoose
from oracle.conftest import cases, is_long_run
from oracle.sides import Side, twin_side
from oracle.test_operations import CALLS_PER_CHAIN, Chain
from ttmem.allocator.operations import RECORDS

pytestmark = pytest.mark.oracle

COLLECTIVES = [record for record in RECORDS if record.family == "collective"]


@st.composite
def collectives(draw: st.DrawFn) -> list[dict[str, Any]]:
    choose = HypothesisChoose(draw)
    record = choose.one_of(COLLECTIVES)
    return record.draw(record, choose)


@pytest.mark.parametrize(
    ("board", "opened", "axis"),
    [
        ("n300", {"mesh": [1, 2], "l1_small_size": 32768}, None),
        ("n300", {"mesh": [1, 2], "worker_l1_size": 200_000}, None),
        ("t3k", {"mesh": [1, 8], "l1_small_size": 32768}, None),
        ("t3k", {"mesh": [2, 4]}, 1),
        ("p300", {"mesh": [1, 2], "worker_l1_size": 250_000}, None),
        ("p150x4", {"mesh": [2, 2], "l1_small_size": 32768}, 0),
    ],
)
def test_collectives_leave_the_same_memory(
    real_device: Callable[[str], Side], board: str, opened: dict[str, Any], axis: int | None
) -> None:
    real, twin = real_device(board), twin_side(board)
    assert real.open(**opened)["ok"]
    twin.open(**opened)

    @settings(
        max_examples=cases(0.01, CALLS_PER_CHAIN),
        deadline=None,
        database=None,
        derandomize=not is_long_run(),
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
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
