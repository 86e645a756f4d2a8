# SPDX-License-Identifier: Apache-2.0
"""Logs that something wrapped or packed on their way: the profile is the plain log's, or the reason is named."""

from __future__ import annotations

import bz2
import gzip
import html
import json
import lzma
import os
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

import ttmem
from support.command_line import BLACKHOLE_OOM, REAL_OOM, call, command_line, environment
from support.log_lines import Log, profile_of_bytes
from support.profile_questions import names, states
from support.same_profile import meaning
from ttmem.analysis.failure import failures
from ttmem.readers.wrappings import find_unwrapper
from unit.readers.test_states import small_run

PLAIN = small_run(Log()).bytes()
COLOURED = small_run(Log(colours=True)).bytes()


def docker(content: bytes, most: int = 16 << 10) -> bytes:
    """What Docker's json-file driver writes: a line longer than 16 KiB takes several entries."""
    entries = []
    for line in content.decode().splitlines(keepends=True):
        pieces = (line[at : at + most] for at in range(0, len(line), most))
        entries += [{"log": piece, "stream": "stdout", "time": "2026-11-19T17:43:00Z"} for piece in pieces]
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries).encode()


def journald(content: bytes) -> bytes:
    """What ``journalctl -o json`` writes: a message with control characters is a list of bytes."""
    lines = []
    for number, line in enumerate(content.decode().splitlines()):
        message = list(line.encode()) if "\x1b" in line else line
        lines.append(json.dumps({"__CURSOR": f"s={number}", "_PID": "12", "PRIORITY": "6", "MESSAGE": message}) + "\n")
    return "".join(lines).encode()


def entries(text_key: str, before: dict[str, object], after: dict[str, object]) -> Callable[[bytes], bytes]:
    """JSON lines whose text is under a key, between others; with ``.`` it is nested."""

    def wrap(content: bytes) -> bytes:
        outer, _, inner = text_key.partition(".")
        texts = content.decode().splitlines()
        rows = [{**before, outer: {inner: text} if inner else text, **after} for text in texts]
        return "".join(json.dumps(row) + "\n" for row in rows).encode()

    return wrap


def message_first(content: bytes) -> bytes:
    """journald's entries in another order of keys, as ``jq`` and shippers write them."""
    rows = [json.loads(line) for line in journald(content).splitlines()]
    return "".join(json.dumps({"MESSAGE": row.pop("MESSAGE"), **row}) + "\n" for row in rows).encode()


def kubernetes(content: bytes, most: int = 16 << 10, between: str = "") -> bytes:
    """What a container runtime writes for Kubernetes (CRI): parts of a line have P, its last part F."""
    found = []
    for line in content.decode().splitlines():
        pieces = [line[at : at + most] for at in range(0, len(line), most)] or [""]
        for number, piece in enumerate(pieces, 1):
            found.append(f"2026-11-19T17:43:00.123456789Z stdout {'F' if number == len(pieces) else 'P'} {piece}\n")
            found += [between] if number < len(pieces) else []
    return "".join(found).encode()


WRAPPED: dict[str, Callable[[bytes], bytes]] = {
    "docker": docker,
    "journald": journald,
    "journald, the message first": message_first,
    "Elasticsearch": entries(
        "message", {"@timestamp": "2026-11-19T17:43:00Z"}, {"level": "info", "host": {"message": 1}}
    ),
    "Elasticsearch, the message first": entries("message", {}, {"level": "info"}),
    "a message alone": entries("message", {}, {}),
    "Google Cloud": entries("textPayload", {"insertId": "x"}, {"severity": "INFO"}),
    "Google Cloud, structured": entries("jsonPayload.message", {"insertId": "x"}, {"severity": "INFO"}),
    "Loki": entries("line", {"labels": {"line": "x"}}, {"timestamp": "1"}),
    "a logger": entries("msg", {"ts": 1.5, "level": "info"}, {}),
    "Fluent Bit": entries("log", {"date": 1.5, "stream": "stdout"}, {"kubernetes": {"log": "x"}}),
    "Fluent Bit with line ends": lambda content: entries("log", {"date": 1.5}, {})(content).replace(b'"}', b'\\n"}'),
    "Kubernetes": kubernetes,
    "UTF-32": lambda content: content.decode().encode("utf-32"),
    "UTF-32 without a mark": lambda content: content.decode().encode("utf-32-be"),
    "UTF-16 without a mark, big end first": lambda content: content.decode().encode("utf-16-be"),
    "UTF-16 of PowerShell": lambda content: content.decode().replace("\n", "\r\n").encode("utf-16"),
    "UTF-16, big end first": lambda content: b"\xfe\xff" + content.decode().encode("utf-16-be"),
    "UTF-16 without a mark": lambda content: content.decode().encode("utf-16-le"),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda content: lzma.compress(content, format=lzma.FORMAT_ALONE),
    "zlib": zlib.compress,
    "two bz2 streams": lambda content: bz2.compress(content[:900]) + bz2.compress(content[900:]),
    "docker in xz": lambda content: lzma.compress(docker(content)),
}


@pytest.mark.parametrize("content", [PLAIN, COLOURED], ids=["plain", "coloured"])
@pytest.mark.parametrize("wrapping", WRAPPED)
def test_the_profile_is_that_of_the_plain_log(wrapping: str, content: bytes) -> None:
    found, plain = (meaning(profile_of_bytes(one)) for one in (WRAPPED[wrapping](content), content))
    for one in (found, plain):
        source = one.pop("source")
        assert (source.lines, source.unrecognised_lines, source.warnings) == (26, 0, ())
    assert found == plain


def test_a_line_that_docker_cut_is_one_line() -> None:
    # GIVEN operation lines over several entries, so that entries and lines of text are not the same
    profile = profile_of_bytes(docker(PLAIN, most=150))
    assert names(profile) == names(profile_of_bytes(PLAIN))
    assert states(profile) == states(profile_of_bytes(PLAIN))
    # AND line numbers are those of the file
    assert profile.source.lines == docker(PLAIN, most=150).count(b"\n")


@pytest.mark.parametrize(
    "between", ["", "2026-11-19T17:43:00Z stderr F a warning\n", "2026-11-19T17:43:00Z stderr P a\n"]
)
@pytest.mark.parametrize("most", [1, 70, 150])
def test_a_line_that_kubernetes_cut_is_one_line(most: int, between: str) -> None:
    content = kubernetes(PLAIN, most, between)
    profile = profile_of_bytes(content)
    assert names(profile) == names(profile_of_bytes(PLAIN))
    assert states(profile) == states(profile_of_bytes(PLAIN))
    assert profile.source.unrecognised_lines == 0
    if not between:
        assert profile.source.lines == content.count(b"\n")


def test_json_that_is_no_log_stays_what_it_is() -> None:
    for text in (
        b'{"id": "1", "op": "add", "message": "x"}\n',
        b'{"nodes": [{"log": "x", "time": 1}]}',
        b'{"line": 3}',
    ):
        assert find_unwrapper(text) is None


@pytest.mark.parametrize("size", [7, 100, 5000])
@pytest.mark.parametrize("wrapping", ["docker", "journald", "UTF-16 of PowerShell"])
def test_a_log_that_grows_while_it_is_wrapped(wrapping: str, size: int, tmp_path: Path) -> None:
    from ttmem.readers import follow

    # GIVEN a log that is written in pieces, which end anywhere
    path, content = tmp_path / "run.log", WRAPPED[wrapping](PLAIN)
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    path.write_bytes(pieces[0] + pieces[1] if len(pieces) > 1 else content)
    done = threading.Event()

    def write() -> None:
        with path.open("ab") as file:
            file.write(b"".join(pieces[2:]))
        time.sleep(0.6)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    profile = follow(path, name="run", stop=done.is_set)
    writer.join()
    assert states(profile) == states(profile_of_bytes(PLAIN))


DRESSED: dict[str, Callable[[str], str]] = {
    "HTML": html.escape,
    "HTML with tags": lambda line: f'<span class="log">{html.escape(line)}</span>',
    "colours inside": lambda line: line.replace("ttnn.", "\x1b[01;31m\x1b[Kttnn\x1b[m\x1b[K."),
}


@pytest.mark.parametrize("dress", DRESSED)
def test_operations_in_html_and_colours(dress: str) -> None:
    lines = PLAIN.decode().splitlines()
    profile = profile_of_bytes("".join(DRESSED[dress](line) + "\n" for line in lines).encode())
    plain = meaning(profile_of_bytes(PLAIN))
    found = meaning(profile)
    assert found["timelines"] == plain["timelines"]
    assert profile.source.unrecognised_lines == 0


@pytest.mark.parametrize("wrapping", WRAPPED)
def test_failures_are_explained_in_any_wrapping(wrapping: str, tmp_path: Path) -> None:
    # GIVEN a real failure
    path = tmp_path / "failed.log"
    path.write_bytes(WRAPPED[wrapping](REAL_OOM.read_bytes().decode("utf-8", "replace").encode()))
    (plain, *_) = ttmem.explain(REAL_OOM).to_json()
    (found, *_) = ttmem.explain(path).to_json()
    assert (found["class"], found["numbers"]) == (plain["class"], plain["numbers"])
    assert [one.failure_class for one in failures(ttmem.read(path))][:1] == [plain["class"]]


@pytest.mark.parametrize(
    ("magic", "what"),
    [
        (b"PK\x03\x04", "ZIP"),
        (b"\x04\x22\x4d\x18", "LZ4"),
        (b"7z\xbc\xaf\x27\x1c", "7z"),
        (b"\x1f\x9d\x90", "compress (.Z)"),
    ],
)
def test_other_packings_are_named(magic: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "log.packed"
    path.write_bytes(magic + bytes(range(256)))
    for verb in ("profile", "check", "explain"):
        ran = call(verb, path)
        assert (ran.code, ran.out) == (2, "")
        assert what in ran.err
        assert "unpack it first" in ran.err


@pytest.mark.parametrize("outer", [gzip.compress, lzma.compress])
@pytest.mark.parametrize("inner", [gzip.compress, bz2.compress, lambda content: b"PK\x03\x04" + content])
def test_a_log_that_was_packed_twice_is_named(
    outer: Callable[[bytes], bytes], inner: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(outer(inner(PLAIN)))
    for verb in ("profile", "check", "explain"):
        ran = call(verb, path)
        assert (ran.code, ran.out) == (2, "")
        assert "is packed twice" in ran.err


@pytest.mark.parametrize("packed", [bz2.compress, lzma.compress], ids=["bz2", "xz"])
def test_a_packed_log_that_is_cut_decides_no_gate(packed: Callable[[bytes], bytes], tmp_path: Path) -> None:
    # GIVEN a log that does not compress well, cut in the middle
    lines = b"".join(b"%s\n" % os.urandom(60).hex().encode() for _ in range(40_000))
    content = packed(PLAIN + lines)
    path = tmp_path / "run.log"
    path.write_bytes(content[: len(content) // 2])
    assert states(ttmem.read(path)) == states(profile_of_bytes(PLAIN))
    ran = call("check", path)
    assert (ran.code, ran.out) == (2, "")
    assert "damaged" in ran.err


@pytest.mark.parametrize("verb", [["profile"], ["check"], ["explain"], ["cb", "profile"], ["export", "--to", "csv"]])
@pytest.mark.parametrize("device", ["/dev/full", "/dev/zero"])
def test_a_device_is_no_source(verb: list[str], device: str, tmp_path: Path) -> None:
    more = ["-o", tmp_path / "out"] if verb[0] == "export" else []
    ran = call(*verb, device, *more, timeout=30)
    assert (ran.code, ran.out) == (2, "")
    assert "is a device of this machine, not a file" in ran.err


@pytest.mark.parametrize("verb", [["profile", "-", "--no-store"], ["check", "-"], ["explain", "-"]])
@pytest.mark.parametrize("endless", [r"b'\0'", r"b'a line\n'"], ids=["zeros", "lines"])
def test_a_stream_without_an_end_is_left_at_the_limit(verb: list[str], endless: str) -> None:
    writer = (
        f"import os\ntext = {endless} * 32768\ntry:\n    while True: os.write(1, text)\nexcept BrokenPipeError: pass"
    )
    with subprocess.Popen([sys.executable, "-c", writer], stdout=subprocess.PIPE) as source:
        ran = subprocess.run(
            command_line(*verb), stdin=source.stdout, capture_output=True, timeout=100, check=False, env=environment()
        )
        assert source.stdout is not None
        source.stdout.close()
        source.wait(timeout=20)
    assert ran.returncode in (0, 2)
    assert b"internal error" not in ran.stderr
    assert len(ran.stderr.splitlines()) <= 6


def test_a_pipe_is_read_whole(tmp_path: Path) -> None:
    # GIVEN a log in a named pipe and one on standard input
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for wrapped in (PLAIN, docker(PLAIN), bz2.compress(PLAIN)):
        writer = threading.Thread(target=pipe.write_bytes, args=(wrapped,))
        writer.start()
        ran = call("profile", pipe, "--no-store", "--json", timeout=60)
        writer.join()
        document = json.loads(ran.out)
        assert document["operations"]["executed"] == 4
        assert document["source"]["warnings"] == []


@pytest.mark.parametrize("alive", [[], ["--alive"]], ids=["default", "alive"])
def test_explain_reads_a_pipe_once(alive: list[str], tmp_path: Path) -> None:
    # GIVEN a runtime log that ends in a failure, in a named pipe
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    log = gzip.decompress(BLACKHOLE_OOM.read_bytes())
    writer = threading.Thread(target=pipe.write_bytes, args=(log,), daemon=True)
    writer.start()
    ran = call("explain", pipe, *alive, "--json", timeout=60)
    writer.join(timeout=20)
    # THEN it is explained as standard input is, and a second look that was asked for is reported as missing
    from_stdin = call("explain", "-", *alive, "--json", input=log.decode(), timeout=60)
    assert (ran.code, from_stdin.code) == (0, 0)
    assert json.loads(ran.out) == json.loads(from_stdin.out)
    assert json.loads(ran.out)[0]["class"] == "oom/too-big"
    assert ("a pipe has only one" in ran.err) == bool(alive)
