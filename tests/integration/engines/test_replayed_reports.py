# SPDX-License-Identifier: Apache-2.0
"""``ttmem test`` reports what plain pytest reports: its options, its outputs, and what ends a session."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support.command_line import call, environment
from ttmem.engines.interpreters import Interpreter

pytestmark = pytest.mark.oracle

SUITE = """
import unittest
from pathlib import Path
import pytest


class Text(str):
    pass


@pytest.mark.skip(reason="not today")
def test_marked():
    pass

@pytest.mark.skipif(True, reason="never")
def test_if():
    pass

def test_inside(record_property):
    record_property("path", Path("a"))
    record_property(Text("pair"), ("a", 1))
    print("out")
    pytest.skip("inside")

@pytest.mark.xfail(reason="known")
def test_expected():
    assert False

@pytest.mark.xfail(reason="known", strict=True)
def test_unexpected():
    pass

def test_fails():
    print("printed")
    try:
        {}["missing"]
    except KeyError as error:
        raise ValueError("bad") from error

@pytest.fixture
def broken():
    raise ValueError("no such thing")

def test_error(broken):
    pass

@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    yield
    (Path(__file__).parent / "taken-down").touch()

@pytest.mark.parametrize("name", ["a b", "\\u00e4", "c\\nd"])
def test_named(shared, name):
    pass

class TestUnit(unittest.TestCase):
    def test_unit(self):
        self.assertEqual(1, 2)

    @unittest.skip("as unittest does")
    def test_skipped(self):
        pass
"""
INI = "[pytest]\naddopts = -vvs -rA --durations=5 --junitxml=made/report.xml\ntimeout = 300\n"
ENDS = {
    "exit": "pytest.exit('bye', returncode=77)",
    "exit without a status": "pytest.exit('bye')",
    "interrupt": "raise KeyboardInterrupt",
    "signal": "os.kill(os.getpid(), signal.SIGINT); time.sleep(5)",
    "stop": "request.session.shouldstop = 'enough'",
    "fail": "request.session.shouldfail = 'enough'",
    "exit of a fixture": "request.getfixturevalue('leaves')",
}
ENDING = """
import os, signal, time
import pytest

@pytest.fixture
def leaves():
    pytest.exit("left", returncode=9)

def test_first():
    pass

def test_ends(request):
    {end}

def test_never():
    pass
"""


@pytest.fixture
def here(with_ttnn: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not with_ttnn.pytest_version:
        pytest.skip(f"THE PYTEST PLUGIN WAS NOT TRIED: no pytest beside ttnn in {with_ttnn.path}")
    monkeypatch.setenv("TTMEM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_suite.py").write_text(SUITE)
    return tmp_path


def plain(with_ttnn: Interpreter, *words: str) -> subprocess.CompletedProcess[str]:
    command = [with_ttnn.path, "-m", "pytest", "test_suite.py", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, timeout=120)


def ours(*words: str) -> tuple[int, str]:
    done = call("test", "test_suite.py", "-p", "no:cacheprovider", "--no-store", *words)
    return done.code, done.out.partition("\npeak memory per test")[0]


def comparable(output: str) -> list[str]:
    """The lines of pytest's report, without times and what a header names."""
    lines = [re.sub(r"\d+\.\d+s", "_s", line).rstrip() for line in output.splitlines()]
    left_out = ("platform", "ttmem:", "plugins:", "cachedir:", "- generated xml")
    kept = [line for line in lines if not line.startswith(left_out) and not re.match(r"_s (call|setup|teardown)", line)]
    kept = [re.sub(r"^[=!-]+ | [=!-]+$", "", line) for line in kept]
    return [line for line in kept if line and "durations" not in line]


def cases(file: Path) -> dict[str, tuple[list[tuple[str, dict[str, str]]], set[str | None]]]:
    """Of every test case: what it holds beside properties, and the names of its own properties."""
    return {
        str(case.get("name")): (
            [(part.tag, dict(part.attrib)) for part in case if part.tag != "properties"],
            {one.get("name") for one in case.iter("property") if not str(one.get("name")).startswith("ttmem_")},
        )
        for case in ElementTree.parse(file).iter("testcase")
    }


@pytest.mark.parametrize(
    "words",
    [
        ("-vv", "-rA"),
        ("-q", "-x"),
        ("--maxfail=2", "-ra"),
        ("-rs", "--tb=line"),
        ("-k", "named or unit"),
    ],
    ids=" ".join,
)
def test_options_of_pytest(here: Path, with_ttnn: Interpreter, words: tuple[str, ...]) -> None:
    expected = plain(with_ttnn, *words)
    down = (here / "taken-down").exists()
    (here / "taken-down").unlink(missing_ok=True)
    code, output = ours(*words)
    assert comparable(output) == comparable(expected.stdout)
    assert (code, (here / "taken-down").exists()) == (expected.returncode, down)


def test_options_of_the_suites_own_ini(here: Path, with_ttnn: Interpreter) -> None:
    (here / "pytest.ini").write_text(INI)
    expected = plain(with_ttnn)
    report = here / "made" / "report.xml"
    wanted = cases(report)
    report.unlink()
    code, output = ours()
    assert code == expected.returncode == 1
    summary = "short test summary info"  # above it, what tests print may come before the outcome of the last one
    assert comparable(output.partition(summary)[2]) == comparable(expected.stdout.partition(summary)[2])
    assert cases(report) == wanted
    assert "INTERNALERROR" not in output


@pytest.mark.parametrize("end", ENDS)
def test_a_test_that_ends_the_session(here: Path, with_ttnn: Interpreter, end: str) -> None:
    (here / "test_suite.py").write_text(ENDING.format(end=ENDS[end]))
    expected = plain(with_ttnn, "-v")
    done = call("test", "test_suite.py", "-p", "no:cacheprovider", "--no-store", "-v", "--json")
    told = json.loads(done.out)
    assert (done.code, told["status"]) == (expected.returncode, expected.returncode)
    counted = re.findall(r"=+ (.* in) \d", expected.stdout)
    assert counted == re.findall(r"=+ (.* in) \d", done.err)
    rows = {row["id"].partition("::")[2]: row for row in told["tests"]}
    assert rows["test_first"]["outcome"] == "passed"
    assert "test_never" not in rows
    if end in ("stop", "fail"):
        assert rows["test_ends"]["outcome"] == "passed"
    else:
        assert rows["test_ends"]["outcome"] == "error"
        assert "the session was ended" in rows["test_ends"]["failure"]["message"]


def test_a_plugin_that_fails_costs_one_test(here: Path) -> None:
    (here / "test_suite.py").write_text("def test_one(): pass\ndef test_two(): pass\ndef test_three(): pass\n")
    (here / "conftest.py").write_text(
        "def pytest_runtest_teardown(item):\n    pass\n\n\n"
        "def pytest_runtest_protocol(item):\n    assert item.name != 'test_two', 'the plugin is broken'\n"
    )
    told = json.loads(call("test", "test_suite.py", "-p", "no:cacheprovider", "--no-store", "--json").out)
    rows = {row["id"].partition("::")[2]: row for row in told["tests"]}
    assert {name: row["outcome"] for name, row in rows.items()} == {
        "test_one": "passed",
        "test_two": "crashed",
        "test_three": "passed",
    }
    assert "the plugin is broken" in rows["test_two"]["failure"]["message"]
