# SPDX-License-Identifier: Apache-2.0
"""A log that is still being written: read what is there, wait for more, start over when the file is replaced."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from ttmem._errors import BadInputError
from ttmem.profile import Profile
from ttmem.readers._byte_source import LineSplitter, chunks
from ttmem.readers._lexer import Lexer
from ttmem.readers._packed import GZIP_MAGIC, ZSTD_MAGIC
from ttmem.readers.runtime_log import profile_of

_POLL_SECONDS = 0.25
_UPDATE_SECONDS = 1.0


def follow(
    path: str | Path,
    *,
    name: str,
    on_update: Callable[[Profile], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
    idle_seconds: float | None = None,
) -> Profile:
    """The profile of a growing log, once ``stop`` says so, nothing came for ``idle_seconds``, or on Ctrl-C.

    ``on_update`` gets the profile so far, at most once a second. A file that shrinks or is replaced (rotation, a new
    run of the same script) is read from its beginning.
    """
    path = Path(path)
    lexer, splitter = Lexer(), LineSplitter()
    offset, identity = 0, None
    last_growth = last_update = time.monotonic()
    fresh = False
    try:
        while True:
            try:
                status = path.stat()
            except FileNotFoundError:
                status = None  # between the rename and the new file, or not yet written
            if status is not None:
                found = (status.st_dev, status.st_ino)
                if identity not in (None, found) or status.st_size < offset:
                    lexer, splitter, offset = Lexer(), LineSplitter(), 0
                identity = found
                if status.st_size > offset:
                    offset = _read_new(path, offset, lexer, splitter)
                    last_growth = time.monotonic()
                    fresh = True
            now = time.monotonic()
            if on_update and fresh and now - last_update >= _UPDATE_SECONDS:
                on_update(profile_of(lexer.snapshot(), name=name, where=str(path), allow_empty=True))
                last_update, fresh = now, False
            if stop() or (idle_seconds is not None and now - last_growth >= idle_seconds):
                break
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        pass  # the ordinary way to end following: the answer comes now
    lexer.feed(splitter.rest())
    return profile_of(lexer.snapshot(), name=name, where=str(path))


def _read_new(path: Path, offset: int, lexer: Lexer, splitter: LineSplitter) -> int:
    with path.open("rb") as file:
        if not offset and file.read(4).startswith((GZIP_MAGIC, ZSTD_MAGIC)):
            raise BadInputError("a packed file cannot be followed", where=str(path), hint="follow the plain log")
        file.seek(offset, os.SEEK_SET)
        for chunk in chunks(file, str(path)):
            offset += len(chunk)
            lexer.byte_count += len(chunk)
            lexer.feed(splitter.split(chunk))
    return offset
