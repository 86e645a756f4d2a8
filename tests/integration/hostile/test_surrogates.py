# SPDX-License-Identifier: Apache-2.0
"""Half a surrogate pair is a text of Python that no file can hold: it costs no answer, and no other test's result."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support.command_line import call
from ttmem.base.text_safety import encode_json
from ttmem.engines.interpreters import Interpreter
from ttmem.engines.worker import protocol

SCRIPT = """
import ttnn
device = ttnn.open_device(device_id=0)
ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)
raise ValueError("\\ud800")
"""
SUITE = """
import pytest
import ttnn

def read(device):
    return ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device).cpu().to_list()[0][0]

def test_first(device):
    read(device)

def test_message(device):
    raise ValueError("\\ud800")

@pytest.mark.parametrize("name", ["\\udfff", "\\ud83d\\ude00", "ok"])
def test_named(device, name):
    pass

def test_property(record_property):
    record_property("a\\ud800", "b\\ud801")
    print("\\ud802")
    assert False

def test_not_judged(device):
    assert read(device) == 1, "\\ud834"

@pytest.mark.xfail(reason="\\udc00")
def test_expected():
    assert False

@pytest.mark.skip(reason="\\udcff")
def test_skipped():
    pass

def test_last(device):
    read(device)
"""


@pytest.fixture
def here(with_ttnn: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TTMEM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.oracle
def test_a_script(here: Path) -> None:
    (here / "script.py").write_text(SCRIPT)
    done = call("run", "script.py", "--name", "half", "--json")
    assert (done.code, json.loads(done.out)["ended"]["message"]) == (1, "\\ud800")
    assert json.loads(call("profile", "half", "--json").out)["ended"]["message"] == "\\ud800"


@pytest.mark.oracle
def test_a_suite(here: Path, with_ttnn: Interpreter) -> None:
    if not with_ttnn.pytest_version:
        pytest.skip(f"THE PYTEST PLUGIN WAS NOT TRIED: no pytest beside ttnn in {with_ttnn.path}")
    (here / "test_suite.py").write_text(SUITE)
    files = ("--junit", "ours.xml", "--junitxml=theirs.xml", "--html", "page.html", "--name", "half")
    done = call("test", "test_suite.py", "-p", "no:cacheprovider", "-rA", *files, "--json")
    rows = {row["id"].partition("::")[2]: row for row in json.loads(done.out)["tests"]}
    assert done.code == 1, done.err
    assert [name for name, row in rows.items() if row["outcome"] == "failed"] == ["test_message", "test_property"]
    assert len(rows) == SUITE.count("def test_") + 2
    assert rows["test_message"]["failure"]["message"] == "ValueError: \\ud800"
    assert "\\ud834" in rows["test_not_judged"]["not_judged"]
    for file in ("ours.xml", "theirs.xml"):
        assert len(list(ElementTree.parse(file).iter("testcase"))) == len(rows)
    assert call("profile", "half", "--json").code == 0
    assert "INTERNALERROR" not in done.err


def test_messages_of_a_worker() -> None:
    message = {"a\ud800": ["\udfff", "\U0001f600", {"b": 1, "c": None}]}
    told = protocol.decode(protocol.encode(message))
    assert told == {"a\\ud800": ["\\udfff", "\U0001f600", {"b": 1, "c": None}]}


def test_json_of_any_text() -> None:
    assert json.loads(encode_json({"a\ud800": ("\udfff", "\u202e")})) == {"a\\ud800": ["\\udfff", "\u202e"]}
