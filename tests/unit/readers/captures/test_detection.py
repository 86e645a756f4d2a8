# SPDX-License-Identifier: Apache-2.0
"""Which kind a source is, is seen from its content; whatever it is, the answer is a profile or a reason."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.captures import DATA, capture, unpacked_capture, unpacked_report
from support.command_line import FIVE_RUNS
from ttmem import TtmemError, read


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Path]:
    """One source of every kind, under names that tell nothing."""
    made = {}
    for kind in ("capture", "report"):
        folder = tmp_path / kind
        folder.mkdir()
        made[kind] = unpacked_capture("n150-normal" if kind == "capture" else "n150-report", folder).rename(
            folder / "x"
        )
    folder = tmp_path / "visualizer"
    folder.mkdir()
    made["visualizer"] = (unpacked_report("n150-report", folder) / "db.sqlite").rename(folder / "x")
    made["memory-report"] = tmp_path / "y"
    shutil.copy(DATA / "captures" / "memory-report" / "program_memory_usage_summary.csv", made["memory-report"])
    made["log"] = tmp_path / "z"
    shutil.copy(FIVE_RUNS, made["log"])
    return made


def test_names_do_not_matter(sources: dict[str, Path]) -> None:
    assert {kind: read(path).source.kind for kind, path in sources.items()} == {
        "capture": "ttnn-graph-capture",
        "report": "ttnn-graph-capture",
        "visualizer": "ttnn-visualizer",
        "memory-report": "tt-metal-memory-report",
        "log": "tt-mlir-log",
    }


@pytest.mark.parametrize("content", ['{"schema": "ttmem.profile/1", "name": "x"}', "[1, 2, 3]", "{}"])
def test_other_json_is_told_apart_from_a_log(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(TtmemError, match="is JSON, but not of a kind") as raised:
        read(path)
    assert "ttmem reports" in raised.value.hint


def test_a_log_that_begins_like_json_is_a_log(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"[rank0] starting\n" + gzip.decompress(FIVE_RUNS.read_bytes()))
    assert read(path).source.kind == "tt-mlir-log"


def test_a_packed_capture_that_is_cut_is_bad_input(tmp_path: Path) -> None:
    whole = gzip.compress(json.dumps(capture("n150-normal")).encode())
    path = tmp_path / "run.json.gz"
    for share in (2, 5, 8):
        path.write_bytes(whole[: len(whole) * share // 10])
        with pytest.raises(TtmemError) as raised:
            read(path)
        assert raised.value.exit_code == 2


HEADS = st.sampled_from(
    [
        b"SQLite format 3\x00",
        b'[{"node_type": "capture_start"}, ',
        b'{"graph": [',
        b'{"0": {"debug_str": "',
        b"Program ID, Total Allocatable Size (B), Total Allocated (B)\n",
        b"\x89TTMEM\r\n",
        b"\x1f\x8b\x08",
        b"",
    ]
)


@given(HEADS, st.binary(max_size=300))
def test_garbage_of_every_kind_has_a_reason(tmp_path_factory: pytest.TempPathFactory, head: bytes, rest: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "garbage"
    path.write_bytes(head + rest)
    code = 0
    try:
        read(path)
    except TtmemError as error:
        code = error.exit_code
    assert code in (0, 2)
