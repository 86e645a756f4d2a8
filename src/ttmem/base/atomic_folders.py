# SPDX-License-Identifier: Apache-2.0
"""Atomic folder writes without a lock: a folder is made under a hidden name, then renamed in one step."""

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ttmem.base.atomic_files import name_full_disk
from ttmem.base.errors import BadInputError

_UNFINISHED = ".unfinished-"
_UNFINISHED_LIFE_SECONDS = 24 * 3600


MARK = ".ttmem-export"
"""A file in every folder that an export wrote: the next export may replace such a folder."""


def write_folder(target: Path, files: Iterable[tuple[str, bytes]], *, replace: bool) -> None:
    """Write the folder with these files; raise ``FileExistsError`` when it is there and may not be replaced."""
    with atomic_folder(target, replace=replace) as folder:
        for name, content in files:
            with name_full_disk(target / name):
                (folder / name).write_bytes(content)


@contextlib.contextmanager
def export_folder(path: Path) -> Iterator[Path]:
    """Yield a folder to fill. It replaces the folder of an earlier export, never somebody else's."""
    require_replaceable(path)
    with name_full_disk(path), atomic_folder(Path(os.path.realpath(path)), replace=True) as folder:
        yield folder
        (folder / MARK).write_text("Written by ttmem export; the next export to this folder replaces it.\n")


def require_replaceable(path: Path) -> None:
    """Refuse a place for an export, before minutes are spent on it."""
    if path.exists() and not path.is_dir():
        raise BadInputError("is a file, and this export needs a folder", where=str(path), hint="name another place")
    if path.is_dir() and any(path.iterdir()) and not (path / MARK).is_file():
        raise BadInputError(
            "is a folder with other files in it, which would be lost",
            where=str(path),
            hint=f"name a new folder, for example '{path / 'ttmem'}'",
        )
    parent = Path(os.path.realpath(path)).parent
    if not parent.is_dir():
        raise BadInputError(f"no such folder '{parent}'", where=str(path), hint=f"make it first: mkdir -p '{parent}'")


@contextlib.contextmanager
def atomic_folder(target: Path, *, replace: bool) -> Iterator[Path]:
    """Yield a hidden folder to fill; it gets its name when all is written, and is deleted when anything fails."""
    hidden = _unfinished_sibling(target)
    hidden.mkdir()
    mark = _lock(hidden)
    try:
        yield hidden
        _move_into_place(hidden, target, replace=replace)
    finally:
        _discard(hidden)
        if mark is not None:
            os.close(mark)


def remove_folder(path: Path) -> None:
    """Hide the folder in one step, then delete it."""
    hidden = _unfinished_sibling(path)
    path.rename(hidden)
    _discard(hidden)


def remove_leftovers(root: Path) -> None:
    """Remove the unfinished folders of killed writers: unlocked, and their process has ended."""
    for entry in root.glob(f"{_UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if _is_abandoned(entry):
                _discard(entry)


def _lock(folder: Path) -> int | None:
    """A lock on the folder that ends with this process, however that ends; None where the file system has none."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _is_abandoned(folder: Path) -> bool:
    """Other machines and containers may share the store: there the number of a process says nothing, the lock does.

    Where locks do not tell, a folder that is older than any write is left.
    """
    mark = _lock(folder)
    if mark is not None:
        os.close(mark)
        number = folder.name.removeprefix(_UNFINISHED).partition("-")[0]
        if not Path("/proc", number).exists():  # between making the folder and locking it, its process lives
            return True
    return time.time() - folder.stat().st_mtime > _UNFINISHED_LIFE_SECONDS


def _unfinished_sibling(path: Path) -> Path:
    return path.parent / f"{_UNFINISHED}{os.getpid()}-{os.urandom(6).hex()}"


def _discard(path: Path) -> None:
    """Delete a folder of ours; where somebody put a link, only the link."""
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def _move_into_place(new: Path, target: Path, *, replace: bool) -> None:
    """Give the finished folder its name. Afterwards ``new`` does not exist or holds what was replaced.

    The kernel refuses to rename a folder onto one that holds files, which is what makes the name a lock.
    """
    while True:
        try:
            new.rename(target)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            if not replace:
                raise FileExistsError(error.errno, error.strerror, str(target)) from None
        if _exchange(new, target):
            return
        # Without an atomic exchange the name is missing for an instant; another writer may use it, so try again.
        aside = _unfinished_sibling(target)
        with contextlib.suppress(FileNotFoundError):
            target.rename(aside)
        _discard(aside)


def _exchange(new: Path, target: Path) -> bool:
    """Swap two names in one step, so that a reader finds the old report or the new one; False where it cannot be."""
    at_working_folder, exchange = -100, 2
    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    return bool(swap(at_working_folder, os.fsencode(new), at_working_folder, os.fsencode(target), exchange) == 0)
