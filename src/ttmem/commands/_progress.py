# SPDX-License-Identifier: Apache-2.0
"""A progress bar on stderr, for a person who waits: only on a terminal, and only after a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_SECONDS = 1.0


@contextmanager
def progress_bar(label: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """A function to call with (done, total); None where nobody would see the bar, so that readers need not count."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(label)
    try:
        yield bar.update
    finally:
        bar.close()


class _Bar:
    def __init__(self, label: str) -> None:
        self._label = label
        self._started = time.monotonic()
        self._shown: tuple[Progress, TaskID] | None = None

    def update(self, done: int, total: int) -> None:
        if self._shown is None:
            if time.monotonic() - self._started < PATIENCE_SECONDS:
                return
            self._shown = self._show()
        progress, task = self._shown
        progress.update(task, completed=done, total=total or None)

    def close(self) -> None:
        if self._shown is not None:
            self._shown[0].stop()

    def _show(self) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        progress.start()
        return progress, progress.add_task(self._label, total=None)
