# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

from oracle.real import find_ttnn
from oracle.sides import Side, boards_of_the_oracle, real_side
from ttmem.hardware import BOARDS


def cases(share: float, per_example: float) -> int:
    """How many hypothesis examples a test may use.

    `TTMEM_ORACLE_CASES` is the number of cases of the whole oracle run; a test takes its share, and one example of it
    holds about `per_example` cases.
    """
    return max(int(int(os.environ.get("TTMEM_ORACLE_CASES", "10000")) * share / per_example), 1)


def share_of_the_run(share: float, per_example: float) -> settings:
    """Of the whole run's cases; the same examples each time, unless somebody asked for a number of them."""
    return settings(
        max_examples=cases(share, per_example),
        deadline=None,
        database=None,
        derandomize="TTMEM_ORACLE_CASES" not in os.environ,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="package", autouse=True)
def oracle_boards() -> Iterator[None]:
    """Known to these tests alone."""
    boards = boards_of_the_oracle()
    for board in boards:
        BOARDS.add(board)
    yield
    for board in boards:
        BOARDS.remove(board.name)


@pytest.fixture(scope="package")
def real_device(oracle_boards: None) -> Iterator[Callable[[str], Side]]:
    """The real library by board, one process each, kept for the whole run and replaced when it dies."""
    interpreter, reason = find_ttnn()
    if interpreter is None:
        pytest.skip(
            f"THE TWIN WAS NOT COMPARED WITH THE REAL TTNN: {reason}; "
            "run `python tools/ttnn_env.py`, or set TTMEM_TTNN_PYTHON"
        )
    sides: dict[str, Side] = {}

    def open_real(board: str) -> Side:
        if board not in sides:
            sides[board] = real_side(board)
        return sides[board]

    yield open_real
    for side in sides.values():
        side.close()
