# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from support.captures import DATA, operation_names, views_before_operations
from ttmem import Profile, TtmemError, read
from ttmem.analysis.consumers import alive_at_peak
from ttmem.profile.model import STATE_NAMES

REAL = DATA / "captures" / "memory-report"
HEADER = "Program ID, Total Allocatable Size (B), Total Allocated (B), Total Free (B), Largest Free Block (B)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "bert"
    shutil.copytree(REAL, place)
    return place


def kinds(profile: Profile) -> list[str]:
    return [STATE_NAMES[kind] for kind in profile.timelines[0].state_kind]


def test_rows_are_the_allocators_views_when_a_program_is_new(folder: Path) -> None:
    profile = read(folder)

    # GIVEN five steps: add, add again (cached: no row), softmax, a release, mul
    views = json.loads((REAL / "views.json").read_text())
    wanted = [{memory: views[step][memory] for memory in ("DRAM", "L1", "L1_SMALL")} for step in (0, 2, 4)]
    assert views_before_operations(profile) == wanted
    assert operation_names(profile) == ["program"] * 3
    assert [profile.forms.location(form) for form in range(3)] == ["program 0", "program 2", "program 4"]
    assert (profile.name, profile.source.kind) == ("bert", "tt-metal-memory-report")
    assert any("launched for the first time" in warning for warning in profile.source.warnings)
    assert any("1 dumps in the folder are left out" in warning for warning in profile.source.warnings)


def test_blocks_are_buffers_that_sum_to_the_state(folder: Path) -> None:
    live = alive_at_peak(read(folder), "DRAM")
    assert live is not None
    assert [life.bytes_per_bank for life in live.tensors] == [88064, 88064, 2048]
    assert live.unattributed_bytes_per_bank == 0
    assert [life.type.padded_bytes for life in live.tensors] == [88064 * 12, 88064 * 12, 2048 * 12]


def test_one_file_is_a_source_too(folder: Path) -> None:
    profile = read(folder / "program_memory_usage_summary.csv")
    assert len(profile.timelines[0]) == 3
    assert profile.to_json()["memories"]["L1"]["banks"] == 64


def test_the_runtime_s_own_folder_is_found_from_above(tmp_path: Path) -> None:
    shutil.copytree(REAL, tmp_path / "run" / "generated" / "reports")
    assert read(tmp_path / "run").name == "run"
    assert read(tmp_path / "run" / "generated" / "reports").name == "run"


def test_dumps_alone_are_snapshots(folder: Path) -> None:
    for file in folder.glob("program_*"):
        file.unlink()
    profile = read(folder)
    views = json.loads((REAL / "views.json").read_text())
    assert kinds(profile) == ["snapshot"]
    assert len(profile.timelines[0]) == 0
    assert profile.views[profile.timelines[0].state_view[0, 0]].tolist() == views[3]["DRAM"]
    assert any("these dumps are snapshots" in warning for warning in profile.source.warnings)


def test_without_the_detailed_file_banks_are_not_known(folder: Path) -> None:
    (folder / "program_detailed_memory_usage.csv").unlink()
    profile = read(folder)
    assert profile.timelines[0].buffers is None
    assert profile.to_json()["memories"]["DRAM"]["banks"] == 0
    assert profile.to_json()["memories"]["DRAM"]["peak_bytes_per_bank"] == 178176


def test_two_rows_per_program_before_september_2025_and_kilobytes_before_2024(tmp_path: Path) -> None:
    old = tmp_path / "program_memory_usage_summary.csv"
    old.write_text(HEADER.replace("(B)", "(KB)") + "0,1000,10,990,980\n,100,1,99,99\n1,1000,20,980,980\n,100,2,98,98\n")
    profile = read(tmp_path)
    assert views_before_operations(profile) == [
        {"DRAM": [0, 1024000, 10240, 1013760, 1003520], "L1": [0, 102400, 1024, 101376, 101376]},
        {"DRAM": [0, 1024000, 20480, 1003520, 1003520], "L1": [0, 102400, 2048, 100352, 100352]},
    ]


def test_a_cut_file_gives_what_it_holds(folder: Path) -> None:
    path = folder / "program_memory_usage_summary.csv"
    path.write_text(path.read_text()[:-20])
    profile = read(folder)
    assert len(profile.timelines[0]) == 3
    assert any(":10: the row is damaged or cut" in warning for warning in profile.source.warnings)
    assert views_before_operations(profile)[2].keys() == {"DRAM", "L1"}


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "is empty"), (HEADER, "holds a header and no program"), ("a,b,c\n", "does not begin like a memory report")],
)
def test_files_without_rows_say_why(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "program_memory_usage_summary.csv").write_text(content)
    with pytest.raises(TtmemError, match=message) as raised:
        read(tmp_path)
    assert "DisableMemoryReports" in raised.value.hint


def test_a_folder_of_nothing_says_what_a_folder_may_hold(tmp_path: Path) -> None:
    with pytest.raises(TtmemError, match="is a folder") as raised:
        read(tmp_path)
    assert "db.sqlite" in raised.value.hint
