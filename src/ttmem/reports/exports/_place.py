# SPDX-License-Identifier: Apache-2.0
"""Folders that appear whole or not at all, and never in the place of somebody else's."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ttmem.base.atomic_files import name_full_disk, temporary_sibling
from ttmem.base.errors import BadInputError

MARK = ".ttmem-export"
"""Lies in every folder that an export wrote: such a folder may be replaced by the next export."""


def check_folder(path: Path) -> None:
    """Refuse a place before minutes are spent on what should go there."""
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


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; it gets its name when everything is written, and is gone when anything goes wrong."""
    check_folder(path)
    target = Path(os.path.realpath(path))
    hidden = temporary_sibling(target)
    hidden.mkdir()
    try:
        with name_full_disk(path):
            yield hidden
            (hidden / MARK).write_text("Written by ttmem export; the next export to this folder replaces it.\n")
        _replace(hidden, target)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _replace(hidden: Path, target: Path) -> None:
    if target.is_dir() and any(target.iterdir()):
        aside = temporary_sibling(target, "old")
        target.rename(aside)
        try:
            hidden.rename(target)
        except OSError:
            aside.rename(target)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    else:
        hidden.rename(target)
