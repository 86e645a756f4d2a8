# SPDX-License-Identifier: Apache-2.0
"""Verdicts for people, machines and CI."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from support.profile_stories import HOSTILE
from ttmem.analysis.budget import Verdict
from ttmem.analysis.states import OperationPlace
from ttmem.commands.check import BudgetCheck
from ttmem.reports import check

GOOD = Verdict("max-l1", True, "L1", 10.0, 90.0, "percent", "L1 is fine", None, None)
PLACE = OperationPlace(12, "ttnn.matmul", "dot.7")
BAD = Verdict("max-dram", False, "DRAM", 85.0, 80.0, "percent", "DRAM peak is 85%: too high", PLACE, 345)
NASTY = Verdict("run-failed", False, None, None, 0.0, "failures", HOSTILE, OperationPlace(3, HOSTILE, HOSTILE), None)


def test_the_document() -> None:
    document = BudgetCheck((GOOD, BAD), "run.log").to_json()
    assert document == {
        "schema": "ttmem.check/1",
        "ok": False,
        "verdicts": [
            {
                "rule": "max-l1",
                "ok": True,
                "memory": "L1",
                "measured": 10.0,
                "limit": 90.0,
                "unit": "percent",
                "message": "L1 is fine",
                "operation": None,
                "line": None,
            },
            {
                "rule": "max-dram",
                "ok": False,
                "memory": "DRAM",
                "measured": 85.0,
                "limit": 80.0,
                "unit": "percent",
                "message": "DRAM peak is 85%: too high",
                "operation": {"index": 12, "name": "ttnn.matmul", "location": "dot.7"},
                "line": 345,
            },
        ],
        "ended": None,
    }
    assert BudgetCheck((GOOD,), "run.log").to_json()["ok"] is True
    assert (
        json.loads(json.dumps(BudgetCheck((NASTY,), "run.log").to_json(), allow_nan=False))["verdicts"][0]["measured"]
        is None
    )


def test_the_text() -> None:
    assert check.render_terminal([GOOD, BAD]) == (
        "FAIL  max-dram  DRAM peak is 85%: too high\n"
        "                #12 ttnn.matmul at dot.7, line 345\n"
        "ok    max-l1    L1 is fine\n"
        "1 of 2 limits broken\n"
    )
    assert check.render_terminal([GOOD]).endswith("the limit holds\n")
    assert len(check.render_terminal([NASTY], width=400).splitlines()) == 3


def test_junit() -> None:
    suites = ElementTree.fromstring(check.render_junit([GOOD, BAD, NASTY], "logs/run.log"))
    assert suites.attrib == {"tests": "3", "failures": "2", "errors": "0"}
    good, bad, nasty = suites.iter("testcase")
    assert good.attrib == {"classname": "ttmem.check", "name": "max-l1", "file": "logs/run.log", "time": "0"}
    assert good.find("failure") is None
    problem = bad.find("failure")
    assert problem is not None
    assert (bad.get("line"), problem.get("message")) == ("345", "DRAM peak is 85%: too high")
    assert problem.text == "DRAM peak is 85%: too high\noperation #12 ttnn.matmul\nlocation dot.7"
    assert nasty.find("failure") is not None


def test_sarif() -> None:
    log = json.loads(check.render_sarif([GOOD, BAD, NASTY], "logs/my run.log"))
    assert (log["version"], log["$schema"]) == ("2.1.0", "https://json.schemastore.org/sarif-2.1.0.json")
    (run,) = log["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["max-l1", "max-dram", "run-failed"]
    assert run["results"][1] == {
        "ruleId": "max-dram",
        "ruleIndex": 1,
        "kind": "fail",
        "level": "error",
        "message": {"text": "DRAM peak is 85%: too high"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "logs/my%20run.log"},
                    "region": {"startLine": 345},
                },
                "logicalLocations": [{"name": "ttnn.matmul", "fullyQualifiedName": "dot.7", "kind": "function"}],
            }
        ],
    }
    assert (run["results"][0]["kind"], run["results"][0]["level"]) == ("pass", "none")


def test_sarif_takes_absolute_paths() -> None:
    log = json.loads(check.render_sarif([BAD], "/data/run.log"))
    location = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "file:///data/run.log"}


def test_github_annotations() -> None:
    assert check.render_github([GOOD, BAD], "logs/a,b:c.log") == (
        "::error file=logs/a%2Cb%3Ac.log,line=345,title=ttmem max-dram::DRAM peak is 85%25: too high\n"
    )


@pytest.mark.parametrize("source", ["run.log", HOSTILE])
def test_a_log_cannot_write_commands_of_its_own(source: str) -> None:
    lines = check.render_github([NASTY], source).splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("::error file=")
