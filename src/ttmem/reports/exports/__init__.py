# SPDX-License-Identifier: Apache-2.0
"""Profiles in the formats of other tools: one file per target.

``ttmem.export`` reads a source and calls ``export``.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from ttmem.base.atomic_files import require_writable
from ttmem.base.atomic_folders import require_replaceable
from ttmem.base.errors import BadInputError

if TYPE_CHECKING:
    from ttmem.profile.model import Profile

TARGETS = {
    "visualizer": ("ttmem.reports.exports.visualizer", "write_report"),
    "perfetto": ("ttmem.reports.exports.perfetto", "write_trace"),
    "parquet": ("ttmem.reports.exports.tables", "write_parquet"),
    "csv": ("ttmem.reports.exports.tables", "write_csv"),
}
"""Target -> module and function; each is imported when it is needed."""


def export(profile: Profile, target: str, out: str | Path, *, with_source: bool = False) -> Path:
    """Write the profile and return where it went.

    ``visualizer``, ``parquet`` and ``csv`` write a folder, ``perfetto`` a file. ``with_source`` also embeds the user's
    source files that the operations point to, where a target has a place for them.
    """
    check_place(target, Path(out))
    module, function = TARGETS[target]
    written: Path = getattr(importlib.import_module(module), function)(profile, Path(out), with_source=with_source)
    return written


def check_place(target: str, out: Path) -> None:
    """Refuse an unknown target, or a place that cannot be, before minutes are spent on what should go there."""
    if target not in TARGETS:
        raise BadInputError(f"no export target '{target}'", hint=f"known: {', '.join(TARGETS)}")
    (require_writable if target == "perfetto" else require_replaceable)(out)


__all__ = ["TARGETS", "check_place", "export"]
