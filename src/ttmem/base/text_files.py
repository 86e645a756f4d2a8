# SPDX-License-Identifier: Apache-2.0
"""Small files that a user names (lists, recipes, cases, sources), read whole within a limit.

Logs and captures, which may be packed and larger, go through ``readers.byte_source``.
"""

import os
import stat
from pathlib import Path

from ttmem.base.errors import BadInputError
from ttmem.base.limits import TEXT_BYTES


def read_bytes(path: Path, *, most: int = TEXT_BYTES, what: str = "a file of this kind") -> bytes:
    """The content of a file or pipe; BadInputError when it cannot be read or is larger than ``what`` can be."""
    try:
        refuse_device(path)
        with path.open("rb") as stream:
            content = stream.read(most + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInputError(f"cannot be read: {reason}", where=str(path)) from error
    if len(content) > most:
        raise BadInputError(f"is larger than {what} can be ({most >> 20} MiB)", where=str(path))
    return content


def read_text(path: Path, *, most: int = TEXT_BYTES, what: str = "a file of this kind") -> str:
    """The same as text, without the mark that some editors put in front of UTF-8."""
    content = read_bytes(path, most=most, what=what)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInputError("is not a text file in UTF-8", where=str(path)) from None


def refuse_device(path: Path) -> None:
    """Refuse ``/dev/zero`` and the like, which have no end; a terminal has one."""
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError):
        return  # whoever opens it says why it cannot be read
    if stat.S_ISBLK(kind) or (stat.S_ISCHR(kind) and not _is_terminal(path)):
        raise BadInputError("is a device of this machine, not a file", where=str(path), hint="name a file")


def _is_terminal(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.isatty(descriptor)
    finally:
        os.close(descriptor)
