# SPDX-License-Identifier: Apache-2.0
"""What comes in on stdin, made readable for the SDK, so that every request gets an answer.

A line that its parser refuses would be dropped in silence, and the client would wait for ever. Half of a surrogate pair
becomes the replacement character; a line that is no JSON but has an ``id`` becomes a request that is answered with an
error.
"""

import io
import json
import re
from typing import BinaryIO

_HIGH, _LOW = rb"u[dD][89aAbB][0-9a-fA-F]{2}", rb"u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rb"\\(?:" + _HIGH + rb"\\" + _LOW + rb"|(" + _HIGH + rb"|" + _LOW + rb")|.)", re.DOTALL)
"""Any escape, so that a backslash that is itself escaped begins none; the group is half of a pair."""
_ID = re.compile(rb'"id"\s*:\s*("[^"\\]{0,100}"|-?\d{1,18})')


def readable(line: bytes) -> bytes:
    """The line, or what stands for it."""
    if b"\\u" in line:
        line = _ESCAPE.sub(_paired, line)
    if not line.strip():
        return line
    try:
        import pydantic_core

        pydantic_core.from_json(line, allow_inf_nan=False)
    except ValueError as error:
        found = _ID.search(line)
        request = {"jsonrpc": "2.0", "method": f"a line that is no JSON ({error})"[:200]}
        if found:
            return json.dumps(request | {"id": json.loads(found[1])}).encode() + b"\n"
    return line


def _paired(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if escape[1] else escape[0]


class ReadableLines(io.RawIOBase):
    """A stream of such lines out of another stream."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """As much of the current line as fits; nothing at the end."""
        if not self._left:
            self._left = readable(self._source.readline())
        taken = self._left[: len(buffer)]
        buffer[: len(taken)] = taken
        self._left = self._left[len(taken) :]
        return len(taken)
