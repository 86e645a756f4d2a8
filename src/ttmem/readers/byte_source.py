# SPDX-License-Identifier: Apache-2.0
"""Bytes of a source, whatever it is packed in (plain, gzip, zstd, standard input), and how it begins."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

from ttmem.base.errors import BadInputError
from ttmem.base.limits import DOCUMENT_BYTES, DOCUMENT_VALUES, FACT_LINE_BYTES, LongLines
from ttmem.readers.unpacking import (
    PACKED_ENDINGS,
    PackedReader,
    bound_stream,
    find_unpacker,
    is_unpacking_error,
    name_unknown_packing,
)
from ttmem.readers.wrappings import Unwrapped

CHUNK_BYTES = 1 << 20
HEAD_BYTES = 1 << 16

Progress = Callable[[int, int], None]
"""Called with (bytes read, bytes in all or 0 when unknown)."""


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a source: all that a reader looks at to recognise its kind."""

    path: Path | None
    """None for standard input."""
    content: bytes = b""
    """The first 64 KiB or so, unpacked; empty for folders, and for standard input before it is opened."""
    is_folder: bool = False

    @classmethod
    def read(cls, source: str | Path) -> Head:
        """The beginning of a file or folder. Standard input can be read only once, so nothing is read of it here."""
        if str(source) == "-":
            return cls(None)
        if Path(source).is_dir():
            return cls(Path(source), is_folder=True)
        if _find_file_type(Path(source)) == stat.S_IFIFO:
            return cls(Path(source))
        with OpenedSource(source) as opened:
            return opened.head

    @property
    def unpacked_name(self) -> str:
        """The file's name without what it is packed in."""
        return strip_packing(self.path.name) if self.path else ""

    @property
    def is_json(self) -> bool:
        """True for JSON; a list must hold objects, because log lines begin with brackets too."""
        start = self.content[:4096].lstrip()
        return start[:1] == b"{" or (start[:1] == b"[" and start[1:].lstrip()[:1] in (b"{", b"]"))

    @property
    def is_text(self) -> bool:
        """True unless it is a folder, JSON, or binary as databases and saved profiles are."""
        is_binary = b"\0" in self.content or self.content.startswith(b"\x89")
        return not (self.is_folder or is_binary or self.is_json)

    @property
    def lines(self) -> list[str]:
        """The text as lines, the last one possibly cut."""
        return self.content.decode("utf-8", "replace").splitlines()


class OpenedSource:
    """The unpacked bytes of a source, from the start: what was looked at to know its kind is not lost.

    ``counted``: text with any of these is handed out as often as a packed source repeats it.
    """

    def __init__(self, source: str | Path, *, counted: tuple[bytes, ...] = ()) -> None:
        self._path = None if str(source) == "-" else Path(source)
        self.name = str(self._path or "standard input")
        raw = _open_file(self._path) if self._path else sys.stdin.buffer
        self.packed_bytes = os.fstat(raw.fileno()).st_size if self._path else 0
        """How much there is to read; 0 when that is not known."""
        buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, raw))
        magic = buffered.peek(4)[:4]
        if packing := name_unknown_packing(magic):
            raise BadInputError(f"is {packing}, which is not read", where=self.name, hint="unpack it first")
        unpacker = find_unpacker(magic)
        self._packed = PackedReader(cast(BinaryIO, buffered), unpacker, counted) if unpacker else None
        if self._packed is None and not _is_file(raw):
            self._packed = bound_stream(cast(BinaryIO, buffered), counted)
        self._stream = cast(BinaryIO, Unwrapped(cast(BinaryIO, self._packed or buffered)))
        self._may_be_packed_twice = unpacker is not None
        self._seen: list[bytes] = []
        self._damage: TruncatedSourceError | None = None
        self.left_out: tuple[str, ...] = ()
        """What ``lines`` did not hand out whole, once they are read."""

    def __enter__(self) -> OpenedSource:
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            self._stream.close()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on what a packed source left out, once it is read; empty for other sources."""
        return self._packed.remarks if self._packed else ()

    @property
    def unread_rest(self) -> tuple[str, ...]:
        """The remark that the end of the source was not read, if it was not."""
        return (self._packed.unread_rest,) if self._packed and self._packed.unread_rest else ()

    @property
    def head(self) -> Head:
        """The beginning of the source."""
        try:
            while sum(map(len, self._seen)) < HEAD_BYTES and (piece := next(self._pieces(HEAD_BYTES), b"")):
                self._seen.append(piece)
        except TruncatedSourceError as error:
            self._damage = error  # whoever reads on meets it there
        return Head(self._path, b"".join(self._seen))

    def chunks(self, progress: Progress | None = None) -> Iterator[bytes]:
        """Yield the source in pieces; raises ``TruncatedSourceError`` after the last good one."""
        packed = self._packed.fileobj if self._packed and self.packed_bytes else None
        seen, self._seen = self._seen, []
        done = 0
        for chunk in chain(seen, self._pieces()):
            done += len(chunk)
            yield chunk
            if progress is not None:
                progress(packed.tell() if packed else done, self.packed_bytes)

    def content(self) -> bytes:
        """Return the whole content, for kinds that are one document."""
        pieces, size = [], 0
        try:
            for piece in self.chunks():
                pieces.append(piece)
                size += len(piece)
                if size > DOCUMENT_BYTES:
                    raise BadInputError(
                        f"is larger than {DOCUMENT_BYTES >> 20} MiB: too much for a document that is read whole",
                        where=self.name,
                        hint="capture or dump a smaller part of the program",
                    )
            if self.remarks:
                raise BadInputError(f"is too much to read whole: {self.remarks[0]}", where=self.name)
            return b"".join(pieces)
        except TruncatedSourceError as error:
            hint = "make the file again"
            raise BadInputError(f"cannot be unpacked: {error.reason}", where=self.name, hint=hint) from error

    def json_content(self) -> bytes:
        """Return a JSON document; refuses one that would take more memory than any capture needs."""
        content = self.content()
        values = content.count(b",") + content.count(b"[") + content.count(b"{")
        if values > DOCUMENT_VALUES:
            raise BadInputError(
                f"holds more than {DOCUMENT_VALUES:,} values", where=self.name, hint="capture fewer operations at once"
            )
        return content

    def lines(self, progress: Progress | None = None, *, refuse_long: bool = False) -> Iterator[str]:
        """Yield lines of text, long ones cut; ``refuse_long`` stops at the first of these instead."""
        splitter = TextLines()
        try:
            for chunk in self.chunks(progress):
                yield from splitter.split(chunk)
                if refuse_long and splitter.long_lines.cut:
                    raise BadInputError(f"has a line of more than {FACT_LINE_BYTES >> 20} MiB", where=self.name)
        except TruncatedSourceError as error:
            raise BadInputError(f"cannot be read to its end: {error.reason}", where=self.name) from error
        yield from splitter.rest()
        self.left_out = (*splitter.long_lines.remarks, *self.remarks)

    def _pieces(self, limit: int = sys.maxsize) -> Iterator[bytes]:
        if self._damage is not None:
            raise self._damage
        for piece in chunks(self._stream, self.name, limit=limit):
            if self._may_be_packed_twice and (find_unpacker(piece[:4]) or name_unknown_packing(piece[:4])):
                raise BadInputError("is packed twice, which is not read", where=self.name, hint="unpack it once first")
            self._may_be_packed_twice = False
            yield piece


class TextLines:
    """Chunks -> whole lines of text; what is left of a chunk waits for the next one."""

    def __init__(self) -> None:
        self._left: list[bytes] = []
        self.long_lines = LongLines(FACT_LINE_BYTES)

    def split(self, chunk: bytes) -> list[str]:
        """The lines that end in this chunk."""
        *whole, left = self.long_lines.shorten(chunk).split(b"\n")
        if whole:
            whole[0] = b"".join((*self._left, whole[0]))
            self._left = []
        if left:
            self._left.append(left)  # a line of many MB comes in many chunks: join them once
        return [line.decode("utf-8", "replace").rstrip("\r") for line in whole]

    def rest(self) -> list[str]:
        """The last line when the source does not end in a line end."""
        return self.split(b"\n") if self._left else []


def strip_packing(name: str) -> str:
    """A file's name without what it is packed in."""
    for ending in PACKED_ENDINGS:
        name = name.removesuffix(ending)
    return name


def _find_file_type(path: Path) -> int:
    """``stat.S_IFREG``, ``stat.S_IFIFO``, ...; 0 where that cannot be seen."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except (OSError, ValueError):
        return 0


def _is_file(opened: BinaryIO) -> bool:
    """True when the source certainly has an end; bytes without a file descriptor have one too."""
    try:
        return stat.S_ISREG(os.fstat(opened.fileno()).st_mode)
    except (OSError, ValueError):
        return True


def _open_file(path: Path) -> BinaryIO:
    try:
        if path.is_dir():
            raise BadInputError("is a folder, not a log", where=str(path), hint="name the log file inside it")
        opened = path.open("rb")
        if _find_file_type(path) in (stat.S_IFCHR, stat.S_IFBLK) and not opened.isatty():
            opened.close()
            raise BadInputError("is a device of this machine, not a file", where=str(path), hint="name a log file")
        return opened
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}", where=str(path)) from error


def chunks(stream: BinaryIO, name: str, *, limit: int = sys.maxsize) -> Iterator[bytes]:
    """The stream in pieces; a packed stream that is cut gives what it holds, then says so."""
    while limit > 0:
        try:
            chunk = stream.read(min(CHUNK_BYTES, limit))
        except EOFError as error:
            raise TruncatedSourceError(name) from error
        except Exception as error:
            if not is_unpacking_error(error):
                raise
            raise TruncatedSourceError(name, str(error)) from error
        if not chunk:
            return
        limit -= len(chunk)
        yield chunk


class TruncatedSourceError(Exception):
    """A packed source ended early or is damaged; what was unpacked before is good."""

    def __init__(self, name: str, reason: str = "it ends early") -> None:
        super().__init__(f"{name}: {reason}")
        self.reason = reason
