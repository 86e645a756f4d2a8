# SPDX-License-Identifier: Apache-2.0
"""Files are written whole or not at all, and nothing that is not a plain file is replaced."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from support.command_line import REAL_OOM, call
from ttmem.base import atomic_files, text_safety
from ttmem.base.errors import BadInputError
from ttmem.commands import output


def test_a_new_file_obeys_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        atomic_files.write_bytes(tmp_path / "new", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == ["new"]


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "old"
    target.write_bytes(b"old")
    target.chmod(0o604)
    atomic_files.write_bytes(target, b"new")
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o604


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "latest.json"
    link.symlink_to(tmp_path / "real" / "today.json")
    for content in (b"first", b"second"):
        atomic_files.write_bytes(link, content)
        assert link.is_symlink()
        assert (tmp_path / "real" / "today.json").read_bytes() == content


def test_a_device_is_written_to_not_replaced() -> None:
    before = Path(os.devnull).stat()
    atomic_files.write_bytes(Path(os.devnull), b"x")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    assert Path(os.devnull).stat().st_ino == before.st_ino


def test_standard_output_by_its_device_name() -> None:
    for target in ("/dev/stdout", "/dev/fd/1"):
        shown = call("profile", REAL_OOM, "--llm", "--no-store", "-q", "-o", target)
        assert (shown.code, shown.err) == (0, "")
        assert shown.out.startswith("# Memory Profile: real-oom\n")


def test_a_pipe_is_written_to_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    atomic_files.write_bytes(pipe, b"through")
    reader.join(timeout=60)
    assert received == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "kept"
    target.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(BadInputError, match="kept: cannot be written: No space left on device"):
        atomic_files.write_bytes(target, b"new")
    assert target.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == ["kept"]


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    target = tmp_path / "report"
    contents = [bytes([letter]) * 300_000 for letter in b"ab"]
    atomic_files.write_bytes(target, contents[0])
    done = threading.Event()

    def write() -> None:
        for step in range(100):
            atomic_files.write_bytes(target, contents[step % 2])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        assert target.read_bytes() in contents
    writer.join()


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127])
def test_the_longest_names_work(tmp_path: Path, name: str) -> None:
    atomic_files.write_bytes(tmp_path / name, b"x")
    assert (tmp_path / name).read_bytes() == b"x"


def test_places_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is a folder"):
        atomic_files.require_writable(tmp_path)
    with pytest.raises(BadInputError, match="no such folder"):
        atomic_files.require_writable(tmp_path / "missing" / "x")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "x")
    with pytest.raises(BadInputError, match="no such folder"):
        atomic_files.require_writable(tmp_path / "dangling")


class _Trickle:
    """A stream that takes three bytes at a time, as an unbuffered one may."""

    def __init__(self) -> None:
        self.content = b""

    def write(self, content: bytes) -> int:
        self.content += bytes(content[:3])
        return min(3, len(content))

    def flush(self) -> None:
        pass


def test_a_stream_that_takes_a_part_gets_the_rest_too() -> None:
    stream = _Trickle()
    output.write_fully(stream, b"0123456789")  # type: ignore[arg-type]
    assert stream.content == b"0123456789"


def test_json_text_is_ascii_and_strict() -> None:
    assert output.json_text({"name": "é😀", "n": 1}) == '{\n  "name": "\\u00e9\\ud83d\\ude00",\n  "n": 1\n}'
    assert output.json_text({"name": "é\udcff"}) == '{\n  "name": "\\u00e9?"\n}'
    assert output.json_text({"n": float("nan")}) == '{\n  "n": null\n}'  # not known: JSON has no such number


@pytest.mark.parametrize(
    ("variables", "terminal", "wanted"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colour(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], terminal: bool, wanted: bool) -> None:
    class Stream:
        def isatty(self) -> bool:
            return terminal

    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert output.color_wanted(Stream()) is wanted  # type: ignore[arg-type]


def test_a_text_is_the_same_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_files, "_PIECE", 3)
    for text in ("", "ab\r\ncd\r\n\r\r\nx\u202e\ud800\U0001f600\n", "\r\n" * 9, "a\r\n" * 9):
        atomic_files.write_text(tmp_path / "text", text)
        assert (tmp_path / "text").read_bytes() == text_safety.escape_control_characters(text).encode()
