# SPDX-License-Identifier: Apache-2.0
"""A progress bar on stderr, for a person who waits: only on a terminal, and only after a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ttmem.base.text_safety import escape_control_characters

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE_SECONDS = 1.0


@contextmanager
def progress_bar(label: str, *, quiet: bool = False, of_bytes: bool = True) -> Iterator[Callable[..., None] | None]:
    """A function to call with (done, total); None where nobody would see the bar, so that readers need not count.

    A third argument names what is being done now, instead of ``label``.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    started, shown = time.monotonic(), list[Any]()

    def update(done: int, total: int, name: str = label) -> None:
        if not shown and time.monotonic() - started >= PATIENCE_SECONDS:
            shown.append(_started(label, of_bytes=of_bytes))
        for bar in shown:
            bar.update(
                bar.task_ids[0], completed=done, total=total or None, description=escape_control_characters(name)
            )

    try:
        yield update
    finally:
        for bar in shown:
            bar.stop()


def _started(label: str, *, of_bytes: bool) -> Progress:
    from rich import progress
    from rich.console import Console

    amount = progress.DownloadColumn() if of_bytes else progress.MofNCompleteColumn()
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        amount,
        progress.TimeRemainingColumn(),
    )
    bar = progress.Progress(*columns, console=Console(stderr=True), transient=True)
    bar.start()
    bar.add_task(escape_control_characters(label), total=None)
    return bar
