# SPDX-License-Identifier: Apache-2.0
"""The reports of a suite, from a recording: every process counts, and so does what a dead one left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support.recorded_suite import BANK, grown_suite, recorded_suite
from ttmem import TtmemError
from ttmem.analysis.budget import parse_limit
from ttmem.analysis.suite import memory_of_tests, suite_growth
from ttmem.commands.test import BaselineSuite, choose_suite_name, judge_suite
from ttmem.profile import profile_file
from ttmem.reports import suite as suite_report


def test_every_test_is_a_run_with_its_own_peak(tmp_path: Path) -> None:
    recorded = recorded_suite(tmp_path / "events")
    assert [row["outcome"] for row in recorded.rows] == ["passed", "passed", "skipped", "failed"]
    found = memory_of_tests(recorded.profile)
    assert {name.partition("::")[2]: one.figures.get("DRAM") for name, one in found.items()} == {
        "test_small": 1 << 20,
        "test_large": 8 << 20,
        "test_early": None,
        "test_fails": 2 << 20,
    }
    assert sorted(one.number for one in found.values()) == [0, 1, 2, 3]
    assert [timeline.rank for timeline in recorded.profile.timelines] == [0, 1]
    large = found["test_a.py::test_large"]
    assert (large.peaks["DRAM"].caused_by_location, large.peaks["DRAM"].bytes_per_bank) == ("a.py:7", BANK)
    assert large.figures["L1 with programs"] == 4096
    # A suite is saved and loaded like every profile
    again = profile_file.decode(profile_file.encode(recorded.profile))
    assert {name: one.figures for name, one in memory_of_tests(again).items()} == {
        name: one.figures for name, one in found.items()
    }


def test_a_test_that_pytest_did_not_survive_is_told(tmp_path: Path) -> None:
    (tmp_path / "0.jsonl").write_text('{"test": "test_b.py::test_last"}\n')
    from ttmem.engines.run_tests import read_suite

    for timed_out, outcome in ((True, "timeout"), (False, "crashed")):
        recorded = read_suite(tmp_path, name="b", source="", engine="mock", board="n150", timed_out=timed_out)
        told = judge_suite(143, "mock n150", recorded, timed_out=timed_out).document
        assert (told.tests[0].outcome, told.tests[0].failure is not None) == (outcome, True)


def test_growth_is_what_exceeds_the_limit(tmp_path: Path) -> None:
    suite = grown_suite(tmp_path)
    baseline = suite.document.baseline
    assert baseline is not None
    [one] = baseline.grown
    assert (one.memory, one.before_bytes, one.after_bytes, one.growth_percent) == ("DRAM", 4 << 20, 8 << 20, 100.0)
    assert baseline.compared == 3  # the one that failed says nothing
    assert suite.status == 1
    before = recorded_suite(tmp_path / "again", large=4 << 20).profile
    for limit, count in (("100%", 0), ("99%", 1), ("4MiB", 0), ("3MiB", 1)):
        assert len(suite_growth(before, memory_of_tests(suite.profile), parse_limit(limit)).grown) == count


def test_another_board_is_no_baseline(tmp_path: Path) -> None:
    recorded = recorded_suite(tmp_path / "events")
    other = replace(recorded.profile, facts={**recorded.profile.facts, "board": "p150"})
    with pytest.raises(TtmemError, match="the baseline is of p150, this run of n150"):
        judge_suite(0, "mock n150", recorded, baseline=BaselineSuite(other, parse_limit("2%")))


def test_the_terminal_and_junit_say_what_grew(tmp_path: Path) -> None:
    suite = grown_suite(tmp_path).document
    text = suite_report.render_terminal(suite, width=80)
    assert "in test_a.py" in text
    assert "test_large\n  passed " in text
    assert "grew more than 2% since 'suite'" in text
    assert max(map(len, text.splitlines())) <= 80
    root = ElementTree.fromstring(suite_report.render_junit(suite))
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("4", "2", "1")
    problems = {case.get("name"): [part.get("type") for part in case.iter("failure")] for case in root.iter("testcase")}
    assert problems == {
        "test_large": ["max-growth"],
        "test_fails": ["oom/unknown"],
        "test_small": [],
        "test_early": [],
    }


def test_a_suite_is_called_after_what_was_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("test_block.py").touch()
    assert choose_suite_name(["-k", "x", "test_block.py::test_one"]) == "test_block"
    assert choose_suite_name(["-x"]) == "tests"
