# SPDX-License-Identifier: Apache-2.0
"""A diff as JSON and for people."""

from __future__ import annotations

import json

import pytest
from syrupy.assertion import SnapshotAssertion

from support.build_profile import MIB, ProfileBuilder, tensor
from support.profile_stories import hostile, two_layers, without_states
from ttmem.analysis.diff import diff
from ttmem.profile.model import Profile
from ttmem.reports import diff as diff_report


def one(rows: int, *, name: str = "before", extra: bool = False) -> Profile:
    type_ = tensor(rows, 32)
    build = ProfileBuilder(name, banks={"DRAM": 1, "L1": 1, "L1_SMALL": 1, "TRACE": 1})
    with build.program("main"):
        build.operation("ttnn.matmul", results={"%1": type_}, location="dot.7", dram=1000)
        if extra:
            build.operation("ttnn.exp", results={"%2": tensor(32, 32)}, dram=1000 + type_.padded_bytes)
            build.operation("ttnn.get_device", dram=1000 + type_.padded_bytes + 2048)
        else:
            build.operation("ttnn.get_device", dram=1000 + type_.padded_bytes)
    return build.build()


def test_the_document() -> None:
    document = diff_report.build_document(diff(one(32), one(64, name="after")), regression=True).to_json()
    cause = {"index": 0, "name": "ttnn.matmul", "location": "dot.7"}
    assert document == {
        "schema": "ttmem.diff/1",
        "before": "before",
        "after": "after",
        "memories": {
            "DRAM": {
                "before": 3048,
                "after": 5096,
                "delta_bytes_per_bank": 2048,
                "delta_percent": 67.1916,
                "unattributed_delta_bytes_per_bank": 0,
                "error_bytes_per_bank": 0,
                "before_device_bytes": 3048,
                "after_device_bytes": 5096,
                "before_with_programs_bytes_per_core": None,
                "after_with_programs_bytes_per_core": None,
                "peak_moved": False,
                "caused_by_before": cause,
                "caused_by_after": cause,
            }
        },
        "grew": [
            {
                "tensor": "%1",
                "operation": {**cause, "program": "main"},
                "delta_bytes": 2048,
                "delta_bytes_per_bank": 2048,
                "memory": "DRAM",
                "reason": "larger",
                "before": {"shape": [32, 32], "dtype": "bfloat16", "bytes": 2048},
                "after": {"shape": [64, 32], "dtype": "bfloat16", "bytes": 4096},
                "counterpart": "",
            }
        ],
        "shrank": [],
        "operation_counts": [],
        "remarks": [],
        "regression": True,
    }
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_the_text(snapshot: SnapshotAssertion) -> None:
    assert diff_report.render_terminal(diff(one(32), one(64, name="after", extra=True)), width=100) == snapshot


def test_no_difference_is_said() -> None:
    assert diff_report.render_terminal(diff(two_layers(), two_layers())).splitlines()[-1] == "No difference in memory."


def test_odd_profiles_can_be_compared() -> None:
    for before, after in ((hostile(), two_layers()), (two_layers(), without_states()), (without_states(), hostile())):
        found = diff(before, after)
        text = diff_report.render_terminal(found, width=80)
        assert max(map(len, text.splitlines())) <= 80
        assert "\x1b" not in text
        json.dumps(diff_report.build_document(found, regression=False).to_json(), allow_nan=False)


def of_board(board: str, dram_banks: int, l1_banks: int, **facts: str) -> Profile:
    banks = {"DRAM": dram_banks, "L1": l1_banks, "L1_SMALL": l1_banks, "TRACE": dram_banks}
    build = ProfileBuilder(board or "log", banks=banks, facts={**({"board": board} if board else {}), **facts})
    build.operation("ttnn.add", dram=24 * MIB // dram_banks, l1=0)
    return build.build()


def test_two_boards_are_said_to_be_two() -> None:
    # GIVEN the same 24 MiB on a chip, over 12 banks and over 8
    found = diff(of_board("n150", 12, 64), of_board("p150", 8, 130))
    shown = diff_report.render_terminal(found, width=200)
    assert "the boards differ: n150 -> p150" in shown
    assert "DRAM has 12 banks of 1,000.000 MiB before and 8 of 1,000.000 MiB after, so figures per bank do not" in shown
    assert "DRAM over all banks of a chip: 24.000 MiB -> 24.000 MiB" in shown
    document = diff_report.build_document(found, regression=False).to_json()
    assert document["remarks"][0] == "the boards differ: n150 -> p150"
    dram = document["memories"]["DRAM"]
    assert (dram["before_device_bytes"], dram["after_device_bytes"]) == (24 * MIB, 24 * MIB)


@pytest.mark.parametrize(
    ("before", "after", "remarks"),
    [
        (of_board("n150", 12, 64), of_board("n150", 12, 64), 0),
        (of_board("", 12, 64), of_board("", 12, 64), 0),
        (of_board("", 12, 64), of_board("", 12, 56), 1),  # logs name no board; their banks do
        (of_board("n300", 12, 56, chips="1"), of_board("n300", 12, 56, chips="2"), 1),
        (of_board("", 12, 64, system="wormhole"), of_board("", 8, 64, system="blackhole"), 2),
    ],
)
def test_what_tells_two_places_apart(before: Profile, after: Profile, remarks: int) -> None:
    assert len(diff(before, after).remarks) == remarks
