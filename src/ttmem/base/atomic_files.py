# SPDX-License-Identifier: Apache-2.0
"""Atomic file writes: a file appears under its name complete, or not at all."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ttmem.base.errors import BadInputError
from ttmem.base.text_safety import Styled, escape_control_characters

_PIECE = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def require_writable(path: Path) -> None:
    """Refuse a path that cannot be written to, before minutes are spent on its content."""
    if path.is_dir():
        raise BadInputError("is a folder, not a file", where=str(path), hint="name a file inside it")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise BadInputError(f"no such folder '{folder}'", where=str(path), hint=f"make it first: mkdir -p '{folder}'")


@contextmanager
def name_full_disk(path: Path) -> Iterator[None]:
    """Name the file or folder that did not fit on a full disk: the system says so only where a file is opened."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL or error.filename:
            raise
        raise BadInputError(f"cannot be written: {os.strerror(error.errno)}", where=str(path)) from error


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that no reader ever sees half of it."""
    write_pieces(path, (content,))


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file from pieces, in the same way."""
    try:
        with atomic_file(path) as stream:
            stream.writelines(pieces)
    except BrokenPipeError:
        raise  # the reader closed the pipe: the path is not at fault
    except OSError as error:
        raise BadInputError(f"cannot be written: {error.strerror or error}", where=str(path)) from error


def write_text(path: Path, text: str) -> None:
    """Write a text for people, with control characters escaped."""
    write_texts(path, (text,))


def write_texts(path: Path, texts: Iterable[str]) -> None:
    """Write a text from pieces, in the same way; a piece must not end within a line break."""
    write_pieces(path, (piece for text in texts for piece in _escape_in_pieces(text)))


def _escape_in_pieces(text: str) -> Iterator[bytes]:
    """Escape in pieces: a report may have a hundred megabytes, and each step would hold a copy of it."""
    if isinstance(text, Styled):
        yield text.encode("utf-8")
        return
    start = 0
    while start < len(text):
        end = start + _PIECE
        end += text[end - 1 : end + 1] == "\r\n"
        yield escape_control_characters(text[start:end]).encode("utf-8")
        start = end


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write piece by piece; it gets its name when all is written, and is removed on an error.

    A symbolic link stays a link and its target is replaced; a device or pipe (``/dev/stdout``) is written to directly,
    because renaming a file over it would destroy it.
    """
    require_writable(path)
    mode = path.stat().st_mode if path.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        with path.open("wb") as stream:
            yield stream
        return
    target = Path(os.path.realpath(path))
    temporary = temporary_sibling(target)
    # os.open and not mkstemp: the umask decides who may read a new file, as for any other program's output.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with name_full_disk(path), os.fdopen(descriptor, "wb") as stream:
            if mode is not None:
                os.fchmod(stream.fileno(), stat.S_IMODE(mode))
            yield stream
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def temporary_sibling(target: Path, suffix: str = "tmp") -> Path:
    """Return a unique hidden name in the same folder, for an unfinished file."""
    return target.with_name(f".ttmem-{os.getpid()}-{os.urandom(6).hex()}.{suffix}")
