# SPDX-License-Identifier: Apache-2.0
"""Lines of a log, and what launchers and CI put in front of them (log-formats 1.5)."""

import re

from ttmem.base.limits import LongLines

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


def rank_of(line: bytes) -> int:
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


def glued_views(line: bytes) -> list[bytes]:
    """The memory views that were written on one line, and what follows the last."""
    pieces, start = [], 0
    while (at := line.find(b"MemoryView{", start)) >= 0 and (end := line.find(b"}", at)) >= 0:
        pieces.append(line[start : end + 1])
        start = end + 1
    return [*pieces, line[start:]]


def glued_records(line: bytes) -> list[bytes]:
    """The records that two threads wrote on one line; a tag at its front holds for all of them."""
    starts = [found.start() for found in RECORD.finditer(line)]
    if len(starts) < 2:
        return []
    tag = MPI_TAG.match(line)
    records = [line[start:end] for start, end in zip([0, *starts[1:]], [*starts[1:], len(line)], strict=True)]
    return [
        record if i == 0 or not tag or MPI_TAG.match(record) else tag[0] + record for i, record in enumerate(records)
    ]
