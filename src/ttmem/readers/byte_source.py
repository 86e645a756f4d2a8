# SPDX-License-Identifier: Apache-2.0
"""Bytes of a source, whatever it is packed in: plain, gzip, zstd or standard input, in lines."""

from __future__ import annotations

import io
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from ttmem._errors import BadInputError
from ttmem.readers.runtime_log._packed import PackedReader, unpacker_for
from ttmem.readers.runtime_log._prefix import TIME_PREFIX

CHUNK_BYTES = 1 << 20

Progress = Callable[[int, int], None]
"""Called with (bytes read so far, bytes in all or 0 when unknown)."""


def open_bytes(source: str | Path) -> tuple[BinaryIO, int, str]:
    """The unpacked stream, the packed size in bytes (0 when unknown) and a name for messages."""
    if str(source) == "-":
        raw: BinaryIO = sys.stdin.buffer
        size, name = 0, "standard input"
    else:
        path = Path(source)
        name = str(source)
        try:
            if path.is_dir():
                raise BadInputError("is a folder, not a log", where=name, hint="name the log file inside it")
            raw = path.open("rb")
            size = path.stat().st_size
        except OSError as error:
            raise BadInputError(f"cannot be read: {error.strerror or error}", where=name) from error
    buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, raw))
    unpacker = unpacker_for(buffered.peek(4)[:4])
    if unpacker:
        return cast(BinaryIO, PackedReader(cast(BinaryIO, buffered), unpacker)), size, name
    return cast(BinaryIO, buffered), size, name


class LineSplitter:
    """Chunks -> lists of whole lines; what is left of a chunk waits for the next one."""

    def __init__(self) -> None:
        self._carry: list[bytes] = []
        self._strip_times: bool | None = None

    def split(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk."""
        if self._strip_times is not False:
            return self._split_cleaned(chunk)
        lines = chunk.split(b"\n")
        if len(lines) == 1:
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


def chunks(stream: BinaryIO, name: str, *, limit: int | None = None) -> Iterator[bytes]:
    """The stream in pieces; a packed stream that is cut gives what it holds, then says so."""
    left = limit
    while left is None or left > 0:
        try:
            chunk = stream.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left))
        except EOFError as error:
            raise TruncatedSourceError(name) from error
        except (OSError, zlib.error, ValueError) as error:
            raise TruncatedSourceError(name, str(error)) from error
        except Exception as error:  # zstandard raises its own type, which is not imported for other sources
            if type(error).__name__ != "ZstdError":
                raise
            raise TruncatedSourceError(name, str(error)) from error
        if not chunk:
            return
        if left is not None:
            left -= len(chunk)
        yield chunk


class TruncatedSourceError(Exception):
    """A packed source ended early or is damaged; what was unpacked before is good."""

    def __init__(self, name: str, reason: str = "it ends early") -> None:
        super().__init__(f"{name}: {reason}")
        self.reason = reason
