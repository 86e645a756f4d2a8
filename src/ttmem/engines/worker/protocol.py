# SPDX-License-Identifier: Apache-2.0
"""One JSON document per line, both ways. Both sides import this file, so what they promise cannot drift apart.

Requests to the server: ``{"id": n, "cases": [[step, ...], ...], "timeout": s, "isolated": true, "stop": false}``; one
answer per case, with the same ``id``. ``{"id": n, "play": [entry, ...], "timeout": s}`` plays a script (``playing``)
and is answered as a recording, then ``played``.
What a recording sends: ``hello``, ``device``, ``start``/``end`` of operations, ``closed``, ``exit`` (see ``recorder``).
"""

import json
import re
import select
from collections import deque
from os import read, write
from time import monotonic
from typing import Any

VERSION = 1
"""Raised when one side would misunderstand the other; each says its own in ``hello``."""

HUNG = b"Timeout ("
"""How faulthandler begins, in the recording of a process that it ended because it was silent."""

MEMORIES = ("DRAM", "L1", "L1_SMALL", "TRACE")
"""In the order in which states list them."""

MOST_BYTES_OF_TEXT = 20_000
"""An error's text is cut there: a backtrace of a C++ library can be megabytes."""


def write_line(descriptor: int, message: dict[str, Any]) -> None:
    """One line, however often the system takes only a part of it.

    What is written is with the reader even if this process dies next.
    """
    rest = memoryview(encode(message).encode() + b"\n")
    while rest:
        rest = rest[write(descriptor, rest) :]


encode = json.JSONEncoder(separators=(",", ":"), default=str).encode
"""A message in one line. Like all that is used while a script runs it is bound now: a script may replace json.dumps."""


class LineReader:
    """Reads whole lines from a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._ready = select.poll()  # select() itself ends at descriptor 1024
        self._ready.register(descriptor, select.POLLIN | select.POLLHUP)

    def line(self, seconds: float) -> bytes:
        """The next line, empty at the end of the pipe; ``TimeoutError`` when none comes in time."""
        deadline = monotonic() + seconds
        while not self._lines:
            left = deadline - monotonic()
            if not self._ready.poll(max(0, left) * 1000):
                raise TimeoutError
            chunk = read(self._descriptor, 1 << 16)
            if not chunk:
                return b""
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            self._lines += whole
        return self._lines.popleft()


def decode(line: bytes | str) -> dict[str, Any]:
    """The message of one line; ``ValueError`` when it is none (a process that died in the middle of it)."""
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return _whole(message) if _SURROGATE.search(line if isinstance(line, bytes) else line.encode()) else message


_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


def whole_text(text: str) -> str:
    """The text with half surrogate pairs written as escapes: no file, terminal or JSON parser takes those."""
    return text.encode("utf-8", "backslashreplace").decode()


def type_name(error: BaseException) -> str:
    """The name of an exception's type, which a metaclass may hide."""
    return str(type.__dict__["__name__"].__get__(type(error)))


def error_text(error: BaseException) -> str:
    """What an exception says, without the library's backtrace: that names machine code, not the user's."""
    try:
        text = str(error)
    except Exception:  # its own __str__ raises; Python prints it so too
        text = "<exception str() failed>"
    text = text.split("\nbacktrace:", 1)[0].rstrip()
    return text[:MOST_BYTES_OF_TEXT] or type_name(error)


def error_message(error: BaseException) -> str:
    """The library's errors speak for themselves; of others the type matters too."""
    text = error_text(error)
    return text if isinstance(error, RuntimeError) else f"{type_name(error)}: {text}"
