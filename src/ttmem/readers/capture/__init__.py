# SPDX-License-Identifier: Apache-2.0
"""Graph captures of ttnn: nodes, their replay, and the profile in them."""

import re
from pathlib import Path

from ttmem.base.lazy import lazy_names
from ttmem.readers.byte_source import Head

KIND = "ttnn-graph-capture"
TITLE = "ttnn graph capture, or the report.json of one"
_KEYS = (b'"graph"', b'"buffer_pages"', b'"cluster_descriptor"', b'"node_type"')
_RANK_FILE = re.compile(r"graph_capture_(\d+)_of_\d+\.json")
_SINGLE_FILES = ("graph_capture.json", "report.json")


def sniff(head: Head) -> bool:
    """A list of graph nodes or a report of one; or a folder with captures under the names that the library gives."""
    if head.is_folder and head.path is not None:
        return bool(list_capture_files(head.path))
    start = head.content.lstrip()[:1]
    if start == b"[":
        return b'"node_type"' in head.content
    return start == b"{" and any(key in head.content for key in _KEYS)


def list_capture_files(folder: Path) -> list[Path]:
    """The capture of each process that left one."""
    ranks = [(int(match[1]), file) for file in folder.iterdir() if (match := _RANK_FILE.fullmatch(file.name))]
    if ranks:
        return [file for _, file in sorted(ranks)]
    return [file for name in _SINGLE_FILES if (file := folder / name).is_file()][:1]


__getattr__ = lazy_names(__name__, {"read": "graph"})
