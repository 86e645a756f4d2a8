# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.captures import operation_names, views_before_operations
from ttmem import TtmemError, read
from ttmem.analysis.consumers import alive_at_peak
from ttmem.analysis.peaks import peaks
from ttmem.profile.model import STATE_NAMES

MIB = 1 << 20
LAYOUT = (
    "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<32x32x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<dram>>, "
    "<interleaved>>"
)
TENSOR = f"tensor<1024x1024xbf16, {LAYOUT}>"
TAKEN = 86 * 2048
"""1024 tiles over 12 banks."""

OPERATIONS = [
    (f'%0 = "ttnn.sigmoid"(%arg0) : ({TENSOR}) -> {TENSOR} loc("model.py":26:1)', 2 * TAKEN),
    (f'%1 = "ttnn.add"(%0, %arg0) : ({TENSOR}, {TENSOR}) -> {TENSOR} loc("add_1")', 3 * TAKEN),
    (f'"ttnn.deallocate"(%0) <{{force = false}}> : ({TENSOR}) -> () loc("add_1")', 2 * TAKEN),
]


def view(allocated: int, *, banks: int = 12, total: int = 1000 * MIB) -> dict[str, Any]:
    return {
        "num_banks": banks,
        "total_bytes_per_bank": total,
        "total_bytes_allocated_per_bank": allocated,
        "total_bytes_free_per_bank": total - allocated,
        "largest_contiguous_bytes_free_per_bank": total - allocated - 64,
        "block_table": [],
    }


def entry(text: str, allocated: int) -> dict[str, Any]:
    return {
        "loc": 'loc("somewhere")',
        "debug_str": text,
        "dram": view(allocated),
        "l1": view(0, banks=64, total=MIB),
        "l1_small": view(0, banks=64, total=32768),
        "trace": view(0, total=0) | {"largest_contiguous_bytes_free_per_bank": 0},
    }


def today() -> Any:
    return {str(number): entry(*operation) for number, operation in enumerate(OPERATIONS)}


def builder() -> Any:
    return list(today().values())


def january_2025() -> Any:
    """A level of devices between the memory and its figures."""
    return {
        number: {key: {"device_0": value} if isinstance(value, dict) else value for key, value in stated.items()}
        for number, stated in today().items()
    }


def december_2024() -> Any:
    """Made of CSV files, with units in the keys; the number of banks follows from two totals."""

    def old(stated: dict[str, Any]) -> dict[str, Any]:
        total = stated["total_bytes_per_bank"]
        return {
            "total_allocatable (bytes) : total_allocatable/bank * num_banks": str(total * stated["num_banks"]),
            "total_allocatable (bytes) : per bank": str(total),
            "total_allocated (bytes): per bank": str(stated["total_bytes_allocated_per_bank"]),
            "total_free (bytes) : per bank": str(stated["total_bytes_free_per_bank"]),
            "largest_free_block (bytes) : per bank": str(stated["largest_contiguous_bytes_free_per_bank"]),
            "blocks": [{"address (bytes)": "0", "size (bytes)": "4", "allocated (y/n)": "y"}],
        }

    return {
        number: {
            "loc": stated["loc"],
            "debug_str": stated["debug_str"],
            "dram": old(stated["dram"]),
            "l1": old(stated["l1"]),
        }
        for number, stated in today().items()
    }


@pytest.mark.parametrize("form", [today, builder, january_2025, december_2024])
def test_every_form_gives_the_states_after_each_operation(tmp_path: Path, form: Any) -> None:
    folder = tmp_path / "mnist"
    folder.mkdir()
    path = folder / "memory_results.json"
    path.write_text(json.dumps(form(), indent=4))

    profile = read(path)

    assert (profile.name, profile.source.kind) == ("mnist", "ttrt-memory")
    assert operation_names(profile) == ["ttnn.sigmoid", "ttnn.add", "ttnn.deallocate"]
    # THEN the state after an operation stands before the next one; the last is a snapshot
    assert [STATE_NAMES[kind] for kind in profile.timelines[0].state_kind] == [
        "before operation",
        "before operation",
        "snapshot",
    ]
    found = [views["DRAM"] for views in views_before_operations(profile)]
    assert found == [
        [12, 1000 * MIB, 2 * TAKEN, 1000 * MIB - 2 * TAKEN, 1000 * MIB - 2 * TAKEN - 64],
        [12, 1000 * MIB, 3 * TAKEN, 1000 * MIB - 3 * TAKEN, 1000 * MIB - 3 * TAKEN - 64],
    ]
    peak = peaks(profile)["DRAM"]
    assert (peak.peak_bytes_per_bank, peak.caused_by_index, peak.caused_by_name) == (3 * TAKEN, 1, "ttnn.add")
    assert peak.end_bytes_per_bank == 2 * TAKEN
    assert any("taken after each operation" in warning for warning in profile.source.warnings)


def test_tensors_are_known_from_the_operation_texts(tmp_path: Path) -> None:
    path = tmp_path / "memory_results.json"
    path.write_text(json.dumps(today()))
    profile = read(path)
    live = alive_at_peak(profile, "DRAM")
    assert live is not None
    assert sorted(life.name for life in live.tensors) == ["%0", "%1", "%arg0"]
    assert live.unattributed_bytes_per_bank == 0
    assert profile.forms.location(0) == "model.py:26:1"


def test_operations_are_ordered_by_number_not_by_text(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    many = {str(number): entry(f'%{number} = "ttnn.op{number}"() : () -> {TENSOR}', number) for number in range(12)}
    path.write_text(json.dumps({key: many[key] for key in sorted(many)}))
    assert operation_names(read(path)) == [f"ttnn.op{number}" for number in range(12)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"0": {"debug_str": "x", "dram": ', "damaged or cut"),
        ('{"0": {"debug_str": 5}}', "not memory results of ttrt"),
        ('{"0": {"debug_str": "x", "dram": []}}', r"\.dram"),
    ],
)
def test_bad_results(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "memory_results.json"
    path.write_text(content)
    with pytest.raises(TtmemError, match=message) as raised:
        read(path)
    assert "--memory" in raised.value.hint


def test_an_entry_that_is_no_operation_text_keeps_its_words(tmp_path: Path) -> None:
    path = tmp_path / "memory_results.json"
    path.write_text(json.dumps([{"debug_str": "EltwiseOp (in, out)", "dram": {}, "l1": {"num_banks": "?"}}]))
    profile = read(path)
    assert operation_names(profile) == ["EltwiseOp"]
    assert peaks(profile) == {}
