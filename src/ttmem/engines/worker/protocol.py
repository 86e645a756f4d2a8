# SPDX-License-Identifier: Apache-2.0
"""The protocol: one JSON document per line, in both directions. Both sides import this file, so that they agree.

Requests to the server: ``{"id": n, "cases": [[step, ...], ...], "timeout": s, "isolated": true, "stop": false}``; one
answer per case, with the same ``id``. ``{"id": n, "play": [entry, ...], "timeout": s}`` plays a script (``player``) and
is answered as a recording, then ``played``. A recording sends ``hello``, ``device``, ``start``/``end`` of operations,
``closed``, ``exit`` (see ``recorder``).
"""

import faulthandler
import fcntl
import json
import os
import re
import select
from collections import deque
from os import fstat, getpid, read, write
from pathlib import Path
from time import monotonic, monotonic_ns
from typing import Any

VERSION = 1
"""Raised for incompatible changes; each side sends its own in ``hello``."""

HUNG = b"Timeout ("
"""First bytes that faulthandler writes to the recording of a process that it ended for silence."""

MEMORIES = ("DRAM", "L1", "L1_SMALL", "TRACE")
"""The order of memories in states."""

MOST_BYTES_OF_TEXT = 20_000
"""Errors are cut there: a backtrace of a C++ library can be megabytes."""


def write_line(descriptor: int, message: dict[str, Any]) -> None:
    """Write a line, also when the system accepts only part of it at a time."""
    rest = memoryview(encode(message).encode() + b"\n")
    while rest:
        rest = rest[write(descriptor, rest) :]


encode = json.JSONEncoder(separators=(",", ":"), default=str).encode
"""Encode a message in one line. Bound now, like all that is used while a script runs: a script may replace
json.dumps."""


class LineReader:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._ready = select.poll()  # select() itself ends at descriptor 1024
        self._ready.register(descriptor, select.POLLIN | select.POLLHUP)

    def read_line(self, seconds: float) -> bytes:
        """Return the next line, empty at the end of the pipe; raise ``TimeoutError`` when none arrives in time."""
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
    """Decode a line; ``ValueError`` for anything but a message (its process died in the middle of it)."""
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return _escape_all(message) if _SURROGATE.search(line if isinstance(line, bytes) else line.encode()) else message


_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def _escape_all(value: Any) -> Any:
    if isinstance(value, str):
        return escape_surrogates(value)
    if isinstance(value, dict):
        return {_escape_all(key): _escape_all(item) for key, item in value.items()}
    return [_escape_all(item) for item in value] if isinstance(value, list) else value


def escape_surrogates(text: str) -> str:
    """Escape half surrogate pairs, which no file, terminal or JSON parser accepts."""
    return text.encode("utf-8", "backslashreplace").decode()


def get_type_name(error: BaseException) -> str:
    """Return the name of an exception's type, which a metaclass may hide."""
    return str(type.__dict__["__name__"].__get__(type(error)))


def format_error(error: BaseException) -> str:
    """Return an exception's text without the library's backtrace, which names machine code."""
    try:
        text = str(error)
    except Exception:  # its own __str__ raises; Python prints it so too
        text = "<exception str() failed>"
    text = text.split("\nbacktrace:", 1)[0].rstrip()
    return text[:MOST_BYTES_OF_TEXT] or get_type_name(error)


def format_typed_error(error: BaseException) -> str:
    """Return an exception's text, with its type unless it is one of the library's errors."""
    text = format_error(error)
    return text if isinstance(error, RuntimeError) else f"{get_type_name(error)}: {text}"


class RecordingFiles:
    """Writes the recording of a suite as files, one per process: it is there even if the process dies next.

    A line is a message of the recorder; ``{"test": ID}`` names the test of the following ones, ``{"row": ...}`` is a
    test's result.
    """

    def __init__(self, folder: str, ttnn: str) -> None:
        """An empty ``folder`` writes nothing."""
        self._folder = folder
        self._ttnn = ttnn
        self._process = 0
        self._file = -1
        self._patience = 0.0

    def write(self, message: dict[str, Any]) -> None:
        if not self._folder:
            return
        if self._process != getpid():
            self._process = getpid()
            place = Path(self._folder) / f"{monotonic_ns():020}-{self._process}.jsonl"
            self._file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            write_line(self._file, {"hello": 1, "ttnn": self._ttnn})
        write_line(self._file, message)
        if self._patience:
            faulthandler.dump_traceback_later(self._patience, file=self._file, exit=True)

    def limit_silence(self, seconds: float) -> None:
        """End this process from now on when it writes nothing for ``seconds``; the tracebacks of all threads are then
        the last thing in the file (``HUNG``). 0 removes the limit."""
        self._patience = seconds
        faulthandler.cancel_dump_traceback_later()


_FIRST_DESCRIPTOR = 200


class EventPipe:
    """Writes messages while the pipe is open: a script may close all descriptors, and open files of its own."""

    def __init__(self, descriptor: int) -> None:
        # A high number: the next file that the script opens does not get it.
        self._descriptor = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR)
        os.close(descriptor)
        self._identity = self._identify()

    def __call__(self, message: dict[str, Any]) -> None:
        if self._identity is not None and self._identify() == self._identity:
            write_line(self._descriptor, message)
        else:
            self._identity = None

    def _identify(self) -> tuple[int, int] | None:
        try:
            found = fstat(self._descriptor)
        except OSError:
            return None
        return found.st_dev, found.st_ino
