# SPDX-License-Identifier: Apache-2.0
"""tt-metal's memory reports: ``EnableMemoryReports()`` writes three CSV files."""

import re
from pathlib import Path

from ttmem.base.lazy import lazy_names
from ttmem.readers.byte_source import Head

KIND = "tt-metal-memory-report"
TITLE = "memory reports of tt-metal (CSV files)"
SUMMARY = "memory_usage_summary.csv"
HEADER = re.compile(r"Total Allocatable Size \((K?)B\)")
_PLACES = ("", "reports", "generated/reports")


def sniff(head: Head) -> bool:
    """The summary among the files, or a folder that has one where tt-metal puts it."""
    if head.is_folder and head.path is not None:
        return folder_in(head.path) is not None
    return HEADER.search(head.content[:200].decode("ascii", "replace")) is not None


def folder_in(folder: Path) -> Path | None:
    """Where a folder has such files."""
    places = (folder / place for place in _PLACES)
    return next((place for place in places if any(place.glob(f"*{SUMMARY}"))), None)


__getattr__ = lazy_names(__name__, {"read": "files"})
