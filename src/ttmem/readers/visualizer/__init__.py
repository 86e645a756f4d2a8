# SPDX-License-Identifier: Apache-2.0
"""ttnn-visualizer report folders and databases."""

from ttmem.base.lazy import lazy_names
from ttmem.readers.byte_source import Head

KIND = "ttnn-visualizer"
TITLE = "ttnn-visualizer report (folder or db.sqlite)"
DATABASE_NAME = "db.sqlite"
_MAGIC = b"SQLite format 3\x00"


def sniff(head: Head) -> bool:
    """A database, or a folder that has one under the name that reports use."""
    if head.is_folder and head.path is not None:
        return (head.path / DATABASE_NAME).is_file()
    return head.content.startswith(_MAGIC)


__getattr__ = lazy_names(__name__, {"read": "reader"})
