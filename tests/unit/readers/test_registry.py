# SPDX-License-Identifier: Apache-2.0
"""One list of readers: every kind is known by its content, and asking costs nothing heavy."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.command_line import environment
from ttmem.base.errors import BadInputError
from ttmem.operators.sweeps import foreign
from ttmem.readers.byte_source import Head, OpenedSource, TruncatedSourceError
from ttmem.readers.registry import (
    FALLBACK,
    LOG_FACTS,
    PROFILE,
    PROFILER_FACTS,
    READERS,
    WATCHER_FACTS,
    detect,
    find_reader,
)

ALL_READERS = (*READERS[:-2], *foreign.READERS, *READERS[-2:])

CONTENTS = {
    "saved-profile": b"\x89TTMEM\r\n\0\0",
    "ttnn-visualizer": b"SQLite format 3\x00",
    "ttnn-graph-capture": b'[{"node_type": "capture_start"}]',
    "ttrt-memory": b'{"0": {"debug_str": "x"}}',
    "tt-metal-memory-report": b"Program ID, Total Allocatable Size (B), Total Allocated (B)\n",
    "mlir-module": b"module @SyncTensorsGraph {\n",
    "junit-xml": b'<?xml version="1.0"?><testsuites><testsuite/></testsuites>',
    "sweep-json": b'[{"status": "pass", "op_name": "ttnn.add"}]',
    "sweep-csv": b"op_name,status\nttnn.add,pass\n",
    "pytest-log": b"===== test session starts =====\n",
    "profiler-csv": b"some line above\nOP CODE,DEVICE KERNEL DURATION [ns]\n",
    "watcher-log": b"Dump #1\nCore (x=1,y=1):    CWFW,CRBW,R,R,R rmsg:D0G|BNT smsg:GGGG k_ids:4|3|5\n",
    "log": b"CB 0 :: PS = 64, NP = 5\n",
}


@pytest.mark.parametrize(("kind", "content"), CONTENTS.items(), ids=list(CONTENTS))
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
def test_every_kind_is_known_by_its_content(tmp_path: Path, kind: str, content: bytes, pack: type[bytes]) -> None:
    path = tmp_path / "x"
    path.write_bytes(pack(content))
    reader = find_reader(path, ALL_READERS)
    assert reader is not None
    assert reader.kind == kind


@pytest.mark.parametrize("kept", [8, 10, 20])
def test_a_saved_profile_is_known_however_short_it_was_cut(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "x.ttmem"
    path.write_bytes((CONTENTS["saved-profile"][:8] + b"x" * 20)[:kept])
    reader = detect(path, PROFILE)
    assert reader is not None
    assert reader.kind == "saved-profile"


def test_the_list_is_complete() -> None:
    assert {reader.kind for reader in ALL_READERS} == {*CONTENTS, "tt-mlir-log"}
    assert all(reader.title and callable(reader.read) for reader in ALL_READERS)


def test_what_a_text_is_depends_on_what_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(CONTENTS["watcher-log"])
    asked = {gives: detect(path, gives) for gives in (PROFILE, WATCHER_FACTS, LOG_FACTS, PROFILER_FACTS)}
    assert {gives: reader.kind if reader else None for gives, reader in asked.items()} == {
        PROFILE: FALLBACK.kind,
        WATCHER_FACTS: "watcher-log",
        LOG_FACTS: "log",
        PROFILER_FACTS: None,
    }


def test_an_empty_folder_is_no_kind(tmp_path: Path) -> None:
    assert find_reader(tmp_path, ALL_READERS) is None


@given(st.binary(max_size=200))
def test_any_beginning_can_be_looked_at(content: bytes) -> None:
    for reader in ALL_READERS:
        assert isinstance(reader.sniff(Head(Path("x"), content)), bool)


def test_looking_at_a_log_loads_nothing_heavy(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"any text\n")
    program = (
        "import sys; from ttmem.readers.registry import READERS, detect\n"
        f"assert detect({str(path)!r}, 'profile') is READERS[-1]\n"
        f"assert detect({str(path)!r}, 'profiler facts', 'watcher facts', 'log facts').kind == 'log'\n"
        "print(sorted({'numpy', 'msgspec', 'zstandard', 'sqlite3', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# --- bytes --------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=300_000), st.booleans(), st.booleans())
def test_what_was_looked_at_is_not_lost(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, packed: bool, looks: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(b"y" + content if not packed else gzip.compress(b"y" + content))
    with OpenedSource(path) as opened:
        if looks:
            assert (b"y" + content).startswith(opened.head.content)
        assert opened.content() == b"y" + content


def test_a_cut_source_gives_what_it_holds_whether_or_not_it_was_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b"line\n" * 1000)[:-8])
    for looks in (False, True):
        with OpenedSource(path) as opened:
            if looks:
                assert opened.head.content.startswith(b"line\n")
            found = []
            with pytest.raises(TruncatedSourceError):
                found += opened.chunks()
        with OpenedSource(path) as opened, pytest.raises(BadInputError, match="cannot be read to its end"):
            list(opened.lines())


def test_standard_input_is_looked_at_once_it_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\r\none\r\ntwo")))
    assert Head.read("-") == Head(None)
    with OpenedSource("-") as opened:
        assert opened.head.content == b"\r\none\r\ntwo"
        assert list(opened.lines()) == ["", "one", "two"]
