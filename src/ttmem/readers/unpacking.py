# SPDX-License-Identifier: Apache-2.0
"""Unpacked bytes of packed files and streams, in bounded pieces and with an end."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from hashlib import blake2b
from importlib import import_module
from typing import Any, BinaryIO, Protocol

from ttmem.base.limits import (
    ENDLESS_STREAM_BYTES,
    REPEATED_BYTES,
    REPEATED_COST,
    REPEATED_STREAM_BYTES,
    REPEATED_TIMES,
    STREAM_BYTES,
    UNPACKED_FREE_BYTES,
    UNPACKED_LINE_BYTES,
    UNPACKED_PIECE_BYTES,
    UNPACKED_RATIO,
    UNPACKED_WHOLE_BYTES,
)

_LEAST_COMPARED = 64 << 10
"""Short texts are compared many at a time."""


class Repetition:
    """Looks for 16 KiB of a text again, then compares what follows piece by piece of the length between them.

    It reads every byte twice at most and keeps 32 KiB. Where two pieces differ, and where the 16 KiB do not come again,
    it starts again from there, and looks farther.
    """

    def __init__(self) -> None:
        self._most_passed_bytes = 1 << 20
        self._start()

    def _start(self) -> None:
        self._beginning = self._kept = b""
        self._passed_bytes = self._period = self._times = 0

    @property
    def is_established(self) -> bool:
        """True when the text was repeated so often that it hardly ends."""
        return self._times >= max(REPEATED_TIMES, REPEATED_STREAM_BYTES // (self._period or 1))

    def take(self, text: bytes) -> None:
        """Look at what follows."""
        while text:
            text = self._compare(text) if self._period else self._search(text)

    def _search(self, text: bytes) -> bytes:
        """Look for the beginning; returns what has to be compared."""
        text = self._kept + text
        if not self._beginning:
            if len(text) <= REPEATED_BYTES:
                self._kept = text
                return b""
            self._beginning, text, self._passed_bytes = text[:REPEATED_BYTES], text[1:], 1
        at = text.find(self._beginning)
        if at < 0:
            self._kept = text[1 - REPEATED_BYTES :]
            self._passed_bytes += len(text) - len(self._kept)
            if self._passed_bytes > self._most_passed_bytes:
                self._most_passed_bytes *= 2
                self._start()
            return b""
        distance = self._passed_bytes + at
        self._period = distance * -(-_LEAST_COMPARED // distance)
        self._last = b""
        self._next_piece()
        return text[at:]

    def _compare(self, text: bytes) -> bytes:
        """Compare up to the end of the piece; returns what follows it."""
        part, rest = text[: self._left_bytes], text[self._left_bytes :]
        self._hash.update(part)
        self._left_bytes -= len(part)
        if self._left_bytes:
            return b""
        digest = self._hash.digest()
        if self._last and digest != self._last:
            self._start()
            return rest
        self._times += 1
        self._last = digest
        self._next_piece()
        return rest

    def _next_piece(self) -> None:
        self._hash, self._left_bytes = blake2b(digest_size=16), self._period


_PACKED_BYTES = 32 << 10
"""Read at once; text logs unpack to some 30 times as much."""
_STEP_BYTES = 1 << 10
"""Bytes given at once to unpackers without a limit: four bytes of zstd may unpack to 128 KiB, this to 32 MiB.
"""
_XZ_MEMORY_BYTES = 256 << 20


class _Unpacker(Protocol):
    """A gzip member or zstd frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Stepped:
    """A zstd frame, bz2 or xz stream with the interface of ``zlib``: a call may stop before its input is used up."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.unconsumed_tail = b""

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data) + self.unconsumed_tail

    def decompress(self, data: bytes, _max_length: int, /) -> bytes:
        self.unconsumed_tail = data[_STEP_BYTES:]
        return bytes(self._frame.decompress(data[:_STEP_BYTES]))


def _open_lzma(container: str) -> _Unpacker:
    lzma = import_module("lzma")
    return _Stepped(lzma.LZMADecompressor(getattr(lzma, container), memlimit=_XZ_MEMORY_BYTES))


_UNPACKERS: dict[bytes, Callable[[], _Unpacker]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(wbits=31),
    b"\x28\xb5\x2f\xfd": lambda: _Stepped(import_module("zstandard").ZstdDecompressor().decompressobj()),
    b"BZh": lambda: _Stepped(import_module("bz2").BZ2Decompressor()),
    b"\xfd7zX": lambda: _open_lzma("FORMAT_XZ"),
    b"\x5d\x00\x00": lambda: _open_lzma("FORMAT_ALONE"),
    b"\x78\x9c": zlib.decompressobj,
    b"\x78\xda": zlib.decompressobj,
}
PACKED_MAGIC = tuple(_UNPACKERS)
PACKED_ENDINGS = (".gz", ".zst", ".bz2", ".xz", ".lzma")
_OTHER_PACKINGS = {
    b"PK\x03\x04": "a ZIP archive",
    b"\x04\x22\x4d\x18": "packed with LZ4",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a RAR archive",
    b"\x1f\x9d": "packed with compress (.Z)",
}


def find_unpacker(magic: bytes) -> Callable[[], _Unpacker] | None:
    """Return the unpacker of a file that begins with these bytes, None when it is not packed."""
    return next((unpacker for start, unpacker in _UNPACKERS.items() if magic.startswith(start)), None)


def name_unknown_packing(magic: bytes) -> str:
    """Name a packing that cannot be unpacked here; empty for all others."""
    return next((name for start, name in _OTHER_PACKINGS.items() if magic.startswith(start)), "")


def is_unpacking_error(error: Exception) -> bool:
    """True for an error about damaged packed bytes; some libraries have types of their own, which are not loaded."""
    return isinstance(error, OSError | zlib.error | ValueError) or type(error).__name__ in ("ZstdError", "LZMAError")


def bound_stream(fileobj: BinaryIO, counted: tuple[bytes, ...] = ()) -> PackedReader:
    """A stream that is not packed and may have no end."""
    return PackedReader(fileobj, None, counted)


def _find_period(piece: bytes) -> int:
    """Return the length of the text that a piece only repeats; 0 when it does not."""
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

    def __init__(
        self, fileobj: BinaryIO, unpacker: Callable[[], _Unpacker] | None, counted: tuple[bytes, ...] = ()
    ) -> None:
        """Without an unpacker it is a stream that is not packed: only its length bounds it."""
        self.is_stream = unpacker is None
        self.fileobj = fileobj
        self._counted = counted
        self._new_unpacker = unpacker
        self._unpacker: _Unpacker | None = None
        self._packed = b""
        self._padding_bytes = 0
        self._damage: Exception | None = None
        self._read_bytes = self._unpacked_bytes = self._cost_bytes = 0
        self._repeated_bytes = self._repeated_lines = 0
        self._ready, self._given = b"", 0
        self._repetition = Repetition()
        self._is_over = False

    def read(self, _size: int = -1, /) -> bytes:
        """The next piece, empty at the end."""
        if self._is_over:
            return b""
        whole = self._next()
        piece = whole
        if self._cost_bytes > UNPACKED_WHOLE_BYTES:
            piece = self._drop_repeats(whole)
            if self.is_stream:
                self._repetition.take(whole)
        self._cost_bytes += max(
            len(piece), UNPACKED_LINE_BYTES * piece.count(b"\n"), len(whole) // (1 if self.is_stream else REPEATED_COST)
        )
        self._is_over = self._cost_bytes > self._most_bytes
        return piece

    @property
    def _most_bytes(self) -> int:
        if not self.is_stream:
            return max(UNPACKED_FREE_BYTES, UNPACKED_RATIO * self._read_bytes)
        return ENDLESS_STREAM_BYTES if self._repetition.is_established else STREAM_BYTES

    @property
    def unread_rest(self) -> str:
        """The remark on a source whose end was not read; empty where it was."""
        if not self._is_over:
            return ""
        beyond = f"what exceeds {self._unpacked_bytes >> 20:,} MiB was left out"
        if self.is_stream:
            kind = "a stream that repeats itself" if self._repetition.is_established else "a stream"
            return f"{beyond}: no more is read of {kind}; write it to a file to read all of it"
        return f"{beyond}: no more is unpacked of a file of this size and such lines"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on what was left out."""
        said = []
        if self._repeated_bytes:
            said.append(
                f"{self._repeated_bytes >> 20:,} MiB ({self._repeated_lines:,} lines) of exact repetitions "
                "were left out; line numbers do not count them"
            )
        if self._is_over:
            said.append(self.unread_rest)
        return tuple(said)

    def _drop_repeats(self, piece: bytes) -> bytes:
        """Two times and a bit of what a piece repeats: a multiple of it is taken out, so lines stay whole."""
        period = _find_period(piece)
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
            self._ready, self._given = self._unpack(), 0
        start, self._given = self._given, self._given + UNPACKED_PIECE_BYTES
        if len(self._ready) - self._given < UNPACKED_PIECE_BYTES:
            self._given = len(self._ready)
        return self._ready[start : self._given] if start or self._given < len(self._ready) else self._ready

    def _unpack(self) -> bytes:
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
        if self._damage is None and not ready and self._unpacker is not None and not self.is_stream:
            self._damage = EOFError()
            pieces = [self._unpacker.decompress(b"", UNPACKED_PIECE_BYTES)]
        if self._damage is not None and not any(pieces):
            raise self._damage
        return b"".join(pieces)

    def _more(self) -> bool:
        if self._padding_bytes > UNPACKED_PIECE_BYTES:
            return False
        self._packed = self.fileobj.read(_PACKED_BYTES)
        self._read_bytes += len(self._packed)
        return bool(self._packed)

    def _step(self) -> bytes:
        """Unpack some bytes; files may consist of several members, and tapes pad them with zeros."""
        if self._new_unpacker is None:
            piece, self._packed = self._packed, b""
            return piece
        if self._unpacker is None:
            padded, self._packed = len(self._packed), self._packed.lstrip(b"\0")
            if not self._packed:
                self._padding_bytes += padded
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
