# SPDX-License-Identifier: Apache-2.0
"""Packed sources, unpacked as they are read.

The standard readers throw away what they had unpacked when a file turns out to be cut (gzip), or do not notice
(zstd). A log of a killed job is cut more often than not, so here everything before the cut is handed out first.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import BinaryIO, Protocol

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_PACKED_BYTES = 32 << 10
"""Read at once; text logs unpack to some 30 times as much."""


class _Unpacker(Protocol):
    """One gzip member or zstd frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def unpacker_for(magic: bytes) -> Callable[[], _Unpacker] | None:
    """What unpacks a file that begins with these bytes, None when it is not packed."""
    if magic.startswith(GZIP_MAGIC):
        return lambda: zlib.decompressobj(wbits=31)
    if magic.startswith(ZSTD_MAGIC):
        import zstandard

        return lambda: zstandard.ZstdDecompressor().decompressobj()
    return None


class PackedReader:
    """The unpacked bytes; raises EOFError at the end of a file that stops inside a member."""

    def __init__(self, fileobj: BinaryIO, unpacker: Callable[[], _Unpacker]) -> None:
        self.fileobj = fileobj
        self._new_unpacker = unpacker
        self._unpacker: _Unpacker | None = None

    def read(self, _size: int = -1, /) -> bytes:
        """The next piece, empty at the end; how long it is depends on how well the text was packed."""
        while packed := self.fileobj.read(_PACKED_BYTES):
            unpacked = self._unpack(packed)
            if unpacked:
                return unpacked
        if self._unpacker:
            self._unpacker = None
            raise EOFError
        return b""

    def _unpack(self, packed: bytes) -> bytes:
        """What this piece holds; files may consist of several members, and tapes pad them with zeros."""
        pieces = []
        while packed:
            if self._unpacker is None:
                packed = packed.lstrip(b"\0")
                if not packed:
                    break
                self._unpacker = self._new_unpacker()
            pieces.append(self._unpacker.decompress(packed))
            packed = b""
            if self._unpacker.eof:
                packed, self._unpacker = self._unpacker.unused_data, None
        return b"".join(pieces)

    def close(self) -> None:
        self.fileobj.close()

    def __enter__(self) -> PackedReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
