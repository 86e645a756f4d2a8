# SPDX-License-Identifier: Apache-2.0
"""A log that is still being written: read what is there, wait for more, start over when the file is replaced."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ttmem.base.errors import BadInputError
from ttmem.profile.model import Profile
from ttmem.readers.byte_source import chunks
from ttmem.readers.runtime_log._lexer import Lexer
from ttmem.readers.runtime_log.reader import profile_of
from ttmem.readers.unpacking import PACKED_MAGIC
from ttmem.readers.wrappings import SNIFFED_BYTES, Unwrapper, unwrapper_for

_POLL_SECONDS = 0.25
_UPDATE_SECONDS = 1.0
_REST = 4
"""After an update, so many times as long as it took: each one looks at the whole log again."""
_TAIL_BYTES = 256


def follow(
    path: str | Path,
    *,
    name: str,
    on_update: Callable[[Profile], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
    idle_seconds: float | None = None,
) -> Profile:
    """The profile of a growing log, once ``stop`` says so, nothing came for ``idle_seconds``, or on Ctrl-C.

    ``on_update`` gets the profile so far, at most once a second, and seldom enough that a log of any length costs
    little more than reading it once. A file that shrinks or is replaced (rotation, a new
    run of the same script) is read from its beginning.
    """
    log = _GrowingLog(Path(path))
    last_growth = time.monotonic()
    next_update = last_growth + _UPDATE_SECONDS
    fresh = False
    try:
        while True:
            if log.catch_up():
                last_growth = time.monotonic()
                fresh = True
            now = time.monotonic()
            if on_update and fresh and now >= next_update:
                on_update(profile_of(log.lexer.snapshot(), name=name, where=str(path), allow_empty=True))
                done = time.monotonic()
                next_update, fresh = max(now + _UPDATE_SECONDS, done + _REST * (done - now)), False
            if stop() or (idle_seconds is not None and now - last_growth >= idle_seconds):
                break
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        pass  # the ordinary way to end following: the answer comes now
    return profile_of(log.lexer.finish(), name=name, where=str(path))


class _GrowingLog:
    """A file, how far it has been read, and what was understood of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start_over()

    def _start_over(self) -> None:
        self.lexer = Lexer()
        self._offset = 0
        self._unwrapper: Unwrapper | None = None
        self._tail = b""
        """The last bytes that were read: a file that was emptied and filled again has others there, even when it
        is already longer and, as file systems reuse them, has the same number."""
        self._state: tuple[int, ...] = ()

    def catch_up(self) -> bool:
        """Read what is new; whether there was anything."""
        try:
            status = self.path.stat()
            state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            if state == self._state:
                return False
            with self.path.open("rb") as file:
                if not self._is_the_same(file, state):
                    self._start_over()
                before = self._offset
                self._read(file)
        except FileNotFoundError:
            return False  # between the rename and the new file, or not yet written
        except OSError as error:
            raise BadInputError(f"cannot be read: {error.strerror or error}", where=str(self.path)) from error
        self._state = state
        return self._offset > before

    def _is_the_same(self, file: BinaryIO, state: tuple[int, ...]) -> bool:
        if self._state and (self._state[:2] != state[:2] or state[2] < self._offset):
            return False
        file.seek(self._offset - len(self._tail))
        return file.read(len(self._tail)) == self._tail

    def _read(self, file: BinaryIO) -> None:
        file.seek(self._offset)
        for chunk in chunks(file, str(self.path)):
            if not self._offset and chunk.startswith(PACKED_MAGIC):
                raise BadInputError(
                    "a packed file cannot be followed", where=str(self.path), hint="follow the plain log"
                )
            if not self._offset:
                if b"\n" not in chunk and len(chunk) < SNIFFED_BYTES:
                    return  # how it is wrapped shows in its first line, which is not whole yet
                self._unwrapper = unwrapper_for(chunk)
            self._offset += len(chunk)
            self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
            self.lexer.take(self._unwrapper.take(chunk) if self._unwrapper else chunk)
