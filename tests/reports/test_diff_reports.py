# SPDX-License-Identifier: Apache-2.0
"""A diff as JSON and for people."""

from __future__ import annotations

import json

from syrupy.assertion import SnapshotAssertion

from support.build_profile import ProfileBuilder, tensor
from ttmem.analysis.diff import diff
from ttmem.profile import Profile
from ttmem.reports.diff import document as diff_document
from ttmem.reports.diff import terminal as diff_terminal

from .stories import hostile, two_layers, without_states


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
    document = diff_document.document(diff(one(32), one(64, name="after")), regression=True).to_json()
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
            }
        ],
        "shrank": [],
        "operation_counts": [],
        "regression": True,
    }
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_the_text(snapshot: SnapshotAssertion) -> None:
    assert diff_terminal.render(diff(one(32), one(64, name="after", extra=True)), width=100) == snapshot


def test_no_difference_is_said() -> None:
    assert diff_terminal.render(diff(two_layers(), two_layers())).splitlines()[-1] == "No difference in memory."


def test_odd_profiles_can_be_compared() -> None:
    for before, after in ((hostile(), two_layers()), (two_layers(), without_states()), (without_states(), hostile())):
        found = diff(before, after)
        text = diff_terminal.render(found, width=80)
        assert max(map(len, text.splitlines())) <= 80
        assert "\x1b" not in text
        json.dumps(diff_document.document(found, regression=False).to_json(), allow_nan=False)
