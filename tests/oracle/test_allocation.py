# SPDX-License-Identifier: Apache-2.0
"""Random allocation scripts: every address, every out-of-memory text, every view and block table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from oracle.conftest import share_of_the_run
from oracle.sides import Side, twin_side
from oracle.strategies import scripts

pytestmark = pytest.mark.oracle

STEPS_PER_SCRIPT = 35


def with_sorted_blocks(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The library lists blocks in its own order, and an empty pool as one block of no bytes."""
    return [{**a, "blocks": sorted(b for b in a["blocks"] if b[1])} if "blocks" in a else a for a in answers]


@pytest.mark.parametrize(
    ("board", "opened"),
    [
        ("n150", {"worker_l1_size": 200_000, "l1_small_size": 8192, "trace_region_size": 3_000_000}),
        ("n150", {"dispatch": "col", "trace_region_size": 50_000_000}),
        ("n300-as-sold", {"l1_small_size": 32768}),
        ("p150", {"worker_l1_size": 150_000, "l1_small_size": 16384, "trace_region_size": 1_000_000}),
        ("p100", {"l1_small_size": 4096}),
    ],
)
def test_scripts_end_in_the_same_memory(real_device: Callable[[str], Side], board: str, opened: dict[str, Any]) -> None:
    real, twin = real_device(board), twin_side(board)
    columns, rows = real.open(**opened)["grid"]
    twin.open(**opened)

    @share_of_the_run(0.08, STEPS_PER_SCRIPT)
    @given(scripts(columns, rows))
    def compare(script: list[dict[str, Any]]) -> None:
        # A tensor that did not fit has no name to free, on either side.
        found = []
        failed: set[str] = set()
        steps = []
        for step in script:
            if step.get("free") in failed:
                continue
            steps.append(step)
            answer = twin.run([step])[0]
            if "alloc" in step and not answer["ok"]:
                failed.add(step["alloc"])
            found.append(answer)
        expected = real.run([*steps, {"clear": "cache"}])[:-1]
        twin.run([{"clear": "cache"}])
        for step, theirs, ours in zip(steps, with_sorted_blocks(expected), with_sorted_blocks(found), strict=True):
            assert ours == theirs, step

    compare()
