# SPDX-License-Identifier: Apache-2.0
"""tt-metal's memory reports: ``EnableMemoryReports()`` writes three CSV files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ttmem.readers.byte_source import Head

if TYPE_CHECKING:
    from ttmem.profile import Profile
    from ttmem.readers.registry import ReadOptions

KIND = "tt-metal-memory-report"
TITLE = "memory reports of tt-metal (CSV files)"
SUMMARY = "memory_usage_summary.csv"
HEADER = re.compile(r"Total Allocatable Size \((K?)B\)")
_PLACES = ("", "reports", "generated/reports")


def sniff(head: Head) -> bool:
    """The summary among the files, or a folder that has one where tt-metal puts it."""
    if head.is_folder and head.path is not None:
        return _folder_in(head.path) is not None
    return HEADER.search(head.content[:200].decode("ascii", "replace")) is not None


def read(source: str | Path, options: ReadOptions) -> Profile:
    """The memory history in the reports."""
    from ttmem.readers.memory_report.files import read_memory_report

    return read_memory_report(_folder_in(Path(source)) or source, name=options.name)


def _folder_in(folder: Path) -> Path | None:
    places = (folder / place for place in _PLACES)
    return next((place for place in places if any(place.glob(f"*{SUMMARY}"))), None)
