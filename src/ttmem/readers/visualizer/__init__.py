# SPDX-License-Identifier: Apache-2.0
"""ttnn-visualizer report folders and databases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ttmem.readers.byte_source import Head

if TYPE_CHECKING:
    from ttmem.profile import Profile
    from ttmem.readers.registry import ReadOptions

KIND = "ttnn-visualizer"
TITLE = "ttnn-visualizer report (folder or db.sqlite)"
DATABASE_NAME = "db.sqlite"
_MAGIC = b"SQLite format 3\x00"


def sniff(head: Head) -> bool:
    """A database, or a folder that has one under the name that reports use."""
    if head.is_folder and head.path is not None:
        return (head.path / DATABASE_NAME).is_file()
    return head.content.startswith(_MAGIC)


def read(source: str | Path, options: ReadOptions) -> Profile:
    """The memory history in a report."""
    from ttmem.readers.visualizer.reader import read_visualizer

    return read_visualizer(source, name=options.name)
