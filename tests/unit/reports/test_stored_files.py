# SPDX-License-Identifier: Apache-2.0
"""The data files of a stored report: columns that give the profile back."""

from __future__ import annotations

import msgspec
import pytest

from support.profile_stories import ALL, two_layers
from ttmem.profile.model import MEMORIES, VIEW_ALLOCATED
from ttmem.reports import profile_files


def test_names_of_the_files() -> None:
    assert [name for name, _ in profile_files.build_files(two_layers())] == [
        "memory.json",
        "operations.json",
        "inputs_registry.json",
        "report.html",
        "profile.ttmem",
    ]


@pytest.mark.parametrize("story", ALL)
def test_columns_give_back_every_state_and_operation(story: str) -> None:
    profile = ALL[story]()
    memory, operations, inputs = (
        msgspec.json.decode(content) for name, content in profile_files.build_files(profile) if name.endswith(".json")
    )
    for timeline, states, executed in zip(profile.timelines, memory["processes"], operations["processes"], strict=True):
        for column, name in enumerate(MEMORIES):
            shown = [memory["views"]["allocated_bytes_per_bank"][view] if view >= 0 else None for view in states[name]]
            expected = [
                int(profile.views[view, VIEW_ALLOCATED]) if view >= 0 else None
                for view in timeline.state_view[:, column].tolist()
            ]
            assert shown == expected
        forms = operations["forms"]
        for position, form in enumerate(executed["form"]):
            decoded = profile.forms[int(timeline.form[position])]
            location = profile.forms.location(int(timeline.form[position]))
            assert forms["names"][forms["name"][form]] == decoded.name
            assert forms["locations"][forms["location"][form]] == location
            assert forms["values"][form] == f"{' '.join(decoded.results)}={' '.join(decoded.operands)}"
            assert forms["signatures"][forms["signature"][form]] == {
                "operands": list(decoded.operand_types),
                "results": list(decoded.result_types),
            }
    assert [item["name"] for item in inputs["arguments"]] == [item.name for item in profile.arguments]


def test_inputs_registry() -> None:
    registry = msgspec.json.decode(msgspec.json.encode(profile_files.build_inputs_document(two_layers())))
    assert registry["arguments"][1] == {
        "graph": "main",
        "position": 1,
        "name": "layers.0.weight",
        "shape": [1024, 1024],
        "dtype": "bfloat16",
        "kind": "parameter",
        "bytes": 2_097_152,
        "on_device": False,
        "kv_cache": False,
    }
