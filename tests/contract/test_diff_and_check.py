# SPDX-License-Identifier: Apache-2.0
"""``ttmem diff`` and ``ttmem check``: exit codes are the answer for scripts, the text is the answer for people."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

from support.build_profile import MIB, ProfileBuilder, tensor
from support.command_line import BLACKHOLE_OOM, FIVE_RUNS, Result
from ttmem.profile import profile_file

Run = Callable[..., Result]


def saved(path: Path, batch: int) -> Path:
    """A run whose matmul result, and so its DRAM peak, grows with the batch: 100 MiB per bank for a batch of 600."""
    tensors = tensor(batch, 1024, 1024)
    per_bank = -(-tensors.padded_bytes // 2048 // 12) * 2048
    build = ProfileBuilder(path.stem)
    with build.program("main"):
        build.operation("ttnn.matmul", results={"%1": tensors}, operands={"%0": tensors}, location="attn", dram=0, l1=0)
        build.operation("ttnn.deallocate", operands={"%1": tensors}, dram=per_bank, l1=MIB // 2)
    profile_file.save(build.build(), path)
    return path


@pytest.fixture
def before() -> Path:
    return saved(Path("before.ttmem"), 600)


@pytest.fixture
def after() -> Path:
    return saved(Path("after.ttmem"), 630)


def test_diff_names_what_grew(run: Run, before: Path, after: Path) -> None:
    shown = run("diff", before, after, "--json")
    assert (shown.code, shown.err) == (0, "")
    document = json.loads(shown.out)
    assert document["regression"] is False
    dram = document["memories"]["DRAM"]
    assert (dram["before"], dram["after"]) == (104857600, 110100480)
    assert dram["delta_bytes_per_bank"] == 5242880
    assert dram["delta_percent"] == pytest.approx(5.0)
    assert document["grew"][0]["delta_bytes"] == 30 * 1024 * 1024 * 2
    assert "ttnn.matmul" in json.dumps(document["grew"][0]["operation"])


@pytest.mark.parametrize(
    ("limit", "code"),
    [("4%", 1), ("0.04", 1), ("5.1%", 0), ("4MiB", 1), ("6MiB", 0), ("5242879B", 1), ("5242880B", 0)],
)
def test_diff_fails_only_over_the_limit(run: Run, before: Path, after: Path, limit: str, code: int) -> None:
    shown = run("diff", before, after, "--fail-on", limit, "--json")
    assert shown.code == code
    assert json.loads(shown.out)["regression"] is bool(code)
    assert run("diff", after, before, "--fail-on", limit).code == 0, "less is no regression"


def test_diff_of_a_thing_with_itself(run: Run) -> None:
    shown = run("diff", FIVE_RUNS, FIVE_RUNS, "--json", "--fail-on", "0%")
    assert shown.code == 0
    document = json.loads(shown.out)
    assert document["grew"] == []
    assert {memory["delta_bytes_per_bank"] for memory in document["memories"].values()} == {0}
    assert run("diff", FIVE_RUNS, FIVE_RUNS).code == 0


@pytest.mark.parametrize("limit", ["five", "5%%", "-3%", "", "5 apples"])
def test_a_limit_that_is_none(run: Run, before: Path, after: Path, limit: str) -> None:
    for arguments in (["diff", before, after, "--fail-on", limit], ["check", before, "--max-dram", limit]):
        shown = run(*arguments)
        assert (shown.code, shown.out) == (2, "")
        assert shown.err.startswith("ttmem: error: ")
        assert "80%" in shown.err


def test_diff_into_a_file_but_not_onto_a_source(run: Run, before: Path, after: Path) -> None:
    content = before.read_bytes()
    assert run("diff", before, after, "-o", before).code == 2
    assert before.read_bytes() == content
    shown = run("diff", before, after, "--json", "-o", "diff.json")
    assert (shown.code, shown.out) == (0, "")
    assert json.loads(Path("diff.json").read_text())["regression"] is False


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ([], 0),
        (["--max-dram", "9.9%"], 1),
        (["--max-dram", "10%"], 0),
        (["--max-dram", "0.11"], 0),
        (["--max-dram", "99MiB"], 1),
        (["--max-dram", "100MiB"], 0),
        (["--max-l1", "49%"], 1),
        (["--max-l1", "50%"], 0),
        (["--max-dram", "11%", "--max-l1", "49%"], 1),
        (["--max-padding", "1%"], 0),
    ],
)
def test_check_answers_by_its_exit_code(run: Run, before: Path, limits: list[str], code: int) -> None:
    shown = run("check", before, *limits)
    assert (shown.code, shown.err) == (code, "")
    assert shown.out
    verdicts = json.loads(run("check", before, *limits, "--json").out)
    assert verdicts["ok"] is (code == 0)


def test_check_against_a_baseline(run: Run, before: Path, after: Path) -> None:
    assert run("check", after, "--baseline", before).code == 1, "5% is over the default of 2%"
    assert run("check", after, "--baseline", before, "--max-growth", "6%").code == 0
    assert run("check", before, "--baseline", after).code == 0


def test_a_failed_run_is_over_budget(run: Run) -> None:
    assert run("check", BLACKHOLE_OOM, "--max-dram", "100%").code == 1


def test_check_writes_what_ci_systems_read(run: Run, before: Path) -> None:
    shown = run("check", before, "--max-dram", "1%", "--junit", "junit.xml", "--sarif", "out.sarif", "--github")
    assert shown.code == 1
    assert shown.out.startswith("::error")
    suite = ElementTree.parse("junit.xml").getroot()
    assert len(list(suite.iter("failure"))) == 1
    sarif = json.loads(Path("out.sarif").read_text())
    assert sarif["version"] == "2.1.0"
    assert len(sarif["runs"][0]["results"]) == 1
    assert run("check", before, "--junit", "same", "--sarif", "same").code == 2
    assert run("check", before, "--junit", "missing/junit.xml").code == 2


def test_nothing_is_stored(run: Run, home: Path, before: Path, after: Path) -> None:
    run("diff", before, after)
    run("check", before)
    assert not home.exists()


def test_a_share_of_more_than_a_bank_is_no_limit(run: Run, before: Path) -> None:
    for option in ("--max-dram", "--max-l1"):
        shown = run("check", before, option, "500%")
        assert (shown.code, shown.out) == (2, "")
        assert "at most 100% of a bank, got 500%" in shown.err
        assert run("check", before, option, "100%").code == 0
    # AND growth and padding have no such bound
    assert run("check", before, "--baseline", before, "--max-growth", "500%", "--max-padding", "500%").code == 0


def test_a_run_that_ended_for_another_reason_is_judged_by_its_memory(run: Run, before: Path) -> None:
    from dataclasses import replace

    # GIVEN a run within its limits whose script failed an assertion
    ended = {"error": "AssertionError", "message": "PCC 0.2", "location": "model.py:286"}
    profile = profile_file.load(before)
    profile_file.save(replace(profile, facts={**profile.facts, "ended": ended}), before)
    # THEN it fits as far as it ran
    shown = run("check", before, "--max-dram", "80%")
    assert shown.code == 0
    assert "fits as far as it ran; the script ended with AssertionError at model.py:286 (not memory)" in shown.out
    document = json.loads(run("check", before, "--json").out)
    assert (document["ok"], document["ended"]["error"]) == (True, "AssertionError")
    # AND a limit that it breaks is broken
    over = run("check", before, "--max-dram", "1%")
    assert over.code == 1
    assert "fits" not in over.out


def test_diff_for_an_agent(run: Run, before: Path, after: Path) -> None:
    shown = run("diff", before, after, "--llm", "--fail-on", "1%")
    assert shown.code == 1
    assert shown.out.startswith("# Memory Difference: before -> after\n")
    assert "| DRAM | 100.000 | 105.000 | +5.000 | +5.0% |" in shown.out
    assert "**Regression**" in shown.out
    assert "ttnn.matmul" in shown.out
    assert run("diff", before, after, "--llm", "--json").code == 2


def test_a_stored_report_beside_a_folder_of_its_name(run: Run, before: Path) -> None:
    # GIVEN a stored report, and in this place a folder of the same name with something else in it
    assert run("profile", before, "--name", "cfg").code == 0
    Path("cfg").mkdir()
    (Path("cfg") / "config.json").write_text("{}")
    # THEN what was printed as the next step works here too
    shown = run("profile", "cfg", "--llm")
    assert shown.code == 0
    assert shown.out.startswith("# Memory Profile: cfg")
    assert run("check", "cfg").code == 0
    assert run("diff", "cfg", before).code == 0
    # AND a folder that can be read wins, as any path does; one that is nothing at all is named
    assert run("profile", "cfg/config.json").code == 2
    Path("other").mkdir()
    assert "is a folder" in run("profile", "other").err
