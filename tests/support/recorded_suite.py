# SPDX-License-Identifier: Apache-2.0
"""A suite as the processes of pytest record it, without ttnn: two of them, one of which died in the middle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ttmem.analysis.budget import parse_limit
from ttmem.commands.test import BaselineSuite, Suite, judge_suite
from ttmem.engines.run_tests import RecordedSuite, read_suite

BANK = 64 << 20
_NOTHING = [[12, BANK, 0, BANK, BANK], [64, 1 << 20, 0, 1 << 20, 1 << 20], [64, 0, 0, 0, 0], [12, 0, 0, 0, 0]]
_POOLS = {"DRAM": [12, 0, BANK], "L1": [64, 0, 1 << 20], "L1_SMALL": [64, 0, 0], "TRACE": [12, 0, 0]}
_DEVICE = {"arch": "wormhole_b0", "grid": [8, 8], "mesh": [1, 1], "chips": 1, "pools": _POOLS}


def operation(number: int, line: int, taken: int, error: str = "") -> list[dict[str, Any]]:
    """One that takes so many bytes per bank of DRAM and gives them back when it is done."""
    state = {"state": _NOTHING, "came": [], "gone": []}
    end: dict[str, Any] = {"end": number, "born": [], "gone": [], "fullest": {}, "l1": [0, 4096, 0, 0, 1]}
    if taken:
        end |= {"born": [[number, 0, 0, taken, 12 * taken]], "fullest": {"DRAM": [taken, [number], [], BANK - taken]}}
        end["gone"] = [number]
    if error:
        end["error"] = error
    return [{"start": number, "name": "ttnn.add", "file": "a.py", "line": line, **state}, end]


def recorded_suite(folder: Path, *, large: int = 8 << 20, is_swapped: bool = False) -> RecordedSuite:
    """Four tests: the first process numbers its operations from 5, the second one ends in half a line.

    ``is_swapped``: the second one was started first.
    """
    oom = "Out of Memory: Not enough space to allocate 5000000 B DRAM buffer across 12 banks"
    first = [
        {"hello": 1, "ttnn": "0.81.1"},
        {"test": "test_a.py::test_small"},
        {"device": _DEVICE},
        *operation(5, 3, 1 << 20),
        {"test": "test_a.py::test_large"},
        *operation(6, 7, large),
        *operation(7, 8, 4096),
        {"closed": True, "state": _NOTHING, "came": [], "gone": []},
    ]
    second = [
        {"hello": 1, "ttnn": "0.81.1"},
        {"test": "test_a.py::test_early"},
        {"test": "test_a.py::test_fails"},
        {"device": _DEVICE},
        *operation(0, 12, 2 << 20),
        *operation(1, 13, 0, oom),
    ]
    rows: list[dict[str, Any]] = [
        {"test": "test_a.py::test_small", "outcome": "passed", "seconds": 0.25, "operations": 1},
        {"test": "test_a.py::test_large", "outcome": "passed", "seconds": 0.5, "operations": 2},
        {"test": "test_a.py::test_early", "outcome": "skipped", "seconds": 0.0, "expected_failure": "not yet"},
        {
            "test": "test_a.py::test_fails",
            "outcome": "failed",
            "seconds": 1.0,
            "failure": json.dumps({"text": oom, "operation": None}),
        },
    ]
    folder.mkdir(parents=True)
    processes = (second, first) if is_swapped else (first, second)
    for number, messages in enumerate((*processes, [{"row": row} for row in rows])):
        (folder / f"{number}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in messages) + '{"start": 1')
    return read_suite(folder, name="suite", source="test_a.py", engine="mock", board="n150", timed_out=False)


def grown_suite(folder: Path) -> Suite:
    """The same, with a baseline in which the large test needed half of it."""
    before = recorded_suite(folder / "before", large=4 << 20)
    baseline = BaselineSuite(before.profile, parse_limit("2%"))
    return judge_suite(1, "mock n150", recorded_suite(folder / "after"), baseline=baseline)
