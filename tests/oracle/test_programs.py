# SPDX-License-Identifier: Apache-2.0
"""Random programs of circular buffers under random L1 pressure: addresses, clashes, overflows and refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.conftest import share_of_the_run
from oracle.sides import Side, twin_side
from oracle.strategies import programs
from ttmem.engines.twin import TwinEngine

pytestmark = pytest.mark.oracle

IO = {"alloc": "io", "shape": [32, 32], "dtype": "bfloat16", "layout": "tile", "memory": "DRAM"}


def without_program_id(answer: dict[str, Any]) -> dict[str, Any]:
    """The id is a counter of the process, of no meaning to anyone."""
    if "error" not in answer:
        return answer
    return {**answer, "error": re.sub(r" in program \d+", "", answer["error"])}


@pytest.mark.parametrize(("board", "banks", "limit"), [("n150", 64, 32), ("p150", 110, 64)])
def test_programs_are_laid_out_and_checked_as_the_library_does(
    real_device: Callable[[str], Side], board: str, banks: int, limit: int
) -> None:
    real, twin = real_device(board), twin_side(board)
    opened = real.open()
    twin.open()
    columns, rows = opened["grid"]
    pool_bytes = opened["pools"]["L1"][2]

    @share_of_the_run(0.05, 1)
    @given(programs(columns, rows, limit), st.sampled_from([0, 0, 3000, 20_000, 100_000, 300_000]), st.integers(0, 900))
    def compare(buffers: list[dict[str, Any]], left_bytes: int, more: int) -> None:
        steps: list[dict[str, Any]] = [{"clear": "cache"}, IO]
        if left_bytes:
            # One interleaved tensor with a row per bank fills L1 from the top and leaves the rest to the program.
            row = pool_bytes - left_bytes - more
            steps.append(
                {"alloc": "filler", "shape": [banks, row], "dtype": "uint8", "layout": "row_major", "memory": "L1"}
            )
        steps.append({"program": buffers})
        expected, found = real.run(steps), twin.run(steps)
        assert found[:-1] == expected[:-1]
        assert found[-1] == without_program_id(expected[-1]), buffers

    compare()


def test_a_program_may_run_over_l1_small_and_the_library_does_not_notice(
    real_device: Callable[[str], Side],
) -> None:
    # GIVEN a live L1_SMALL tensor at the very top of L1
    opened = {"l1_small_size": 32768}
    small = {
        "alloc": "s",
        "shape": [32, 32],
        "dtype": "bfloat16",
        "layout": "tile",
        "memory": "L1_SMALL",
        "shard": {"kind": "height", "shape": [32, 32], "ranges": [[0, 0, 0, 0]]},
    }
    program = {"program": [{"bytes": 1_390_000, "page_bytes": 1000, "index": 0, "ranges": [[0, 0, 1, 1]]}]}
    real, twin = real_device("n150"), twin_side("n150")
    real.open(**opened)
    twin.open(**opened)
    # WHEN a program's buffers reach into it THEN the library launches it, and the twin warns
    assert real.run([{"clear": "cache"}, IO, small, program])[-1]["ok"]
    assert twin.run([IO, small, program])[-1]["ok"]
    assert isinstance(twin.engine, TwinEngine)
    assert "L1_SMALL" in twin.engine.warnings[-1]
