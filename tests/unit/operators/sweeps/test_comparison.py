# SPDX-License-Identifier: Apache-2.0
"""Two sweeps of the same cases, held against one another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import call
from ttmem import TtmemError
from ttmem.commands.sweep import compare_sweeps
from ttmem.failures.outcome import Outcome
from ttmem.operators.sweeps.comparison import compare
from ttmem.operators.sweeps.result import Result


def result(identity: str, status: str = "pass", peak: int | None = 100, *, memory: str = "L1") -> Result:
    peaks = {} if peak is None else {memory: peak}
    return Result(identity, "add", Outcome(status, peak_bytes_per_bank=peaks), "n150", "mock", memory, "tile")


BEFORE = [
    result("same"),
    result("grew", peak=200),
    result("shrank"),
    result("broke"),
    result("mended", "oom", None),
    result("other", "oom", None),
    result("gone"),
    result("same", memory="DRAM"),
]
AFTER = [
    result("same"),
    result("grew", peak=250),
    result("shrank", peak=60),
    result("broke", "clash", None),
    result("mended"),
    result("other", "invalid", None),
    result("new"),
    result("same", memory="DRAM"),
]


def write(folder: Path, results: list[Result]) -> Path:
    folder.mkdir()
    (folder / "results.jsonl").write_text("".join(json.dumps(one.to_json()) + "\n" for one in results))
    return folder


def test_every_kind_of_change_is_told_the_worst_first() -> None:
    found = compare(BEFORE, AFTER)
    assert [(one.change, one.after.id) for one in found.changes] == [
        ("newly-fails", "broke"),
        ("fails-otherwise", "other"),
        ("needs-more", "grew"),
        ("needs-less", "shrank"),
        ("newly-passes", "mended"),
    ]
    assert (found.compared, found.unchanged, found.only_before, found.only_after) == (7, 2, 1, 1)
    assert [one.growth_percent for one in found.changes] == [None, None, 25.0, -40.0, None]


def test_a_sweep_equals_itself() -> None:
    assert compare(BEFORE, BEFORE).changes == ()


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [(None, 0), ("new-failure", 0), ("growth:30%", 0), ("growth:20%", 1), ("growth:49B", 1), ("growth:51B", 0)],
)
def test_what_to_fail_on(tmp_path: Path, fail_on: str | None, code: int) -> None:
    harmless = [one for one in AFTER if one.id != "broke"]
    a, b = write(tmp_path / "a", BEFORE), write(tmp_path / "b", harmless)
    assert compare_sweeps(a, b, fail_on=fail_on).regression == bool(code)
    broken = write(tmp_path / "c", AFTER)
    assert compare_sweeps(a, broken, fail_on=fail_on).regression == (fail_on is not None)


def test_the_verb(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", BEFORE), write(tmp_path / "b", AFTER)
    shown = call("sweep", "diff", a, b)
    assert (shown.code, shown.err) == (0, "")
    assert "7 results compared, 2 unchanged" in shown.out
    told = call("sweep", "diff", a, b, "--json", "--fail-on", "new-failure")
    assert told.code == 1
    document = json.loads(told.out)
    assert (document["schema"], document["regression"]) == ("ttmem.sweep-diff/1", True)
    assert document["counts"]["newly-fails"] == 1
    for wrong in (["missing", str(b)], [str(a), str(b), "--fail-on", "soon"], [str(tmp_path), str(b)]):
        done = call("sweep", "diff", *wrong)
        assert (done.code, done.out) == (2, "")
    with pytest.raises(TtmemError):
        compare_sweeps(a, tmp_path / "nowhere")
