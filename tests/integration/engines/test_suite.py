# SPDX-License-Identifier: Apache-2.0
"""``ttmem test`` as the report of a suite: causes, limits, baselines, files, both doors, several workers."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import ttmem
from support.command_line import call, environment
from ttmem.analysis.peaks import peaks
from ttmem.engines.interpreters import Interpreter
from ttmem.profile.runs import select

pytestmark = pytest.mark.oracle

SUITE = """
import os

import numpy
import pytest
import ttnn


def ones(device, rows, **more):
    return ttnn.ones((rows, 1024), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, **more)


@pytest.mark.parametrize("rows", [32, 64], ids=["a/b", "a-rather-long-name-of-a-parameter-that-ends-in-64"])
def test_add(device, rows):
    left = ones(device, rows * int(os.environ.get("GROWN", "1")))
    right = ones(device, rows * int(os.environ.get("GROWN", "1")), memory_config=ttnn.L1_MEMORY_CONFIG)
    ttnn.add(left, right)


def test_steady(device):
    ones(device, 2048)


def test_crash(device):
    kept = ones(device, 256)
    os.kill(os.getpid(), 11)


def test_too_much(device):
    ttnn.allocate_tensor_on_device(ttnn.Shape((65536, 262144)), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)


@pytest.mark.xfail(reason="known to be so")
def test_expected(device):
    raise RuntimeError("as always")


@pytest.mark.xfail(strict=True, reason="it differs on the card")
def test_expected_of_values(device):
    values = numpy.array(ones(device, 32).cpu().to_list())
    assert numpy.allclose(values, values + 1)


@pytest.fixture
def broken():
    raise ValueError("no such thing")


def test_without_its_fixture(broken, device):
    pass


def test_without_a_device():
    pass
"""
HANGING = """
import os
import time
import ttnn


class Deadly:
    def __len__(self):
        return 2

    def __getitem__(self, place):
        os.kill(os.getpid(), 11)


def test_hangs(device):
    time.sleep(60)


def test_dies(device):
    ttnn.ones(Deadly(), layout=ttnn.TILE_LAYOUT, device=device)


def test_after(device):
    ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)
"""
SUBTESTS = """
import unittest

import pytest
import ttnn


def allocate(device, rows):
    return ttnn.allocate_tensor_on_device(ttnn.Shape((rows, 262144)), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)


class TestOld(unittest.TestCase):
    def test_unit(self):
        for i in range(4):
            with self.subTest("of old", i=i):
                self.assertNotEqual(i % 2, 1)


def test_memory(subtests, device):
    for rows in (32, 65536, 32):
        with subtests.test(rows=rows):
            allocate(device, rows)


def test_first_of_several(subtests):
    with subtests.test("one"):
        raise KeyError("first")
    raise ValueError("second")


def test_fine(subtests, device):
    for rows in (32, 64):
        with subtests.test(rows=rows):
            allocate(device, rows)
    with subtests.test():
        pytest.skip("not here")


def test_not_judged(subtests, device):
    with subtests.test():
        assert ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device).to_list()[0][0] == 1
"""
OUTCOMES = {
    "test_add[a/b]": "passed",
    "test_add[a-rather-long-name-of-a-parameter-that-ends-in-64]": "passed",
    "test_steady": "passed",
    "test_crash": "crashed",
    "test_too_much": "failed",
    "test_expected": "skipped",
    "test_expected_of_values": "skipped",
    "test_without_its_fixture": "error",
    "test_without_a_device": "passed",
}
WORDS = ("test", "test_suite.py", "-q", "-p", "no:cacheprovider")
SMALL = ("-k", "add or steady")


WASTE = """
import ttnn


def make(device, *shape):
    return ttnn.zeros(list(shape), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)


def test_waste(device):
    big = make(device, 1, 8, 1024, 1024)
    small = ttnn.sum(big, dim=1)
    x = make(device, 1, 4, 1024, 1024)
    y = ttnn.softmax(x, dim=-1)
"""


@pytest.fixture
def here(with_ttnn: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not with_ttnn.pytest_version:
        pytest.skip(f"THE PYTEST PLUGIN WAS NOT TRIED: no pytest beside ttnn in {with_ttnn.path}")
    monkeypatch.setenv("TTMEM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_suite.py").write_text(SUITE)
    return tmp_path


def by_name(told: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["id"].partition("::")[2]: row for row in told["tests"]}


def figures(told: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """What must not depend on the way in which the tests were run."""
    kept = ("outcome", "operations", "dram_peak_bytes_per_bank", "l1_with_programs_bytes_per_core", "memories")
    return {
        name: tuple(_without_places(row[key]) if key == "memories" else row.get(key) for key in kept)
        for name, row in by_name(told).items()
    }


def _without_places(memories: dict[str, Any]) -> Any:
    """Operations are numbered by process."""
    return json.loads(json.dumps(memories), object_hook=lambda one: {k: v for k, v in one.items() if k != "index"})


def test_the_report_of_a_suite(here: Path) -> None:
    files = ("--junit", "ours.xml", "--junitxml=theirs.xml", "--html", "page.html", "--name", "nightly")
    done = call(*WORDS, *files, "--json")
    told = json.loads(done.out)
    rows = by_name(told)
    # EACH test has its outcome, its figures and what caused them
    assert (done.code, {name: row["outcome"] for name, row in rows.items()}) == (1, OUTCOMES), done.err
    steady = rows["test_steady"]
    assert steady["memories"]["DRAM"]["peak_bytes_per_bank"] == steady["dram_peak_bytes_per_bank"] == 350208
    assert steady["memories"]["DRAM"]["caused_by"]["location"].startswith("test_suite.py:")
    [tensor] = steady["memories"]["DRAM"]["top"]
    assert (tensor["shape"], tensor["dtype"], tensor["bytes_per_bank"]) == ([2048, 1024], "bfloat16", 350208)
    added = rows["test_add[a/b]"]["memories"]["L1"]
    assert [one["name"] for one in added["top"]] == ["right"]
    assert added["peak_with_programs_at"]["name"] == "ttnn.add"
    assert sum(added["parts"].values()) == added["peak_with_programs_bytes_per_core"]
    # ALSO one that did not live to tell them, and one that failed for want of memory
    assert rows["test_crash"]["dram_peak_bytes_per_bank"] == 22 * 2048
    assert [one["name"] for one in rows["test_crash"]["memories"]["DRAM"]["top"]] == ["kept"]
    assert rows["test_too_much"]["failure"]["class"] == "oom/too-big"
    assert rows["test_expected"]["expected_failure"] == "known to be so"
    assert rows["test_expected_of_values"]["skipped_comparisons"] == 1
    assert rows["test_without_its_fixture"]["failure"]["message"] == "ValueError: no such thing"
    # EVERY row has every figure, also where a test took nothing
    assert told["board"] == "n150"
    for row in told["tests"]:
        assert {"DRAM", "L1"} <= row["memories"].keys()
        assert all(
            type(one) is int
            for one in (
                row["operations"],
                row["skipped_comparisons"],
                row["unmeasured_programs"],
                row["memories"]["DRAM"]["peak_bytes_per_bank"],
                row["memories"]["L1"]["peak_with_programs_bytes_per_core"],
            )
        )
    # FAILED tests come first, names are whole, and each place has a line of its own
    table = done.err[done.err.index("peak memory per test") : done.err.index("a mock computes")].splitlines()
    names = [line for line in table[2:] if line and not line.startswith(" ")][: len(OUTCOMES)]
    bad = sorted(name for name, outcome in OUTCOMES.items() if outcome in ("failed", "error", "crashed"))
    assert sorted(names[: len(bad)]) == bad
    assert {name for name in OUTCOMES if name.startswith("test_add")} <= set(names)
    assert any(re.fullmatch(r"  ttnn\.add test_suite\.py:\d+", line) for line in table)
    assert max(map(len, table)) <= 80
    # JUNIT files are read by others: the same figure in both
    for file in ("ours.xml", "theirs.xml"):
        cases = {case.get("name"): case for case in ElementTree.parse(file).iter("testcase")}
        assert set(cases) == set(OUTCOMES)
        named = {one.get("name"): one.get("value") for one in cases["test_steady"].iter("property")}
        assert named["ttmem_dram_peak_bytes_per_bank"] == "350208"
        assert {"error", "failure"} & {part.tag for part in cases["test_crash"]}
    ours = {one.get("name"): one.get("value") for one in ElementTree.parse("ours.xml").iter("property")}
    assert "ttnn." in (ours["ttmem_dram_caused_by"] or "")
    # STORED like any run, each test a run of it
    [stored] = json.loads(call("reports", "--json").out)["reports"]
    assert (stored["name"], stored["kind"]) == ("nightly", "ttnn-tests")
    one = json.loads(call("profile", "nightly", "--run", steady["run"], "--json").out)
    assert one["memories"]["DRAM"]["peak_bytes_per_bank"] == 350208
    assert [run["program"] for run in one["run_list"]] == ["test_suite.py::test_steady"]
    # WHAT pytest's process counted is what the recording tells
    profile = ttmem.read("nightly")
    for row in rows.values():
        if row["outcome"] == "passed" and row["operations"]:
            alone = select(profile, run=row["run"])
            found = peaks(alone)
            assert {memory: peak.peak_bytes_per_bank for memory, peak in found.items()} == {
                memory: peak["peak_bytes_per_bank"] for memory, peak in row["memories"].items() if peak["bank_bytes"]
            }
    assert "test_steady" in Path("page.html").read_text()


def test_a_baseline_and_limits_gate_a_suite(here: Path) -> None:
    assert call(*WORDS, *SMALL, "--name", "base").code == 0
    # NOTHING grew, and the baseline is not replaced
    same = call(*WORDS, *SMALL, "--baseline", "base")
    assert (same.code, "no test of 3 grew more than 2%" in same.out, "not stored" in same.err) == (0, True, True)
    # SOME grew: exit 1, and which
    grown = environment(GROWN="8")
    done = call(*WORDS, *SMALL, "--baseline", "base", "--max-growth", "2%", "--json", "--junit", "j.xml", env=grown)
    told = json.loads(done.out)
    assert (done.code, told["status"], told["baseline"]["compared"]) == (1, 1, 3)
    assert {(one["id"].partition("::")[2][:8], one["memory"]) for one in told["baseline"]["grown"]} == {
        ("test_add", "DRAM"),
        ("test_add", "L1"),
        ("test_add", "L1 with programs"),
    }
    first = told["baseline"]["grown"][0]
    assert first["growth_bytes"] == first["after_bytes"] - first["before_bytes"] > 0
    failed = [
        case.get("name", "") for case in ElementTree.parse("j.xml").iter("testcase") if case.find("failure") is not None
    ]
    assert len(failed) == 2
    assert all(name.startswith("test_add") for name in failed)
    assert call(*WORDS, *SMALL, "--baseline", "base", "--max-growth", "900%", "--no-store", env=grown).code == 0
    # A saved profile is a baseline too; a limit on the command line fails the tests that need more
    saved = here / "home" / "reports" / "base" / "base_profile.ttmem"
    limited = call(*WORDS, *SMALL, "--baseline", saved, "--max-dram", "100KiB", "--json")
    assert {name: row["outcome"] for name, row in by_name(json.loads(limited.out)).items()} == {
        **dict.fromkeys((name for name in OUTCOMES if name.startswith("test_add")), "passed"),
        "test_steady": "failed",
    }
    assert "test was limited to 102400b of DRAM (102400 B per bank) but used 350208 B" in limited.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--max-growth", "2%"), "--max-growth needs --baseline"),
        (("--baseline", "nothing"), "no such file or stored report 'nothing'"),
        (("--max-dram", "much"), "'much' is no limit"),
        (("--name", "../up"), "cannot be the name of a report"),
        (("--junit", "no/such/folder/file.xml"), "no/such/folder"),
    ],
)
def test_what_is_wrong_is_said_before_a_test_is_run(here: Path, words: tuple[str, ...], message: str) -> None:
    done = call(*WORDS, *words)
    assert (done.code, done.out) == (125, "")
    assert message in done.err
    assert "Traceback" not in done.err


def test_a_baseline_must_be_a_suite(here: Path) -> None:
    (here / "small.py").write_text("import ttnn\nttnn.close_device(ttnn.open_device(device_id=0))\n")
    assert call("run", "small.py").code == 0
    done = call(*WORDS, "--baseline", "small")
    assert (done.code, "no report of a test suite" in done.err) == (125, True)


def test_tests_that_had_ended_stay_when_the_time_of_all_is_over(here: Path) -> None:
    (here / "test_slow.py").write_text(
        "import time, ttnn\n\n\n"
        "def test_done(device):\n    ttnn.ones((64, 64), device=device)\n\n\n"
        "def test_running(device):\n    ttnn.ones((64, 64), device=device)\n    time.sleep(600)\n\n\n"
        "def test_not_begun(device):\n    pass\n"
    )
    done = call("test", "test_slow.py", "-q", "-p", "no:cacheprovider", "--timeout", "10", "--json", "--no-store")
    rows = by_name(json.loads(done.out))
    assert {name: row["outcome"] for name, row in rows.items()} == {"test_done": "passed", "test_running": "timeout"}
    assert rows["test_running"]["failure"]["class"] == "timeout"
    assert rows["test_done"]["operations"] == rows["test_running"]["operations"] == 1


def test_a_worker_of_xdist_that_hangs_costs_one_test(here: Path, beside_ttnn: Callable[[str], str]) -> None:
    (here / "test_hang.py").write_text(HANGING)
    path = os.pathsep.join((beside_ttnn("xdist"), environment()["PYTHONPATH"]))
    words = ("test", "test_hang.py", "-q", "-p", "no:cacheprovider", "-n", "1", "--test-timeout", "4", "--json")
    done = call(*words, "--no-store", env=environment(PYTHONPATH=path))
    rows = by_name(json.loads(done.out))
    outcomes = {name: row["outcome"] for name, row in rows.items()}
    assert outcomes == {"test_hangs": "timeout", "test_dies": "crashed", "test_after": "passed"}, done.err
    assert rows["test_hangs"]["failure"]["class"] == "timeout"
    assert rows["test_dies"]["failure"]["operation"]["name"] == "ttnn.ones"


@pytest.mark.parametrize("words", [(), ("-n", "1")])
def test_a_failed_subtest_fails_its_test(here: Path, beside_ttnn: Callable[[str], str], words: tuple[str, ...]) -> None:
    (here / "test_parts.py").write_text(SUBTESTS)
    env = environment(PYTHONPATH=os.pathsep.join((beside_ttnn("xdist"), environment()["PYTHONPATH"])))
    done = call("test", "test_parts.py", "-q", "-p", "no:cacheprovider", "--no-store", "--json", *words, env=env)
    rows = by_name(json.loads(done.out))
    outcomes = {name: row["outcome"] for name, row in rows.items()}
    failed = ("TestOld::test_unit", "test_memory", "test_first_of_several")
    assert outcomes == {**dict.fromkeys(failed, "failed"), "test_fine": "passed", "test_not_judged": "passed"}
    assert done.code == 1
    assert rows["TestOld::test_unit"]["failure"]["message"] == "AssertionError: 1 == 1 in subtest of old (i=1)"
    assert rows["test_first_of_several"]["failure"]["message"] == "KeyError: 'first' in subtest one"
    assert rows["test_memory"]["failure"]["class"] == "oom/too-big"
    assert rows["test_memory"]["failure"]["operation"]["name"] == "ttnn.allocate_tensor_on_device"
    assert rows["test_memory"]["operations"] == 3
    assert rows["test_not_judged"]["not_judged"]
    if not words:  # pytest itself counts them differently in workers of xdist
        assert "FAILED test_parts.py::test_memory - contains 1 failed subtest" in done.err


def test_the_listing_counts_tests_that_did_not_end_well(here: Path) -> None:
    Path("test_hang.py").write_text(HANGING)
    assert (
        call("test", "test_hang.py", "-q", "-p", "no:cacheprovider", "--test-timeout", "3", "--name", "bad").code == 1
    )
    assert call(*WORDS, *SMALL, "--name", "good").code == 0
    listed = {one["name"]: one["status"] for one in json.loads(call("reports", "--json").out)["reports"]}
    assert listed == {"bad": "2 of 3 tests failed", "good": "fits"}
    # A suite that used no device is not stored
    done = call(*WORDS, "-k", "without_a_device", "--name", "none")
    assert (done.code, "nothing was recorded, so nothing was stored" in done.err) == (0, True)
    assert len(json.loads(call("reports", "--json").out)["reports"]) == 2


@pytest.mark.parametrize("words", [(), ("-n", "1")])
def test_a_file_that_cannot_be_collected_has_a_row(
    here: Path, beside_ttnn: Callable[[str], str], words: tuple[str, ...]
) -> None:
    files = {
        "test_fine.py": "def test_it():\n    pass\n",
        "test_name.py": "missing\n",
        "test_import.py": "import module_of_nobody\n",
        "test_skipped.py": "import pytest\npytest.skip('not here', allow_module_level=True)\n",
    }
    for name, text in files.items():
        Path(name).write_text(text)
    env = environment(PYTHONPATH=os.pathsep.join((beside_ttnn("xdist"), environment()["PYTHONPATH"])))
    done = call("test", *files, "-q", "-p", "no:cacheprovider", "--junit", "j.xml", "--json", *words, env=env)
    rows = {row["id"]: row for row in json.loads(done.out)["tests"]}
    assert {name: row["failure"]["message"] for name, row in rows.items() if row["outcome"] == "error"} == {
        "test_name.py": "NameError: name 'missing' is not defined",
        "test_import.py": "ModuleNotFoundError: No module named 'module_of_nobody'",
    }
    passed = [name for name, row in rows.items() if row["outcome"] == "passed"]
    assert passed == (["test_fine.py::test_it"] if words else [])  # xdist goes on
    assert done.code == json.loads(done.out)["status"] != 0
    assert len(list(ElementTree.parse("j.xml").iter("error"))) == 2


def test_workers_of_xdist_are_one_suite(here: Path, beside_ttnn: Callable[[str], str]) -> None:
    path = os.pathsep.join((beside_ttnn("xdist"), environment()["PYTHONPATH"]))
    alone = call(*WORDS, "--json", "--no-store")
    several = call(*WORDS, "--json", "-n", "2", "--name", "several", env=environment(PYTHONPATH=path))
    assert figures(json.loads(several.out)) == figures(json.loads(alone.out)), several.err
    assert several.code == alone.code == 1
    told = json.loads(call("profile", "several", "--json").out)
    assert sorted(run["run"] for run in told["run_list"]) == list(range(len(OUTCOMES)))


@pytest.mark.parametrize("place", ["command line", "ini"])
def test_a_plugin_that_is_missing_is_named_with_the_command_that_installs_it(here: Path, place: str) -> None:
    words = ("-n", "2", "--reruns", "3") if place == "command line" else ()
    if not words:
        (here / "pytest.ini").write_text("[pytest]\naddopts = -n 2 --reruns=3\ntimeout = 300\n")
    done = call(*WORDS, *words, "--no-store")
    assert (done.code, "Traceback" in done.err) == (4, False)
    message = "-n needs pytest-xdist; --reruns needs pytest-rerunfailures; install it next to ttnn: "
    [line] = [line for line in done.err.splitlines() if message in line]
    assert "pytest-xdist" in line.partition("install it")[2]


def test_an_option_of_the_suite_itself_is_no_missing_plugin(here: Path) -> None:
    (here / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--count', type=int)\n")
    assert call(*WORDS, "-k", "without_a_device", "--count", "3", "--no-store").code == 0


def test_one_environment_for_all(here: Path, with_ttnn: Interpreter, beside_ttnn: Callable[[str], str]) -> None:
    """``pytest --ttmem-board``: the plugin as its entry point loads it."""
    alone = call(*WORDS, "--json", "--name", "alone")
    source = environment()["PYTHONPATH"]
    plugin = ("-p", "no:ttmem", "-p", "ttmem.commands.pytest_plugin", "--ttmem-board", "n150")

    def run(*words: str, board: str = "n150", **changes: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join((beside_ttnn("ttmem"), beside_ttnn("xdist"), source))
        command = [with_ttnn.path, "-m", "pytest", *WORDS[1:], *plugin[:-1], board, *words]
        there = {**os.environ, "PYTHONPATH": path, **changes}
        return subprocess.run(command, capture_output=True, text=True, env=there, check=False, timeout=120)

    files = ("--ttmem-json", "told.json", "--ttmem-html", "page.html", "--ttmem-name", "there", "--junitxml=x.xml")
    done = run("-n", "2", *files)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "peak memory per test (mock n150)" in done.stdout
    assert figures(json.loads(Path("told.json").read_text())) == figures(json.loads(alone.out))
    assert "ttmem_dram_peak_bytes_per_bank" in Path("x.xml").read_text()
    assert "test_steady" in Path("page.html").read_text()
    grown = run(*SMALL, "--ttmem-baseline", "there", "--ttmem-max-growth", "2%", GROWN="8")
    assert (grown.returncode, "grew more than 2% since 'there'" in grown.stdout) == (1, True), grown.stdout
    limited = run("-k", "steady", "--ttmem-max-dram", "100KiB", board="p150")
    assert (limited.returncode, "limited to 102400b of DRAM" in limited.stdout) == (1, True)
    wrong = run("--ttmem-baseline", "nothing")
    assert (wrong.returncode, "no such file or stored report 'nothing'" in wrong.stderr) == (4, True)
    # it fails on a tensor that is kept for nothing, and only from the size on that was asked for
    (here / "test_waste.py").write_text(WASTE)
    waste = ("test_waste.py", "-k", "waste")
    found = run(*waste, "--ttmem-fail-on", "leak,late-free:1MB")
    assert (found.returncode, "1 passed" in found.stdout) == (1, True), found.stdout + found.stderr
    assert re.search(r"late-free.*big|big.*late-free", found.stdout), found.stdout
    assert run(*waste, "--ttmem-fail-on", "leak,late-free:1GB").returncode == 0
    unknown = run(*waste, "--ttmem-fail-on", "leek")
    assert (unknown.returncode, "'leek' is no finding" in unknown.stderr) == (4, True)
