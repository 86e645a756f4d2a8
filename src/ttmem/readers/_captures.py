# SPDX-License-Identifier: Apache-2.0
"""Which of the captures, databases and reports a source is, by its content; none of them is imported without need."""

from __future__ import annotations

import re
from pathlib import Path

from ttmem._errors import BadInputError
from ttmem.profile import Profile

_RANK_FILE = re.compile(r"graph_capture_(\d+)_of_\d+\.json")
_SINGLE_FILES = ("graph_capture.json", "report.json")
_COMMON_NAMES = ("db", "report", "reports", "graph_capture", "capture", "memory_results", "memory_report", "generated")
"""What every report is called: its folder tells more."""


def read_captured_file(source: str | Path, head: bytes, *, name: str) -> Profile | None:
    """The profile in a file that begins with ``head``, if it is one of these kinds."""
    from ttmem.readers import memory_report, ttrt
    from ttmem.readers.capture import graph as graph_capture
    from ttmem.readers.visualizer import reader as visualizer

    if visualizer.is_database(head):
        return visualizer.read_visualizer(source, name=name)
    if graph_capture.looks_like_capture(head):
        return graph_capture.read_graph_capture(source, name=name)
    if ttrt.looks_like_ttrt(head):
        return ttrt.read_ttrt(source, name=name)
    if memory_report.looks_like_report(head):
        return memory_report.read_memory_report(source, name=name)
    if _unpacked_name(Path(source)).endswith(".json") and head.lstrip()[:1] in (b"{", b"["):
        raise BadInputError(
            "is JSON, but none of the kinds that can be read",
            where=str(source),
            hint="known are graph captures, their report.json, and ttrt's memory_results.json; a document that ttmem "
            "printed is not a source, its stored report is (ttmem reports)",
        )
    return None


def read_folder(folder: Path, *, name: str) -> Profile:
    """The profile in a folder: a ttnn-visualizer report, captures, or tt-metal's memory reports."""
    from ttmem.readers import memory_report
    from ttmem.readers.capture import graph as graph_capture
    from ttmem.readers.visualizer import reader as visualizer
    from ttmem.readers.visualizer._database import DATABASE_NAME

    if (folder / DATABASE_NAME).is_file():
        return visualizer.read_visualizer(folder, name=name)
    ranks = [(int(match[1]), file) for file in folder.iterdir() if (match := _RANK_FILE.fullmatch(file.name))]
    if ranks:
        paths = [file for _, file in sorted(ranks)]
        return graph_capture.read_graph_captures(paths, where=str(folder), name=name)
    for single in _SINGLE_FILES:
        if (folder / single).is_file():
            return graph_capture.read_graph_captures([folder / single], where=str(folder), name=name)
    for reports in (folder, folder / "reports", folder / "generated" / "reports"):
        if memory_report.is_report_folder(reports):
            return memory_report.read_memory_report(reports, name=name)
    raise BadInputError(
        "is a folder, and none of the kinds that can be read",
        where=str(folder),
        hint="a report folder has a db.sqlite, a report.json or a *memory_usage_summary.csv; or name a file in it",
    )


def captured_name(source: Path) -> str | None:
    """The name of a report that is called like every other: its folder's."""
    unpacked = _unpacked_name(source)
    stem = unpacked.removesuffix(".json").removesuffix(".sqlite")
    if stem not in _COMMON_NAMES:
        return stem if stem != unpacked else None
    parents = (parent.name for parent in source.absolute().parents)
    return next((parent for parent in parents if parent and parent not in _COMMON_NAMES), None)


def _unpacked_name(source: Path) -> str:
    return source.name.removesuffix(".gz").removesuffix(".zst")
