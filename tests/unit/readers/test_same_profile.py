# SPDX-License-Identifier: Apache-2.0
"""However the bytes arrive (in pieces, in parts, packed, from standard input), the profile is the same."""

from __future__ import annotations

import gzip
import io
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.log_lines import profile_of_bytes
from support.same_profile import meaning, profile_in_chunks
from ttmem.profile.model import Profile
from ttmem.profile.profile_file import decode, encode
from ttmem.readers import read
from ttmem.readers.runtime_log import _lexer, _tokens
from ttmem.readers.runtime_log._parallel import lex_part, worth_splitting
from ttmem.readers.runtime_log._tokens import merge
from ttmem.readers.runtime_log.reader import build_profile
from unit.readers.some_logs import some_logs

LOGS = sorted(some_logs())
WHOLE = {name: meaning(profile_of_bytes(content)) for name, content in some_logs().items()}


def cut(content: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(content) + 1) for place in places}), len(content)]
    return [content[a:b] for a, b in pairwise(edges)]


@pytest.mark.parametrize("name", LOGS)
def test_the_whole_in_one_piece(name: str) -> None:
    assert meaning(profile_in_chunks([some_logs()[name]])) == WHOLE[name]


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("size", [7, 64, 1000])
def test_equal_pieces(name: str, size: int) -> None:
    content = some_logs()[name]
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    assert meaning(profile_in_chunks(pieces)) == WHOLE[name]


@examples(60)
@given(name=st.sampled_from(LOGS), places=st.lists(st.integers(0, 1 << 20), max_size=40))
def test_pieces_of_any_size(name: str, places: list[int]) -> None:
    assert meaning(profile_in_chunks(cut(some_logs()[name], places))) == WHOLE[name]


@examples(60)
@given(
    name=st.sampled_from(LOGS),
    moves=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 1 << 20), st.integers(1, 900)), max_size=30),
    size=st.integers(11, 3000),
)
def test_pieces_of_a_damaged_log(name: str, moves: list[tuple[int, int, int]], size: int) -> None:
    # GIVEN a log into which pieces of itself were pasted: records inside dumps, times inside records
    content = some_logs()[name]
    for source, target, length in moves:
        source, target = source % len(content), target % len(content)
        content = content[:target] + content[source : source + length] + content[target:]
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    assert meaning(profile_in_chunks(pieces)) == meaning(profile_in_chunks([content]))


def in_parts(path: Path, ranges: list[tuple[int, int]]) -> Profile:
    log = lex_part(path, *ranges[0])
    for start, end in ranges[1:]:
        log = merge(log, lex_part(path, start, end))
    return build_profile(log, name="run", where=str(path))


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("jobs", [2, 3, 7])
def test_parts_as_the_reader_cuts_them(name: str, jobs: int, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(some_logs()[name])
    ranges = worth_splitting(path, jobs)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == len(some_logs()[name])
    assert meaning(in_parts(path, ranges)) == WHOLE[name]


@examples(60)
@given(
    name=st.sampled_from([name for name in LOGS if name != "wrapped"]),  # parts begin with an operation, not inside one
    places=st.lists(st.integers(0, 1 << 20), min_size=1, max_size=6),
)
def test_parts_between_any_lines(name: str, places: list[int]) -> None:
    content = some_logs()[name]
    starts = {content.find(b"\n", place % len(content)) + 1 for place in places} - {0, len(content)}
    edges = [0, *sorted(starts), len(content)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.log"
        path.write_bytes(content)
        assert meaning(in_parts(path, list(pairwise(edges)))) == WHOLE[name]


def test_parts_in_processes_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(some_logs()["generated"])
    assert meaning(read(path, jobs=2)) == WHOLE["generated"]


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_packed(name: str, members: int, packing: str, tmp_path: Path) -> None:
    pack = gzip.compress if packing == "gz" else zstandard.compress
    content = some_logs()[name]
    third = len(content) // 3
    pieces = [content] if members == 1 else [content[:third], content[third : 2 * third], content[2 * third :]]
    path = tmp_path / f"run.log.{packing}"
    path.write_bytes(b"".join(map(pack, pieces)))
    profile = read(path)
    assert meaning(profile) == WHOLE[name]
    assert profile.name == "run"


def test_a_packed_file_may_have_any_name(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(gzip.compress(some_logs()["dos"]))
    assert meaning(read(path)) == WHOLE["dos"]


@pytest.mark.parametrize("packing", ["plain", "gz", "zst"])
def test_standard_input(packing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = some_logs()["hand-made"]
    packed = {"plain": content, "gz": gzip.compress(content), "zst": zstandard.compress(content)}[packing]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))
    profile = read("-")
    assert meaning(profile) == WHOLE["hand-made"]
    assert profile.name == "stdin"


@pytest.mark.parametrize("name", LOGS)
def test_forgetting_lines_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN tables so small that they start anew all the time
    monkeypatch.setattr(_lexer, "_KNOWN_LINES_BYTES", 3000)
    monkeypatch.setattr(_tokens, "_KNOWN_TEXTS", 3)
    assert meaning(profile_in_chunks(cut(some_logs()[name], [1000, 5000, 9000]))) == WHOLE[name]


@pytest.mark.parametrize("name", LOGS)
def test_saved_and_loaded(name: str) -> None:
    assert meaning(decode(encode(profile_of_bytes(some_logs()[name])))) == WHOLE[name]
