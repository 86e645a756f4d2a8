# SPDX-License-Identifier: Apache-2.0
"""Bytes of a source, whatever it is packed in (plain, gzip, zstd, standard input), and how it begins."""

from __future__ import annotations

import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from ttmem._errors import BadInputError
from ttmem._limits import (
    DOCUMENT_BYTES,
    DOCUMENT_VALUES,
    FACT_LINE_BYTES,
    REPEATED_BYTES,
    REPEATED_COST,
    UNPACKED_FREE_BYTES,
    UNPACKED_LINE_BYTES,
    UNPACKED_PIECE_BYTES,
    UNPACKED_RATIO,
    UNPACKED_WHOLE_BYTES,
    LongLines,
)

PACKED_MAGIC = _GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_PACKED_BYTES = 32 << 10
"""Read at once; text logs unpack to some 30 times as much."""
_ZSTD_STEP_BYTES = 1 << 10
"""Handed to zstd at once, because it cannot be told where to stop: four bytes may unpack to 128 KiB, this to 32 MiB."""

CHUNK_BYTES = 1 << 20
HEAD_BYTES = 1 << 16

Progress = Callable[[int, int], None]
"""Called with (bytes read so far, bytes in all or 0 when unknown)."""


@dataclass(frozen=True, slots=True)
class Head:
    """How a source begins: all that a reader looks at to know its own kind."""

    path: Path | None
    """None for standard input."""
    content: bytes = b""
    """The first 64 KiB or so, unpacked; empty for folders, and for standard input before it is opened."""
    is_folder: bool = False

    @classmethod
    def of(cls, source: str | Path) -> Head:
        """The beginning of a file or folder. Standard input can be read only once, so nothing is read of it here."""
        if str(source) == "-":
            return cls(None)
        if Path(source).is_dir():
            return cls(Path(source), is_folder=True)
        with OpenedSource(source) as opened:
            return opened.head

    @property
    def unpacked_name(self) -> str:
        """The file's name without what it is packed in."""
        return self.path.name.removesuffix(".gz").removesuffix(".zst") if self.path else ""

    @property
    def is_json(self) -> bool:
        """Whether it begins like a JSON document; a list of objects, because log lines begin with brackets too."""
        start = self.content[:4096].lstrip()
        return start[:1] == b"{" or (start[:1] == b"[" and start[1:].lstrip()[:1] in (b"{", b"]"))

    @property
    def is_text(self) -> bool:
        """Neither a folder, nor JSON, nor binary as databases and saved profiles are, however short they were cut."""
        is_binary = b"\0" in self.content or self.content.startswith(b"\x89")
        return not (self.is_folder or is_binary or self.is_json)

    @property
    def lines(self) -> list[str]:
        """As text, the last one perhaps cut."""
        return self.content.decode("utf-8", "replace").splitlines()


class OpenedSource:
    """The unpacked bytes of a source, from the start: what was looked at to know its kind is not lost.

    ``counted``: text with any of these is handed out as often as a packed source repeats it.
    """

    def __init__(self, source: str | Path, *, counted: tuple[bytes, ...] = ()) -> None:
        self._path = None if str(source) == "-" else Path(source)
        self.name = str(self._path or "standard input")
        raw = _opened(self._path) if self._path else sys.stdin.buffer
        self.packed_bytes = os.fstat(raw.fileno()).st_size if self._path else 0
        """How much there is to read; 0 when that is not known."""
        buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, raw))
        unpacker = unpacker_for(buffered.peek(4)[:4])
        self._stream = cast(
            BinaryIO, PackedReader(cast(BinaryIO, buffered), unpacker, counted) if unpacker else buffered
        )
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
        """What of a packed source was not handed out at all, once it is read; none of any other."""
        return self._stream.remarks if isinstance(self._stream, PackedReader) else ()

    @property
    def head(self) -> Head:
        """How it begins."""
        try:
            while sum(map(len, self._seen)) < HEAD_BYTES and (piece := next(self._pieces(HEAD_BYTES), b"")):
                self._seen.append(piece)
        except TruncatedSourceError as error:
            self._damage = error  # whoever reads on meets it there
        return Head(self._path, b"".join(self._seen))

    def chunks(self, progress: Progress | None = None) -> Iterator[bytes]:
        """All of it in pieces; raises ``TruncatedSourceError`` after the last good one."""
        packed = getattr(self._stream, "fileobj", None)
        seen, self._seen = self._seen, []
        done = 0
        for chunk in chain(seen, self._pieces()):
            done += len(chunk)
            yield chunk
            if progress is not None:
                progress(packed.tell() if packed else done, self.packed_bytes)

    def content(self) -> bytes:
        """All of it at once, for kinds that are one document."""
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
        """All of a JSON document, unless reading it would take more memory than any capture needs."""
        content = self.content()
        values = content.count(b",") + content.count(b"[") + content.count(b"{")
        if values > DOCUMENT_VALUES:
            raise BadInputError(
                f"holds more than {DOCUMENT_VALUES:,} values", where=self.name, hint="capture fewer operations at once"
            )
        return content

    def lines(self, progress: Progress | None = None) -> Iterator[str]:
        """Lines of text."""
        splitter = TextLines()
        try:
            for chunk in self.chunks(progress):
                yield from splitter.split(chunk)
        except TruncatedSourceError as error:
            raise BadInputError(f"cannot be read to its end: {error.reason}", where=self.name) from error
        yield from splitter.rest()
        self.left_out = (*splitter.long_lines.remarks, *self.remarks)

    def _pieces(self, limit: int = sys.maxsize) -> Iterator[bytes]:
        if self._damage is not None:
            raise self._damage
        yield from chunks(self._stream, self.name, limit=limit)


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


def _opened(path: Path) -> BinaryIO:
    try:
        if path.is_dir():
            raise BadInputError("is a folder, not a log", where=str(path), hint="name the log file inside it")
        return path.open("rb")
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}", where=str(path)) from error


def chunks(stream: BinaryIO, name: str, *, limit: int = sys.maxsize) -> Iterator[bytes]:
    """The stream in pieces; a packed stream that is cut gives what it holds, then says so."""
    while limit > 0:
        try:
            chunk = stream.read(min(CHUNK_BYTES, limit))
        except EOFError as error:
            raise TruncatedSourceError(name) from error
        except Exception as error:  # zstandard raises its own type, which is not imported for other sources
            if not isinstance(error, OSError | zlib.error | ValueError) and type(error).__name__ != "ZstdError":
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


class _Unpacker(Protocol):
    """One gzip member or zstd frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _ZstdFrame:
    """A zstd frame with the interface of ``zlib``: a call may stop before its input is used up."""

    def __init__(self) -> None:
        import zstandard

        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self.unconsumed_tail = b""

    @property
    def eof(self) -> bool:
        return self._frame.eof

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data + self.unconsumed_tail

    def decompress(self, data: bytes, _max_length: int, /) -> bytes:
        self.unconsumed_tail = data[_ZSTD_STEP_BYTES:]
        return self._frame.decompress(data[:_ZSTD_STEP_BYTES])


def unpacker_for(magic: bytes) -> Callable[[], _Unpacker] | None:
    """What unpacks a file that begins with these bytes, None when it is not packed."""
    if magic.startswith(_GZIP_MAGIC):
        return lambda: zlib.decompressobj(wbits=31)
    return _ZstdFrame if magic.startswith(_ZSTD_MAGIC) else None


def _period_of(piece: bytes) -> int:
    """How long a text is that this is nothing but repetitions of; 0 when it is no such thing."""
    at = piece.find(piece[:REPEATED_BYTES], 1, 2 * REPEATED_BYTES)  # the first one, if there is a shorter one too
    return at if at > 0 and piece[at:] == piece[:-at] else 0


class PackedReader:
    """The unpacked bytes; raises EOFError at the end of a file that stops inside a member.

    The standard readers throw away what they had unpacked when a file turns out to be cut (gzip), or do not notice
    (zstd). A log of a killed job is cut more often than not, so here everything before the cut is handed out first.
    However well a file was packed, it is unpacked in pieces of a bounded size, what repeats itself without end is
    handed out twice, and there is an end to it; ``remarks`` name what was left out. So whoever reads, line by line or
    not, needs a bounded time, and no reader has to know of bombs.
    """

    def __init__(self, fileobj: BinaryIO, unpacker: Callable[[], _Unpacker], counted: tuple[bytes, ...] = ()) -> None:
        self.fileobj = fileobj
        self._counted = counted
        self._new_unpacker = unpacker
        self._unpacker: _Unpacker | None = None
        self._packed = b""
        self._damage: Exception | None = None
        self._read_bytes = self._unpacked_bytes = self._cost_bytes = 0
        self._repeated_bytes = self._repeated_lines = 0
        self._ready, self._given = b"", 0
        self._is_over = False

    def read(self, _size: int = -1, /) -> bytes:
        """The next piece, empty at the end."""
        if self._is_over:
            return b""
        whole = self._next()
        piece = self._without_repeats(whole) if self._cost_bytes > UNPACKED_WHOLE_BYTES else whole
        self._cost_bytes += max(len(piece), UNPACKED_LINE_BYTES * piece.count(b"\n"), len(whole) // REPEATED_COST)
        self._is_over = self._cost_bytes > max(UNPACKED_FREE_BYTES, UNPACKED_RATIO * self._read_bytes)
        return piece

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was left out, none when nothing was."""
        said = []
        if self._repeated_bytes:
            said.append(
                f"{self._repeated_bytes >> 20:,} MiB ({self._repeated_lines:,} lines) that repeat what stands before "
                "them over and over were left out; line numbers do not count them"
            )
        if self._is_over:
            said.append(
                f"what lies beyond {self._unpacked_bytes >> 20:,} MiB was left out: no more is unpacked of a file of "
                "this size and such lines"
            )
        return tuple(said)

    def _without_repeats(self, piece: bytes) -> bytes:
        """Two times and a bit of what a piece repeats: a multiple of it is taken out, so lines stay whole."""
        period = _period_of(piece)
        times = len(piece) // period - 2 if period else 0
        if times <= 0 or any(mark in piece[: 2 * period] for mark in self._counted):
            return piece
        kept = piece[: len(piece) - times * period]
        self._repeated_bytes += len(piece) - len(kept)
        self._repeated_lines += times * piece.count(b"\n", 0, period)
        return kept

    def _next(self) -> bytes:
        """The next piece: zstd may have unpacked far more than that at once."""
        if self._given >= len(self._ready):
            self._ready, self._given = self._unpacked(), 0
        start, self._given = self._given, self._given + UNPACKED_PIECE_BYTES
        if len(self._ready) - self._given < UNPACKED_PIECE_BYTES:
            self._given = len(self._ready)
        return self._ready[start : self._given] if start or self._given < len(self._ready) else self._ready

    def _unpacked(self) -> bytes:
        if self._damage is not None:
            raise self._damage
        pieces: list[bytes] = []
        ready = 0
        while ready < UNPACKED_PIECE_BYTES and (self._packed or self._more()):
            try:
                pieces.append(self._step())
            except Exception as error:
                self._damage = error  # whatever its type: what was unpacked before is handed out first
                break
            ready += len(pieces[-1])
        self._unpacked_bytes += ready
        if self._damage is None and not ready and self._unpacker is not None:
            self._damage = EOFError()
            pieces = [self._unpacker.decompress(b"", UNPACKED_PIECE_BYTES)]
        if self._damage is not None and not any(pieces):
            raise self._damage
        return b"".join(pieces)

    def _more(self) -> bool:
        self._packed = self.fileobj.read(_PACKED_BYTES)
        self._read_bytes += len(self._packed)
        return bool(self._packed)

    def _step(self) -> bytes:
        """What some of the packed bytes hold; files may consist of several members, and tapes pad them with zeros."""
        if self._unpacker is None:
            self._packed = self._packed.lstrip(b"\0")
            if not self._packed:
                return b""
            self._unpacker = self._new_unpacker()
        piece = self._unpacker.decompress(self._packed, UNPACKED_PIECE_BYTES)
        if self._unpacker.eof:
            self._packed, self._unpacker = self._unpacker.unused_data, None
        else:
            self._packed = self._unpacker.unconsumed_tail
        return piece

    def close(self) -> None:
        self.fileobj.close()
