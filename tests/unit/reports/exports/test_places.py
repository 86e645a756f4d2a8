# SPDX-License-Identifier: Apache-2.0
"""Whole or not at all, and never over somebody else's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.build_profile import ProfileBuilder
from ttmem import Profile, TtmemError
from ttmem.reports import exports
from ttmem.reports.exports import tables


@pytest.fixture
def profile() -> Profile:
    build = ProfileBuilder("tiny")
    build.operation("ttnn.add", dram=5)
    return build.build()


@pytest.mark.parametrize("target", ["csv", "visualizer"])
def test_a_folder_of_an_earlier_export_is_replaced_whole(tmp_path: Path, profile: Profile, target: str) -> None:
    out = tmp_path / "out"
    exports.export(profile, "csv", out)
    (out / "leftover.csv").write_text("x")
    exports.export(profile, target, out)
    assert not (out / "leftover.csv").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("target", ["csv", "visualizer", "parquet"])
def test_a_folder_with_other_files_is_refused_before_any_work(tmp_path: Path, profile: Profile, target: str) -> None:
    mine = tmp_path / "thesis.txt"
    mine.write_text("years of work")
    with pytest.raises(TtmemError, match="other files") as raised:
        exports.export(profile, target, tmp_path)
    assert raised.value.exit_code == 2
    assert mine.read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_empty_folder_is_used(tmp_path: Path, profile: Profile) -> None:
    out = tmp_path / "out"
    out.mkdir()
    exports.export(profile, "csv", out)
    assert (out / "operations.csv").is_file()


@pytest.mark.parametrize("target", ["csv", "visualizer"])
def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path, profile: Profile, target: str) -> None:
    file = tmp_path / "out"
    file.write_text("keep")
    with pytest.raises(TtmemError, match="needs a folder"):
        exports.export(profile, target, file)
    assert file.read_text() == "keep"


@pytest.mark.parametrize("target", ["csv", "visualizer", "perfetto"])
def test_a_missing_parent_is_told(tmp_path: Path, profile: Profile, target: str) -> None:
    with pytest.raises(TtmemError, match="no such folder"):
        exports.export(profile, target, tmp_path / "not" / "there")


def test_what_fails_half_way_leaves_nothing_and_keeps_the_old(
    tmp_path: Path, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    exports.export(profile, "csv", out)
    before = (out / "operations.csv").read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tables, "_format_cells", fail)
    with pytest.raises(TtmemError, match="No space left"):
        exports.export(profile, "csv", out)
    assert (out / "operations.csv").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_trace_that_fails_half_way_leaves_nothing(
    tmp_path: Path, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ttmem.reports.exports import perfetto

    monkeypatch.setattr(perfetto, "_build_counters", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(TtmemError, match=r"trace\.json: cannot be written"):
        exports.export(profile, "perfetto", tmp_path / "trace.json")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_target_is_refused(tmp_path: Path, profile: Profile) -> None:
    with pytest.raises(TtmemError, match="no export target 'excel'"):
        exports.export(profile, "excel", tmp_path / "x")
