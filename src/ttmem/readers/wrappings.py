# SPDX-License-Identifier: Apache-2.0
"""Plain lines from text that something wrapped on its way to a file, and the prefixes of launchers and CI.

Wrapped text is UTF-16 or UTF-32, JSON lines (Docker, journald, Fluent Bit, Elasticsearch, Loki, Google Cloud, loggers
of programs) or lines of Kubernetes (CRI). Line numbers stay those of the file if each entry holds one line of text.
"""

import codecs
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, Protocol

from ttmem.base.limits import LINE_BYTES, LongLines

_UTF = (
    (codecs.BOM_UTF32_LE, "utf-32-le", re.compile(rb"(?:[\t\r\n\x1b -~]\x00\x00\x00){8}")),
    (codecs.BOM_UTF32_BE, "utf-32-be", re.compile(rb"(?:\x00\x00\x00[\t\r\n\x1b -~]){8}")),
    (codecs.BOM_UTF16_LE, "utf-16-le", re.compile(rb"(?:[\t\r\n\x1b -~]\x00){8}")),
    (codecs.BOM_UTF16_BE, "utf-16-be", re.compile(rb"(?:\x00[\t\r\n\x1b -~]){8}")),
)
"""Mark, encoding, and text without the mark."""
_TEXT_KEYS = ("log", "MESSAGE", "message", "textPayload", "jsonPayload", "line", "msg")
"""The keys of an entry's text, in the order in which they are looked for."""
_SIGNS = {
    *("@timestamp", "timestamp", "time", "ts", "asctime", "date", "level", "levelname", "severity", "logger"),
    *("stream", "labels", "kubernetes"),
}
"""Keys that entries of a log have and other JSON documents with a text have not."""
_RECORD = re.compile(rb"(?:Always|Runtime)[^|\n]{0,80}\|[^|\n]{0,80}(?:TRACE|DEBUG|INFO|WARNING|ERROR|FATAL)")
_JSON_TOKEN = re.compile(rb'"((?:[^"\\\n]|\\.){0,20000})"(\s{0,9}:)?|[\[\]{}]')
_KUBERNETES = re.compile(
    rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,12})?(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([PF])(?::\w{1,9})* ?"
)
SNIFFED_BYTES = 1 << 16


class Unwrapper(Protocol):
    """Makes plain text of the bytes as they come."""

    def take(self, piece: bytes) -> bytes: ...
    def rest(self) -> bytes: ...


class Unwrapped:
    """A stream's bytes as plain text; what is not wrapped comes through as it is."""

    def __init__(self, stream: BinaryIO) -> None:
        self.inner = stream
        self._unwrapper: Unwrapper | None = None
        self._is_new = True

    def read(self, size: int = -1, /) -> bytes:
        """The next piece, empty at the end."""
        while piece := self.inner.read(size):
            if self._is_new:
                self._is_new = False
                self._unwrapper = find_unwrapper(piece)
            if self._unwrapper is None:
                return piece
            if text := self._unwrapper.take(piece):
                return text
        left = self._unwrapper.rest() if self._unwrapper else b""
        self._unwrapper = None
        return left

    def close(self) -> None:
        self.inner.close()


def find_unwrapper(head: bytes) -> Unwrapper | None:
    """Return the unwrapper for a source with this beginning; None where none is needed."""
    for mark, encoding, text in _UTF:
        if text.match(head) or (head.startswith(mark) and b"\0" in head[2:64]):
            return _Decoded(encoding)
    first = head[:SNIFFED_BYTES].lstrip().partition(b"\n")[0]
    if _KUBERNETES.match(first):
        return _KubernetesLines()
    keys = set(_read_keys(first)) if first.startswith(b"{") else set()
    for key in _TEXT_KEYS:
        if key in keys:
            is_log = keys & _SIGNS or any(map(_is_journald, keys)) or key == "log" or _RECORD.search(head)
            return _JsonLines(key, has_line_ends=_has_line_ends(head, first)) if is_log else None
    return None


def _read_keys(line: bytes) -> Iterator[str]:
    """The keys of a JSON object, as far as its text goes; not those of the values in it."""
    depth = 0
    for token in _JSON_TOKEN.finditer(line):
        if token[1] is not None:
            if depth == 1 and token[2]:
                yield token[1].decode("utf-8", "replace")
        else:
            depth += 1 if token[0] in (b"{", b"[") else -1


def _is_journald(key: str) -> bool:
    return key.startswith("_") and key.strip("_")[:1].isupper()


def _has_line_ends(head: bytes, first: bytes) -> bool:
    """True when texts under ``log`` end their lines themselves, as Docker's do: one without an end continues below."""
    return bool(re.match(rb'\{\s*"log"', first) or re.search(rb'"log"\s*:\s*"(?:[^"\\\n]|\\.){0,20000}\\n"', head))


class _Decoded:
    """UTF-16 or UTF-32 as UTF-8."""

    def __init__(self, encoding: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def take(self, piece: bytes) -> bytes:
        return self._decoder.decode(piece).lstrip("\ufeff").encode("utf-8", "replace")

    def rest(self) -> bytes:
        return self._decoder.decode(b"", True).encode("utf-8", "replace")


class _WrappedLine(NamedTuple):
    """The text of one line of the file."""

    text: bytes
    is_whole: bool = True
    """Its text does not go on in a later entry."""
    stream: bytes = b""


class _Lines(ABC):
    """Lines of a file with one log entry each; other lines are kept as they are."""

    def __init__(self) -> None:
        self._left: list[bytes] = []
        self._left_bytes = 0
        self._begun: dict[bytes, list[bytes]] = {}
        """By stream the texts that go on in a later entry."""
        self._begun_bytes = self._begun_entries = 0

    def take(self, piece: bytes) -> bytes:
        *whole, left = piece.split(b"\n")
        if whole:
            whole[0] = b"".join((*self._left, whole[0]))
            self._left, self._left_bytes = [], 0
        if left and self._left_bytes <= LINE_BYTES:
            self._left.append(left)
            self._left_bytes += len(left)
        return b"".join(map(self._plain, whole))

    def rest(self) -> bytes:
        last = self._plain(b"".join(self._left)) if self._left else b""
        return last + b"".join(b"".join(texts) + b"\n" for texts in self._begun.values())

    @abstractmethod
    def _entry(self, line: bytes) -> _WrappedLine | None:
        """Decode a line of the file; None for one that is no entry."""

    def _plain(self, line: bytes) -> bytes:
        entry = (self._entry(line) if len(line) <= LINE_BYTES else None) or _WrappedLine(line)
        if not entry.is_whole:
            self._begun_entries += 1
            if self._begun_bytes <= LINE_BYTES:
                self._begun.setdefault(entry.stream, []).append(entry.text)
                self._begun_bytes += len(entry.text)
            return b""
        text = b"".join((*self._begun.pop(entry.stream, ()), entry.text, b"\n"))
        if self._begun:
            return text
        # The entries that a line was cut into are lines of the file: they are counted below it.
        skipped, self._begun_entries, self._begun_bytes = self._begun_entries, 0, 0
        return text + b"\n" * skipped


class _KubernetesLines(_Lines):
    """``TIME stdout F text``; ``P`` marks a part of a line, ``F`` the last one."""

    def _entry(self, line: bytes) -> _WrappedLine | None:
        found = _KUBERNETES.match(line)
        return _WrappedLine(line[found.end() :], found[2] == b"F", found[1]) if found else None


class _JsonLines(_Lines):
    """Lines with a JSON object each, one value of which is the text."""

    def __init__(self, key: str, *, has_line_ends: bool) -> None:
        super().__init__()
        self._key = key
        self._has_line_ends = key == "log" and has_line_ends

    def _entry(self, line: bytes) -> _WrappedLine | None:
        if line.lstrip()[:1] != b"{":
            return None
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            return None
        text = _text_in(entry.get(self._key)) if isinstance(entry, dict) else None
        if text is None:
            return None
        is_whole = text.endswith("\n") or not self._has_line_ends
        return _WrappedLine(text.removesuffix("\n").encode("utf-8", "replace"), is_whole)


def _text_in(value: Any) -> str | None:
    """A text; journald writes one with control characters, such as colours, as a list of bytes."""
    if isinstance(value, dict):
        value = next((value[key] for key in ("message", "msg", "log") if key in value), None)
    if isinstance(value, list):
        try:
            return bytes(value).decode("utf-8", "replace")
        except (TypeError, ValueError):
            return None
    return value if isinstance(value, str) else None


MPI_TAG = re.compile(rb"\[\d+,(\d{1,9})\]<std(?:out|err)>:")
"""Open MPI's --tag-output; the second number is the rank."""
TIME_PREFIX = re.compile(rb"(?m)^(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,12})?Z )+")
"""GitHub Actions and ``docker logs -t`` (or both) put a time in front of every line; it would make every line new."""
RECORD = re.compile(
    rb"(?:\[\d{1,9},\d{1,9}\]<std(?:out|err)>:)?(?:\x1b\[32m)? {0,40}(?:Always|Runtime\w{1,40})(?:\x1b\[0m)? \|"
    rb"(?:\x1b\[[0-9;]{0,20}m){0,4} {1,20}(?:TRACE|DEBUG|INFO|WARNING|ERROR|FATAL)(?:\x1b\[0m)? {0,20}\| "
)
"""Where a record of the runtime's logger begins (log-formats 1.5); bounded, because it is looked for everywhere."""
TORN = re.compile(
    rb"(?:DEBUG|INFO)(?:\x1b\[0m)? {0,20}\| "
    rb"(?:Executing op|Starting executio|Finished executio|Device (?:memory st|(?:DRAM|L1|L1_SMALL|TRACE) mem))"
)
"""A record that begins like one of ours; asked only of lines that could not be read as one."""
PREFIX_BYTES = 200
"""Where a record's text begins at the latest in an ordinary line; only odd lines are searched further."""
_REPEATS_READ = 1_000
"""Copies of a line that are read before the rest is counted: more than belong to any failure above them."""


def read_rank(line: bytes) -> int:
    """The MPI rank that wrote a line, -1 when it does not say."""
    if line.find(b"]<std", 0, PREFIX_BYTES) < 0:
        return -1
    found = MPI_TAG.search(line)
    return int(found[1]) if found else -1


def split_repeats(chunk: bytes) -> tuple[bytes, bytes, int, bytes]:
    """A chunk of one line over and over -> some of it, the line, how often it comes after that, and what is left.

    A small packed file may hold a GB of blank lines. To see that costs a comparison; line by line, it takes minutes.
    """
    start = chunk.find(b"\n") + 1
    period = chunk.find(b"\n", start) + 1 - start
    count = (len(chunk) - start) // period - _REPEATS_READ if start and period > 0 else 0
    if count <= 0 or not chunk.startswith(chunk[start : start + period], start + period):
        return chunk, b"", 0, b""
    if chunk[start + period :] != chunk[start:-period]:
        return chunk, b"", 0, b""
    first = start + _REPEATS_READ * period
    return chunk[:first], chunk[start : start + period - 1], count, chunk[first + count * period :]


class LineSplitter:
    """Chunks -> lists of whole lines; what is left of a chunk waits for the next one."""

    def __init__(self) -> None:
        self._carry: list[bytes] = []
        self.long_lines = LongLines()
        self._strip_times: bool | None = None

    def split(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk."""
        chunk = self.long_lines.shorten(chunk)
        if self._strip_times is not False:
            return self._split_cleaned(chunk)
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            if chunk:
                self._carry.append(chunk)  # constants print as lines of many MB: collect the pieces, join once
            return []
        if self._carry:
            lines[0] = b"".join((*self._carry, lines[0]))
        last = lines.pop()
        self._carry = [last] if last else []
        return lines

    def _split_cleaned(self, chunk: bytes) -> list[bytes]:
        at = chunk.rfind(b"\n")
        if at < 0:
            if chunk:
                self._carry.append(chunk)
            return []
        whole = b"".join((*self._carry, chunk[:at]))
        self._carry = [chunk[at + 1 :]] if at + 1 < len(chunk) else []
        return self._clean(whole).split(b"\n")

    def rest(self) -> list[bytes]:
        """The last line when the source does not end in a line end."""
        tail = b"".join(self._carry)
        self._carry = []
        return [self._clean(tail)] if tail else []

    def _clean(self, text: bytes) -> bytes:
        if self._strip_times is None:
            head = text[:65536]
            self._strip_times = len(TIME_PREFIX.findall(head)) * 2 > head.count(b"\n") + 1
        return TIME_PREFIX.sub(b"", text) if self._strip_times else text


def split_glued_views(line: bytes) -> list[bytes]:
    """The memory views that were written on one line, and what follows the last."""
    pieces, start = [], 0
    while (at := line.find(b"MemoryView{", start)) >= 0 and (end := line.find(b"}", at)) >= 0:
        pieces.append(line[start : end + 1])
        start = end + 1
    return [*pieces, line[start:]]


def split_glued_records(line: bytes) -> list[bytes]:
    """The records that two threads wrote on one line; a tag at its front holds for all of them."""
    starts = [found.start() for found in RECORD.finditer(line)]
    if len(starts) < 2:
        return []
    tag = MPI_TAG.match(line)
    records = [line[start:end] for start, end in zip([0, *starts[1:]], [*starts[1:], len(line)], strict=True)]
    return [
        record if i == 0 or not tag or MPI_TAG.match(record) else tag[0] + record for i, record in enumerate(records)
    ]
