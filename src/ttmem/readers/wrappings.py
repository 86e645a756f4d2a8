# SPDX-License-Identifier: Apache-2.0
"""Text that something wrapped on its way to a file: UTF-16 (PowerShell), JSON lines of Docker and of journald.

Every reader gets plain lines. Line numbers stay those of the file wherever an entry holds one line of text.
"""

import codecs
import json
import re
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

from ttmem._limits import LINE_BYTES

_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_DOCKER = re.compile(rb'\s*\{\s*"log"\s*:\s*"')
_JOURNALD = re.compile(rb'\s*\{\s*"(?=[^\n]{0,20000}"MESSAGE"\s*:)(?=[^\n]{0,20000}"__?[A-Z])')
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
                self._unwrapper = unwrapper_for(piece)
            if self._unwrapper is None:
                return piece
            if text := self._unwrapper.take(piece):
                return text
        left = self._unwrapper.rest() if self._unwrapper else b""
        self._unwrapper = None
        return left

    def close(self) -> None:
        self.inner.close()


def unwrapper_for(head: bytes) -> Unwrapper | None:
    """What makes plain text of a source that begins like this; None where nothing has to be done."""
    if head[:2] in _UTF_16 and b"\0" in head[2:64] and head[:4] not in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
        return _Utf16(_UTF_16[head[:2]])
    if re.match(rb"(?:[\t\r\n\x1b -~]\x00){8}", head):
        return _Utf16("utf-16-le")
    if _DOCKER.match(head):
        return _JsonLines(_docker_text)
    if _JOURNALD.match(head[:SNIFFED_BYTES]):
        return _JsonLines(_journald_text)
    return None


class _Utf16:
    """UTF-16 as UTF-8."""

    def __init__(self, encoding: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def take(self, piece: bytes) -> bytes:
        return self._decoder.decode(piece).lstrip("\ufeff").encode("utf-8", "replace")

    def rest(self) -> bytes:
        return self._decoder.decode(b"", True).encode("utf-8", "replace")


class _JsonLines:
    """One JSON object per line, of which one value is the text; lines that are none stay as they are."""

    def __init__(self, text_of: Callable[[dict[str, Any]], str | None]) -> None:
        self._text_of = text_of
        self._left: list[bytes] = []
        self._left_bytes = 0
        self._open_entries = 0
        """Entries whose text goes on in the next one: Docker cuts lines at 16 KiB."""

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
        return self._plain(b"".join(self._left)) if self._left else b""

    def _plain(self, line: bytes) -> bytes:
        text = self._text_in(line) if line.lstrip()[:1] == b"{" else None
        if text is None:
            text = line.decode("utf-8", "replace") + "\n"
        if not text.endswith("\n"):
            self._open_entries += 1
            return text.encode("utf-8", "replace")
        # The entries that a line was cut into are lines of the file: they are counted below it.
        skipped, self._open_entries = self._open_entries, 0
        return (text + "\n" * skipped).encode("utf-8", "replace")

    def _text_in(self, line: bytes) -> str | None:
        if len(line) > LINE_BYTES:
            return None
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            return None
        return self._text_of(entry) if isinstance(entry, dict) else None


def _docker_text(entry: dict[str, Any]) -> str | None:
    text = entry.get("log")
    return text if isinstance(text, str) else None


def _journald_text(entry: dict[str, Any]) -> str | None:
    """A message with control characters, such as colours, is a list of bytes."""
    message = entry.get("MESSAGE")
    if isinstance(message, list):
        try:
            message = bytes(message).decode("utf-8", "replace")
        except (TypeError, ValueError):
            return None
    return f"{message}\n" if isinstance(message, str) else None
