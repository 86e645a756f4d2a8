# SPDX-License-Identifier: Apache-2.0
"""Profiles in the formats of other tools: one file per target.

``ttmem.export`` reads a source and calls ``export``.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from ttmem.base.atomic_files import require_writable
from ttmem.base.errors import BadInputError
from ttmem.reports.exports._place import check_folder

if TYPE_CHECKING:
    from ttmem.profile.model import Profile

TARGETS = {
    "visualizer": "ttmem.reports.exports.visualizer",
    "perfetto": "ttmem.reports.exports.perfetto",
    "parquet": "ttmem.reports.exports.parquet_files",
    "csv": "ttmem.reports.exports.csv_files",
}
"""Target -> module with a ``write``; each is imported when it is wanted."""


def export(profile: Profile, target: str, out: str | Path, *, with_source: bool = False) -> Path:
    """Write the profile and return where it went.

    ``visualizer``, ``parquet`` and ``csv`` write a folder, ``perfetto`` a file. ``with_source`` also embeds the user's
    source files that the operations point to, where a target has a place for them.
    """
    check_place(target, Path(out))
    written: Path = importlib.import_module(TARGETS[target]).write(profile, Path(out), with_source=with_source)
    return written


def check_place(target: str, out: Path) -> None:
    """Refuse an unknown target, or a place that cannot be, before minutes are spent on what should go there."""
    if target not in TARGETS:
        raise BadInputError(f"no export target '{target}'", hint=f"known: {', '.join(TARGETS)}")
    (require_writable if target == "perfetto" else check_folder)(out)


__all__ = ["TARGETS", "check_place", "export"]
