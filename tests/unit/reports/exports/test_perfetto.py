# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.build_profile import ProfileBuilder, tensor
from support.captures import unpacked_capture
from ttmem import Profile, read
from ttmem.reports import exports

PHASES = {"M", "X", "C", "i", "b", "e"}


def trace(profile: Profile, folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(exports.export(profile, "perfetto", folder / "trace.json").read_text())
    return document


def check_format(document: dict[str, Any]) -> None:
    """What the trace-event format asks of each phase; ui.perfetto.dev drops events that lack it."""
    open_spans: dict[tuple[Any, ...], int] = {}
    for event in document["traceEvents"]:
        assert event["ph"] in PHASES
        assert isinstance(event["pid"], int)
        assert isinstance(event["name"], str)
        if event["ph"] == "M":
            continue
        assert isinstance(event["ts"], int)
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert isinstance(event["tid"], int)
        elif event["ph"] == "C":
            assert all(isinstance(value, int) for value in event["args"].values())
        elif event["ph"] in ("b", "e"):
            key = (event["cat"], event["id"], event["name"])
            if event["ph"] == "b":
                assert key not in open_spans
                open_spans[key] = event["ts"]
            else:
                assert open_spans.pop(key) <= event["ts"]
    assert not open_spans


def test_operations_programs_counters_and_tensors(tmp_path: Path) -> None:
    build = ProfileBuilder("small")
    build.before_submit(dram=7)
    with build.program("main"):
        build.operation("ttnn.add", results={"%1": tensor(64, 64)}, location="model.py:7", dram=7, l1=1)
        build.operation("ttnn.relu", operands={"%1": tensor(64, 64)}, dram=2055)
    build.after_submit(dram=9)

    document = trace(build.build(), tmp_path)

    check_format(document)
    events = document["traceEvents"]
    assert [(e["name"], e["ts"], e["dur"], e["tid"]) for e in events if e["ph"] == "X"] == [
        ("ttnn.add", 0, 1000, 1),
        ("ttnn.relu", 1000, 1000, 1),
        ("main", 0, 2000, 2),
    ]
    assert events[7]["args"] == {"index": 0, "location": "model.py:7"}
    counters = [(e["name"], e["ts"], e["args"]["allocated"]) for e in events if e["ph"] == "C"]
    assert counters == [
        ("DRAM bytes per bank", 0, 7),
        ("DRAM bytes per bank", 0, 7),
        ("DRAM bytes per bank", 1000, 2055),
        ("DRAM bytes per bank", 2000, 9),
        ("L1 bytes per bank", 0, 1),
    ]
    spans = [(e["ph"], e["name"], e["ts"]) for e in events if e["ph"] in "be"]
    assert spans == [("b", "%1 64x64 bfloat16", 0), ("e", "%1 64x64 bfloat16", 2000)]
    assert document["otherData"]["axis"] == "operations, not time: 1 ms is one operation"


def test_moments_inside_operations_lie_inside_them(tmp_path: Path) -> None:
    profile = read(unpacked_capture("n150-report", tmp_path))
    document = trace(profile, tmp_path)
    check_format(document)
    l1 = [(e["ts"], e["args"]["allocated"]) for e in document["traceEvents"] if e["name"] == "L1 bytes per bank"]
    assert (9500, 30720) in l1  # within max_pool2d, operation 9
    assert (6900, 18432) in l1  # after relu, before reshape
    assert [ts for ts, _ in l1] == sorted(ts for ts, _ in l1)
    (failure,) = [e for e in document["traceEvents"] if e["ph"] == "i"]
    assert (failure["name"], failure["ts"]) == ("oom/too-big", 11500)
    assert document["otherData"]["warnings"]


def test_ranks_are_processes(tmp_path: Path) -> None:
    build = ProfileBuilder("ranks")
    for rank in (0, 3):
        build.rank(rank).operation("ttnn.add", dram=rank)
    events = trace(build.build(), tmp_path)["traceEvents"]
    names = [(e["pid"], e["args"]["name"]) for e in events if e["name"] == "process_name"]
    assert names == [(0, "ranks rank 0"), (3, "ranks rank 3")]


@pytest.mark.parametrize("log", ["transformer-five-runs.log.gz", "blackhole-oom-ansi.log.gz"])
def test_whole_logs(tmp_path: Path, log: str) -> None:
    from support.command_line import EXAMPLES

    profile = read(EXAMPLES / log)
    document = trace(profile, tmp_path)
    check_format(document)
    operations = [e for e in document["traceEvents"] if e.get("cat") == "operation"]
    assert len(operations) == sum(map(len, profile.timelines))
