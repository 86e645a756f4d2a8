# SPDX-License-Identifier: Apache-2.0
"""For any profile all questions have an answer and all reports can be written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from support.build_profile import ProfileBuilder, tensor
from support.examples import examples
from support.profile_stories import HOSTILE, OOM
from ttmem.analysis.budget import Limit, Limits, check
from ttmem.analysis.diff import diff
from ttmem.analysis.peaks import peaks
from ttmem.commands.check import BudgetCheck
from ttmem.profile.model import Profile
from ttmem.profile.runs import find_runs, select
from ttmem.reports import diff as diff_report
from ttmem.reports import profile_files, profile_text, profile_timeline

pytestmark = pytest.mark.slow

NAMES = st.sampled_from(
    ["ttnn.add", "ttnn.deallocate", "ttnn.reshape", "ttcore.load_cached", "ttnn.to_device", HOSTILE]
)
VALUES = st.sampled_from([f"%{number}" for number in range(4)] + ["%arg0", "%5#1"])
TYPES = st.sampled_from([tensor(32, 32), tensor(1, 1), tensor(64, 64, memory="L1", shard_bytes=2048), None])
TENSORS = st.dictionaries(VALUES, TYPES, max_size=2)
STATES = st.fixed_dictionaries(
    {},
    optional={
        "dram": st.integers(0, 10**9),
        "l1": st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6)),
        "trace": st.just(0),
    },
)
EVENTS = st.one_of(
    st.tuples(st.just("operation"), NAMES, TENSORS, TENSORS, STATES, st.booleans()),
    st.tuples(st.sampled_from(["before_submit", "after_submit", "snapshot"]), STATES),
    st.tuples(st.sampled_from(["open", "close", "hit", "miss", "rank"])),
    st.tuples(st.just("fail"), st.booleans()),
)


class Story:
    """Plays events into a builder; programs are opened and closed as the events say."""

    def __init__(self, error_bytes: int) -> None:
        self.build = ProfileBuilder("any", error_bytes=error_bytes)
        self.open: list[Any] = []
        self.rank = 0

    def play(self, event: tuple[Any, ...]) -> None:
        kind, *rest = event
        if kind == "operation":
            name, results, operands, state, retained = rest
            if name == "ttcore.load_cached":  # a cache of tensors: it never holds a device or a semaphore
                results = {value: type_ or tensor(32, 32) for value, type_ in results.items()}
            self.build.operation(
                name, results=results, operands=operands, location=name, retained=retained, callee="f", **state
            )
        elif kind in ("before_submit", "after_submit", "snapshot"):
            getattr(self.build, kind)(**rest[0])
        elif kind == "open":
            program = self.build.program(f"main_const_eval_{len(self.open)}" if len(self.open) % 2 else "main")
            program.__enter__()
            self.open.append(program)
        elif kind == "rank":
            self.close_all()
            self.build.rank(self.rank)
            self.rank += 1
        elif kind == "close" and self.open:
            self.open.pop().__exit__(None, None, None)
        elif kind in ("hit", "miss"):
            self.build.operation("ttcore.load_cached", results={"%0": tensor(32, 32)}, callee="f")
            self.build.lookup("f", hit=kind == "hit")
        elif kind == "fail":
            self.build.fail(OOM, outside=rest[0])

    def close_all(self) -> None:
        while self.open:
            self.open.pop().__exit__(None, None, None)

    def profile(self) -> Profile:
        self.close_all()
        return self.build.build()


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    story = Story(draw(st.sampled_from([0, 525])))
    for event in draw(st.lists(EVENTS, max_size=30)):
        story.play(event)
    return story.profile()


def assert_every_report(profile: Profile) -> None:
    document = profile.to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    listed = sum(item["bytes_per_bank"] for item in document["consumers"])
    if "DRAM" in document["memories"]:
        peak = document["memories"]["DRAM"]["peak_bytes_per_bank"]
        assert listed + document["unattributed_bytes_per_bank"] == peak
    assert len(profile_text.render_markdown(profile).encode()) <= 24_000
    assert max(map(len, profile_text.render_terminal(profile, width=80).splitlines()), default=0) <= 80
    assert 'id="ttmem-report"' in profile_files.render_html(profile)
    assert profile_timeline.render_csv(profile).count("\n") >= 1 + sum(
        len(timeline.state_kind) for timeline in profile.timelines
    )
    assert len(list(profile_files.build_files(profile))) == 5
    padding = Limit(10.0) if document["padding"]["overhead_percent"] is not None else None
    limits = Limits({memory: Limit(50.0) for memory in peaks(profile)}, padding=padding, growth=Limit(1.0))
    verdicts = check(profile, limits, baseline=profile if peaks(profile) else None)
    json.dumps(BudgetCheck(tuple(verdicts), "run.log").to_json(), allow_nan=False)


@examples(80, suppress_health_check=[HealthCheck.too_slow])
@given(profiles())
def test_every_report_of_any_profile_and_of_each_of_its_runs(profile: Profile) -> None:
    assert_every_report(profile)
    for number in sorted({run.number for run in find_runs(profile)})[:2]:
        assert_every_report(select(profile, run=number))


@examples(50, suppress_health_check=[HealthCheck.too_slow])
@given(profiles(), profiles())
def test_any_two_profiles_can_be_compared(before: Profile, after: Profile) -> None:
    found = diff(before, after)
    json.dumps(diff_report.build_document(found, regression=False).to_json(), allow_nan=False)
    assert diff_report.render_terminal(found)
    same = diff(before, before)
    assert (same.grew, same.shrank, same.operation_counts) == ((), (), ())
