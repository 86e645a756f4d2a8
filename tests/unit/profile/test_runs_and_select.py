# SPDX-License-Identifier: Apache-2.0
"""A run is one top-level execution; narrowing keeps the indices of the whole source."""

from __future__ import annotations

import pytest

from support.build_profile import ProfileBuilder, tensor
from ttmem.analysis.distribution import distribution
from ttmem.analysis.peaks import peaks
from ttmem.base.errors import BadInputError
from ttmem.profile.model import AFTER_SUBMIT, BEFORE_OPERATION, BEFORE_SUBMIT, Profile
from ttmem.profile.runs import Run, count_runs, find_runs, select

T = tensor(32, 32)


def three_runs() -> Profile:
    """Run 0 folds constants, run 1 has submit states, run 2 dies in its first operation."""
    build = ProfileBuilder("three")
    with build.program("main"):
        build.operation("ttcore.load_cached", results={"%0": T}, callee="main_const_eval_0", dram=100)  # 0
        build.lookup("main_const_eval_0", hit=False)
        with build.program("main_const_eval_0"):
            build.operation("ttnn.to_device", results={"%0": T}, dram=100)  # 1
        build.operation("ttnn.add", results={"%1": T}, operands={"%0": T}, dram=300)  # 2
    build.before_submit(dram=310)
    with build.program("main"):
        build.operation("ttcore.load_cached", results={"%0": T}, callee="main_const_eval_0", dram=310)  # 3
        build.lookup("main_const_eval_0", hit=True)
        build.operation("ttnn.add", results={"%1": T}, operands={"%0": T}, dram=310)  # 4
        build.operation("ttnn.deallocate", operands={"%0": T}, retained=True, dram=500)  # 5
    build.after_submit(dram=320)
    with build.program("main", finished=False):
        build.operation("ttnn.add", results={"%1": T}, operands={"%0": T}, dram=320)  # 6
        build.fail("Out of Memory: Cannot allocate at an address below 5. Allocation at 4")
    return build.build()


def test_runs_are_top_level_executions() -> None:
    assert find_runs(three_runs()) == [
        Run(-1, 0, 0, "main", first_index=0, end_index=3, first_state=0, end_state=3, finished=True),
        Run(-1, 0, 1, "main", first_index=3, end_index=6, first_state=3, end_state=8, finished=True),
        Run(-1, 0, 2, "main", first_index=6, end_index=7, first_state=8, end_state=9, finished=False),
    ]
    assert count_runs(three_runs()) == 2  # the one in which the log ends is no whole run


def test_the_only_run_counts_even_when_it_died() -> None:
    assert count_runs(select(three_runs(), run="last")) == 1


def test_narrowing_keeps_absolute_indices() -> None:
    narrowed = select(three_runs(), run=1)
    (timeline,) = narrowed.timelines
    assert (timeline.first_index, timeline.end_index) == (3, 6)
    assert timeline.state_kind.tolist() == [BEFORE_SUBMIT, *[BEFORE_OPERATION] * 3, AFTER_SUBMIT]
    assert timeline.state_operation.tolist() == [-1, 3, 4, 5, -1]
    assert timeline.state_cause.tolist() == [-1, -1, 3, 4, 5]  # operation 2 is not here any more
    assert timeline.program.tolist() == [0, 0, 0]
    assert timeline.line.tolist() == three_runs().timelines[0].line[3:6].tolist()
    (program,) = timeline.programs
    assert (program.parent, program.run, program.first_operation, program.end_operation) == (-1, 1, 3, 6)
    assert (program.first_state, program.end_state) == (0, 5)
    assert [lookup.operation for lookup in timeline.lookups] == [3]
    assert timeline.retained == {5}
    assert timeline.failures == ()
    peak = peaks(narrowed)["DRAM"]
    assert (peak.peak_bytes_per_bank, peak.at_index, peak.caused_by_index, peak.caused_by_name) == (
        500,
        5,
        4,
        "ttnn.add",
    )


def test_nested_programs_follow_their_run() -> None:
    (timeline,) = select(three_runs(), run="0").timelines
    assert [(program.name, program.parent, program.caller) for program in timeline.programs] == [
        ("main", -1, -1),
        ("main_const_eval_0", 0, 0),
    ]
    assert timeline.program.tolist() == [0, 1, 0]


def test_last_is_the_one_that_failed() -> None:
    narrowed = select(three_runs(), run="last")
    (timeline,) = narrowed.timelines
    assert (timeline.first_index, len(timeline), len(timeline.failures)) == (6, 1, 1)
    assert distribution(narrowed).by_name == {"ttnn.add": 1}


def test_all_and_none_change_nothing() -> None:
    profile = three_runs()
    assert select(profile, run="all") is profile
    assert select(profile) is profile


def test_narrowing_twice_is_narrowing_once() -> None:
    once = select(three_runs(), run=1)
    assert [run.number for run in find_runs(once)] == [1]
    again = select(once, run=1)
    assert find_runs(again) == find_runs(once)
    assert again.timelines[0].state_cause.tolist() == once.timelines[0].state_cause.tolist()


def two_ranks() -> Profile:
    build = ProfileBuilder("ranks")
    for rank, peak in ((0, 100), (1, 200)):
        build.rank(rank)
        with build.program("main"):
            build.operation("ttnn.add", dram=peak)
    build.rank(3)
    for peak in (10, 20):
        with build.program("main"):
            build.operation("ttnn.add", dram=peak)
    return build.build()


def test_one_rank_of_several() -> None:
    narrowed = select(two_ranks(), rank=1)
    assert [timeline.rank for timeline in narrowed.timelines] == [1]
    assert peaks(narrowed)["DRAM"].peak_bytes_per_bank == 200


def test_a_run_that_only_one_rank_reached() -> None:
    assert [timeline.rank for timeline in select(two_ranks(), run=1).timelines] == [3]


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"run": 3}, "no run 3", "runs in this source: 0-2; or 'last', 'all'"),
        ({"run": -1}, "no run -1", "runs in this source: 0-2; or 'last', 'all'"),
        ({"run": "first"}, "no run 'first'", "runs in this source: 0-2; or 'last', 'all'"),
        ({"rank": 0}, "no rank 0", "this source names no ranks; leave --rank out"),
        ({"rank": -1}, "no rank -1", "this source names no ranks; leave --rank out"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(options: dict[str, int | str], message: str, hint: str) -> None:
    with pytest.raises(BadInputError) as caught:
        select(three_runs(), **options)  # type: ignore[arg-type]
    assert (caught.value.message, caught.value.hint, caught.value.where) == (message, hint, "three.log")


def test_an_unknown_rank_names_the_known_ones() -> None:
    with pytest.raises(BadInputError) as caught:
        select(two_ranks(), rank=2)
    assert caught.value.hint == "ranks in this source: 0, 1, 3"


def test_a_source_without_runs_has_no_last_one() -> None:
    with pytest.raises(BadInputError, match="no run at all"):
        select(ProfileBuilder("empty").build(), run="last")


def test_submit_states_separate_runs_when_no_program_is_named() -> None:
    # GIVEN an INFO-only log: states, but neither operations nor programs
    build = ProfileBuilder("info-only")
    for level in (10, 20):
        build.before_submit(dram=level)
        build.after_submit(dram=level + 5)
    # THEN each submit is a run
    profile = build.build()
    assert [(run.number, run.first_state, run.end_state) for run in find_runs(profile)] == [(0, 0, 2), (1, 2, 4)]
    assert peaks(select(profile, run=1))["DRAM"].peak_bytes_per_bank == 25


def test_old_logs_without_program_lines_are_one_run() -> None:
    build = ProfileBuilder("old")
    build.operation("ttnn.add", dram=1)
    build.operation("ttnn.add", dram=2)
    assert [(run.first_index, run.end_index, run.end_state) for run in find_runs(build.build())] == [(0, 2, 2)]


def test_failures_outside_programs_belong_to_the_run_before() -> None:
    build = ProfileBuilder("upload")
    build.fail("before everything", outside=True)
    with build.program("main"):
        build.operation("ttnn.add", dram=1)
    build.fail("between", outside=True)
    with build.program("main"):
        build.operation("ttnn.add", dram=1)
    profile = build.build()
    assert [failure.text for failure in select(profile, run=0).timelines[0].failures] == [
        "before everything",
        "between",
    ]
    assert select(profile, run=1).timelines[0].failures == ()
