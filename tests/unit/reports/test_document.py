# SPDX-License-Identifier: Apache-2.0
"""The ttmem.profile/1 document: every key of the contract, with its type and meaning."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from support.build_profile import MIB, ProfileBuilder, tensor
from support.profile_stories import ALL, OOM, two_layers, two_ranks
from ttmem.profile.runs import select

NUMBER = (int, float)
CONTRACT: dict[str, Any] = {
    "schema": str,
    "name": str,
    "source": {"kind": str, "bytes": int, "lines": int, "unrecognised_lines": int, "warnings": list},
    "operations": {"executed": int, "compute": int, "by_name": dict},
    "programs": list,
    "runs": int,
    "memories": {
        "DRAM": {
            "banks": int,
            "bytes_per_bank": int,
            "peak_bytes_per_bank": int,
            "peak_percent": NUMBER,
            "peak_at": {"index": int, "name": str},
            "caused_by": {"index": int, "name": str, "location": str},
            "largest_free_bytes_at_peak": int,
            "end_bytes_per_bank": int,
        }
    },
    "weights": {"count": int, "bytes": int, "entries": [{"name": str, "shape": list, "dtype": str, "bytes": int}]},
    "padding": {"logical_bytes": int, "padded_bytes": int, "overhead_percent": NUMBER, "top": list},
    "consumers": [
        {
            "tensor": str,
            "bytes": int,
            "bytes_per_bank": int,
            "producer": {"index": int, "name": str},
            "alive": [int],
        }
    ],
    "failure": {
        "class": str,
        "memory": str,
        "message": str,
        "operation": {"index": int, "name": str, "location": str},
        "requested_bytes": int,
        "bytes_per_bank": int,
        "bank_bytes": int,
        "banks": int,
        "allocated": int,
        "free": int,
        "largest_free": int,
    },
}


def missing(contract: Any, found: Any, path: str = "$") -> list[str]:
    """List the keys that a document lacks; more keys are allowed."""
    if isinstance(contract, dict):
        if not isinstance(found, dict):
            return [f"{path} is {type(found).__name__}"]
        return [
            problem
            for key, wanted in contract.items()
            for problem in (
                missing(wanted, found[key], f"{path}.{key}") if key in found else [f"{path}.{key} is absent"]
            )
        ]
    if isinstance(contract, list):
        if not isinstance(found, list) or not found:
            return [f"{path} has no entries"]
        return [problem for item in found for problem in missing(contract[0], item, f"{path}[]")]
    fits = isinstance(found, contract) and not isinstance(found, bool)
    return [] if fits else [f"{path} is {found!r}"]


def test_every_key_of_the_contract_is_there() -> None:
    assert missing(CONTRACT, two_layers(failed=True).to_json()) == []


@pytest.mark.parametrize("story", ALL)
def test_a_document_is_plain_json(story: str) -> None:
    document = ALL[story]().to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document  # no numpy, no tuples, no infinities
    assert msgspec.json.decode(msgspec.json.encode(document)) == document
    assert set(CONTRACT) <= set(document)


def test_figures_of_a_small_run() -> None:
    document = two_layers().to_json()
    assert document["schema"] == "ttmem.profile/1"
    assert document["operations"] == {
        "executed": 16,
        "compute": 10,
        "by_name": {
            "ttnn.deallocate": 6,
            "ttcore.load_cached": 3,
            "ttnn.matmul": 3,
            "ttnn.relu": 3,
            "ttnn.to_device": 1,
        },
    }
    assert document["programs"] == [
        {"name": "main", "executions": 3, "operations": 15, "const_eval": False},
        {"name": "main_const_eval_0", "executions": 1, "operations": 1, "const_eval": True},
    ]
    assert document["runs"] == 3
    assert document["run_list"][1] == {
        "run": 1,
        "rank": None,
        "program": "main",
        "first_index": 6,
        "last_index": 10,
        "operations": 5,
        "finished": True,
        "peak_dram_bytes_per_bank": 388_416,
    }
    own = ("consumers", "consumers_not_listed", "unattributed_bytes_per_bank")
    assert {key: value for key, value in document["memories"]["DRAM"].items() if key not in own} == {
        "banks": 12,
        "bytes_per_bank": 100 * MIB,
        "peak_bytes_per_bank": 388_416,
        "peak_percent": 0.3704,
        "peak_at": {"index": 3, "name": "ttnn.relu"},
        "caused_by": {"index": 2, "name": "ttnn.matmul", "location": "layers.0.dot.2"},
        "free_bytes_at_peak": 100 * MIB - 388_416,
        "largest_free_bytes_at_peak": 100 * MIB - 388_416,
        "end_bytes_per_bank": 376_128,
        "error_bytes_per_bank": 525,
        "rank": None,
    }
    assert (document["memories"]["TRACE"]["peak_percent"], document["memories"]["TRACE"]["caused_by"]) == (None, None)
    assert document["failure"] is None
    assert document["weights"] == {
        "count": 2,
        "bytes": 2_099_200,
        "constants": 1,
        "device_bytes": 2048,
        "host_only_bytes": 2_097_152,
        "unknown_bytes": 0,
        "entries": [
            {
                "name": "layers.0.weight",
                "shape": [1024, 1024],
                "dtype": "bfloat16",
                "bytes": 2_097_152,
                "constant": False,
                "where": "host",
                "graphs": ["main"],
            },
            {
                "name": "rope.table",
                "shape": [32, 32],
                "dtype": "bfloat16",
                "bytes": 2048,
                "constant": True,
                "where": "device",
                "graphs": ["main"],
            },
        ],
    }


def test_every_memory_lists_its_own_tensors() -> None:
    document = two_layers().to_json()
    memories = document["memories"]
    for key in ("consumers", "consumers_not_listed", "unattributed_bytes_per_bank"):
        assert memories["DRAM"][key] == document[key]
    assert [one["tensor"] for one in memories["L1"]["consumers"]] == ["%2"]
    for peak in memories.values():
        listed = sum(one["bytes_per_bank"] for one in peak["consumers"])
        rest = peak["consumers_not_listed"]["bytes_per_bank"] + peak["unattributed_bytes_per_bank"]
        assert listed + rest == peak["peak_bytes_per_bank"]


def test_the_parts_of_the_peak_sum_to_it() -> None:
    document = two_layers().to_json()
    listed = sum(consumer["bytes_per_bank"] for consumer in document["consumers"])
    rest = document["consumers_not_listed"]["bytes_per_bank"] + document["unattributed_bytes_per_bank"]
    assert listed + rest == document["memories"]["DRAM"]["peak_bytes_per_bank"]
    wide = next(consumer for consumer in document["consumers"] if consumer["tensor"] == "%1")
    assert wide == {
        "tensor": "%1",
        "name": "%1",
        "shape": [30, 2048],
        "dtype": "bfloat16",
        "layout": "tile",
        "producer": {"index": 2, "name": "ttnn.matmul"},
        "location": "layers.0.dot.2",
        "bytes": 131_072,
        "bytes_per_bank": 12_288,
        "alive": [2, 4],
        "last_use": 4,
        "weight": False,
        "program": "main",
    }


def test_padding_counts_the_tensors_alive_at_the_peak() -> None:
    padding = two_layers().to_json()["padding"]
    assert (padding["logical_bytes"], padding["padded_bytes"]) == (2_097_152 + 122_880, 2_097_152 + 131_072)
    assert padding["overhead_percent"] == round(100 * 8192 / 2_220_032, 4)
    assert [(item["tensor"], item["padding_bytes"], item["overhead_percent"]) for item in padding["top"]] == [
        ("%1", 8192, 6.6667)
    ]


def test_a_failed_run() -> None:
    document = two_layers(failed=True).to_json()
    failure = document["failure"]
    assert {key: failure[key] for key in CONTRACT["failure"]} == {
        "class": "oom/capacity",
        "memory": "DRAM",
        "message": OOM,
        "operation": {"index": 12, "name": "ttnn.matmul", "location": "layers.0.dot.2"},
        "requested_bytes": 4_194_304,
        "bytes_per_bank": 349_184,
        "bank_bytes": 1_048_576,
        "banks": 12,
        "allocated": 900_000,
        "free": 148_576,
        "largest_free": 100_000,
    }
    assert document["runs"] == 2  # the third never finished
    assert [run["finished"] for run in document["run_list"]] == [True, True, False]


def test_ranks_are_listed_and_the_worst_one_leads() -> None:
    document = two_ranks().to_json()
    assert (document["memories"]["DRAM"]["peak_bytes_per_bank"], document["memories"]["DRAM"]["rank"]) == (3000, 1)
    assert document["operations"]["executed"] == 4
    assert [
        (rank["rank"], rank["operations"], rank["memories"]["DRAM"]["peak_bytes_per_bank"])
        for rank in document["ranks"]
    ] == [(0, {"executed": 2, "compute": 1}, 1000), (1, {"executed": 2, "compute": 1}, 3000)]
    assert document["runs"] == 1


def test_growth_and_load_phase() -> None:
    document = two_layers(runs=6, leak_bytes=4096).to_json()
    growth = document["growth"]["DRAM"]
    assert (growth["verdict"], growth["bytes_per_bank_per_run"], growth["compared_runs"]) == ("leak", 4096.0, 4)
    assert document["load_phase"] == {
        "memory": "DRAM",
        "before_first_bytes_per_bank": 200_000,
        "const_eval_programs": 1,
        "const_eval_operations": 1,
        "const_eval_bytes_per_bank": 176_128,
        "upload_operations": 0,
        "upload_bytes_per_bank": 0,
        "loaded_at_index": 2,
        "loaded_bytes_per_bank": 376_128,
        "rank": None,
    }


def test_a_narrowed_profile_answers_for_its_part() -> None:
    document = select(two_layers(), run=2).to_json()
    assert (document["runs"], document["operations"]["executed"]) == (1, 5)
    assert document["memories"]["DRAM"]["peak_at"] == {"index": 13, "name": "ttnn.relu"}


def test_thousands_of_live_tensors_are_summed_up() -> None:
    build = ProfileBuilder(banks={"DRAM": 1, "L1": 1, "L1_SMALL": 1, "TRACE": 1})
    with build.program("main"):
        for number in range(1500):
            build.operation("ttnn.add", results={f"%{number}": tensor(32, 32)}, dram=2048 * number)
        build.operation("ttnn.get_device", dram=2048 * 1500)
    document = build.build().to_json()
    assert len(document["consumers"]) == 1000
    assert document["consumers_not_listed"] == {"count": 500, "bytes_per_bank": 500 * 2048}
