# SPDX-License-Identifier: Apache-2.0
"""The user's files behind a capture: how a place in them is written, and what a profile says of the script."""

from __future__ import annotations

import os
from pathlib import Path

from ttmem.profile import Source


class Places:
    """Files of operations, each looked at once."""

    def __init__(self, script: str) -> None:
        self._script = os.path.realpath(script)
        self._here = str(Path.cwd()) + os.sep
        self._known: dict[str, tuple[str, bool]] = {}

    def location(self, file: str, line: int) -> str:
        """``file:line`` as short as it stays clear: relative to where the user is, when the file is below it."""
        return f"{self._of(file)[0]}:{line}" if file else ""

    def is_script(self, file: str) -> bool:
        return self._of(file)[1]

    def _of(self, file: str) -> tuple[str, bool]:
        if file not in self._known:
            self._known[file] = (file.removeprefix(self._here), os.path.realpath(file) == self._script)
        return self._known[file]


def source_of(script: str, *, kind: str, warnings: tuple[str, ...]) -> Source:
    """What was run. A script that is gone or cannot be read costs its size, not the profile."""
    try:
        content = Path(script).read_bytes()
    except OSError:
        content = b""
    return Source(kind=kind, name=script, bytes=len(content), lines=content.count(b"\n"), warnings=warnings)
