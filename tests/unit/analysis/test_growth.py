# SPDX-License-Identifier: Apache-2.0
"""Growth compares the states at the start of runs that load nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.build_profile import ProfileBuilder, tensor
from ttmem.analysis.growth import LEAK, STEADY, TOO_FEW_RUNS, Growth, growth
from ttmem.profile.model import Profile

T = tensor(32, 32)


def runs_starting_at(*starts: int, error_bytes: int = 0) -> Profile:
    """The same small graph once per figure; the first run folds its constants."""
    build = ProfileBuilder(error_bytes=error_bytes)
    for number, start in enumerate(starts):
        with build.program("main"):
            build.operation("ttcore.load_cached", results={"%0": T}, callee="main_const_eval_0", dram=start)
            build.lookup("main_const_eval_0", hit=number > 0)
            if number == 0:
                with build.program("main_const_eval_0"):
                    build.operation("ttnn.full", results={"%0": T}, dram=start)
            build.operation("ttnn.add", results={"%1": T}, dram=start + 10_000)
    return build.build()


def verdict(*starts: int) -> str:
    return growth(runs_starting_at(*starts))["DRAM"].verdict


def test_a_leak_has_a_slope() -> None:
    # GIVEN 500 B more at the start of each run, after the first one loaded 10 000 B
    found = growth(runs_starting_at(0, 10_000, 10_500, 11_000, 11_500, error_bytes=30))["DRAM"]
    assert found == Growth(
        rank=None,
        starts_bytes_per_bank=(0, 10_000, 10_500, 11_000, 11_500),
        compared_runs=3,
        bytes_per_bank_per_run=500.0,
        error_bytes_per_run=20.0,  # 30 B at each end of three steps
        verdict=LEAK,
    )


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ((0,), TOO_FEW_RUNS),
        ((0, 900), TOO_FEW_RUNS),
        ((0, 900, 901), TOO_FEW_RUNS),
        ((0, 900, 900, 900), STEADY),
        ((0, 900, 901, 902), LEAK),
        ((0, 900, 950, 950, 950, 950, 950), STEADY),  # a late cache, once
        ((0, 900, 800, 700, 600), STEADY),
        ((0, 900, 900, 901, 901, 902, 902, 903), LEAK),  # smaller than a printed step, but it goes on
    ],
)
def test_verdicts(starts: tuple[int, ...], expected: str) -> None:
    assert verdict(*starts) == expected


def test_first_execution_of_another_graph_is_loading_too() -> None:
    # GIVEN two graphs, both called main as all are; the second one starts late
    build = ProfileBuilder()
    for start, graph in ((0, "a"), (100, "a"), (100, "b"), (900, "b"), (900, "a"), (900, "b"), (900, "a")):
        with build.program("main"):
            build.operation("ttnn.add", location=graph, dram=start)
    found = growth(build.build())["DRAM"]
    # THEN the jump to 900 is the second graph's load, not a leak
    assert (found.compared_runs, found.bytes_per_bank_per_run, found.verdict) == (4, 0.0, STEADY)


def test_submit_states_are_a_runs_start() -> None:
    build = ProfileBuilder()
    for level in (0, 10, 20, 30):
        build.before_submit(dram=level)
        build.after_submit(dram=level + 10)
    assert growth(build.build())["DRAM"].starts_bytes_per_bank == (0, 10, 20, 30)


def test_the_leaking_rank_is_shown() -> None:
    build = ProfileBuilder()
    for rank, step in ((0, 0), (1, 5)):
        build.rank(rank)
        for number in range(5):
            with build.program("main"):
                build.operation("ttnn.add", dram=step * number)
    found = growth(build.build())["DRAM"]
    assert (found.rank, found.verdict, found.bytes_per_bank_per_run) == (1, LEAK, 5.0)


@given(st.lists(st.integers(0, 10**9), min_size=4, max_size=40))
def test_what_does_not_end_higher_is_never_a_leak(starts: list[int]) -> None:
    found = growth(runs_starting_at(*starts))["DRAM"]
    steps = [second - first for first, second in pairwise(starts[1:])]
    assert found.compared_runs == len(steps)
    if sum(steps) <= 0:
        assert found.verdict == STEADY
    if all(step > 0 for step in steps):
        assert found.verdict == LEAK
