# SPDX-License-Identifier: Apache-2.0
"""Readers, one module per kind of evidence; ``registry`` lists them and recognises a source by its content."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ttmem.base.errors import BadInputError, as_bad_input
from ttmem.base.lazy import lazy_names

if TYPE_CHECKING:
    from ttmem.profile.model import Profile
    from ttmem.readers.byte_source import Head, Progress

_COMMON_NAMES = ("db", "report", "reports", "graph_capture", "capture", "memory_results", "memory_report", "generated")
"""What every report is called: its folder tells more."""


def read(
    source: str | Path,
    *,
    name: str | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    mlir: Sequence[str | Path] = (),
) -> Profile:
    """The Profile in a source: a runtime log (plain or packed, ``-``), a saved profile, an .mlir file, a graph
    capture, a ttnn-visualizer report, tt-metal's memory reports or ttrt's memory results.

    ``mlir`` names module dumps that belong to the log but lie in files of their own; ``jobs`` bounds the processes
    that read a large log (None: as many as pay off).
    """
    from ttmem.readers.byte_source import Head
    from ttmem.readers.registry import PROFILE, ReadOptions, detect

    head = Head.read(source)
    reader = detect(head, PROFILE)
    if reader is None:
        raise _explain_unknown(head, str(source))
    with as_bad_input(str(source), reader.title):
        profile: Profile = reader.read(source, ReadOptions(name or default_name(source), jobs, progress, mlir))
    return profile


def _explain_unknown(head: Head, where: str) -> BadInputError:
    if head.is_folder:
        return BadInputError(
            "is a folder, but not a report that can be read",
            where=where,
            hint="a report folder has a db.sqlite, a report.json or a *memory_usage_summary.csv; or name a file in it",
        )
    return BadInputError(
        "is JSON, but not of a kind that can be read",
        where=where,
        hint="known are graph captures, their report.json, and ttrt's memory_results.json; a document that ttmem "
        "printed is not a source, its stored report is (ttmem reports)",
    )


def default_name(source: str | Path) -> str:
    """The report's name when none is given: the file's stem without what every log is called."""
    from ttmem.readers.byte_source import strip_packing

    if str(source) == "-":
        return "stdin"
    path = Path(source)
    stem = strip_packing(path.name)
    document = stem.removesuffix(".json").removesuffix(".sqlite")
    if document in _COMMON_NAMES:
        parents = (parent.name for parent in path.absolute().parents)
        return next((parent for parent in parents if parent and parent not in _COMMON_NAMES), document)
    if document != stem:
        return document
    for suffix in (".log", ".txt", ".mlir", ".ttmem"):
        stem = stem.removesuffix(suffix)
    return stem.removesuffix("_profile") or "log"


__getattr__ = lazy_names(__name__, {"follow": "runtime_log.reader"})  # only one verb follows a log

__all__ = ["default_name", "read"]
