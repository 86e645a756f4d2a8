# SPDX-License-Identifier: Apache-2.0
"""Sources: a path that exists, standard input (``-``) or the name of a report in the store."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ttmem.base.errors import BadInputError
from ttmem.profile import store

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Located:
    """The location of a source."""

    path: str | Path
    """What a reader opens: a path, or ``-``."""
    stored: store.StoredReport | None
    """Set when the source is a report of the store."""

    @property
    def origin(self) -> str:
        """The identity of a source; empty for standard input."""
        if self.stored:
            return store.read_origin(self.stored)
        return "" if self.path == STDIN else os.path.realpath(self.path)


def locate(source: str | Path) -> Located:
    """Find a source. A path that exists wins over a stored report of the same name, unless it is a folder of no kind
    that can be read: what other verbs print as the next step must work in every folder.
    """
    if str(source) == STDIN:
        return Located(STDIN, None)
    path = Path(source)
    found = exists(path)
    if found and not (path.is_dir() and store.find(str(source))):
        return Located(path, _report_that_owns(path))
    stored = store.find(str(source))
    if stored and not (found and _is_report_folder(path)):
        return Located(stored.profile_path, stored)
    if found:
        return Located(path, None)
    raise BadInputError(f"no such file or stored report '{source}'{_guess(str(source))}")


def exists(path: Path) -> bool:
    """False for what cannot be a path at all."""
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long for the system, or with a NUL
        return False


def _is_report_folder(path: Path) -> bool:
    from ttmem.readers.byte_source import Head
    from ttmem.readers.registry import PROFILE, detect

    return detect(Head.read(path), PROFILE) is not None


def _report_that_owns(path: Path) -> store.StoredReport | None:
    """A saved profile inside the store is that report, so reading it does not store it a second time."""
    report = store.find(path.resolve().parent.name)
    return report if report and os.path.realpath(report.profile_path) == os.path.realpath(path) else None


def _guess(source: str) -> str:
    import difflib

    names = store.list_names()
    with suppress(OSError, ValueError):
        names = [*names, *map(str, Path(source).parent.iterdir())]
    close = difflib.get_close_matches(source, names, n=3)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
