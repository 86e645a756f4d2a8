# SPDX-License-Identifier: Apache-2.0
"""Output: the answer goes to stdout or a file, everything else (notes, a progress bar) to stderr."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from ttmem.base.text_safety import escape_control_characters, one_line

if TYPE_CHECKING:
    from rich.progress import Progress

NARROWEST_COLUMNS = 60
PATIENCE_SECONDS = 1.0


def emit(answer: str, output: Path | None) -> None:
    """Write the whole answer into the file, or alone to stdout."""
    text = escape_control_characters(answer)
    text = text if not text or text.endswith("\n") else f"{text}\n"
    if output is None:
        sys.stdout.flush()
        write_fully(sys.stdout.buffer, text.encode(sys.stdout.encoding, "backslashreplace"))
        return
    from ttmem.base.atomic_files import write_text

    write_text(output, text)


def write_fully(stream: BinaryIO, content: bytes) -> None:
    """Write all of it: an unbuffered stream (PYTHONUNBUFFERED) may take less, and Python would drop the rest."""
    left = memoryview(content)
    while left:
        left = left[stream.write(left) :]
    stream.flush()


def note(text: str, *, quiet: bool = False) -> None:
    """Print a remark for the person at the terminal."""
    if not quiet:
        say(text)


def warn(text: str) -> None:
    """Print a warning: something failed, but the answer is the same."""
    say(f"ttmem: warning: {one_line(text)}")


def say(text: str, *, end: str = "\n", before: str = "") -> None:
    """Print to stderr without control characters; ``before`` is our own (it clears a line)."""
    print(f"{before}{escape_control_characters(text)}", end=end, file=sys.stderr, flush=True)


def stderr_descriptor() -> int:
    """Return the descriptor for a program that we start: our stderr, even when ``sys.stderr`` was replaced."""
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return 2


def json_text(document: Any) -> str:
    """Format one JSON document: indented, ASCII alone, so that no terminal encoding and no file name can break it."""
    import msgspec

    from ttmem.reports.kit.documents import format_json

    return format_json(msgspec.to_builtins(document))


def color_wanted(stream: TextIO) -> bool:
    """Return whether to use colour: on a terminal, unless NO_COLOR is set; in a pipe with FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def looks(output: Path | None = None) -> dict[str, Any]:
    """Return width and colour of an answer: those of the terminal; no colour in a file."""
    return {"width": columns(), "color": output is None and color_wanted(sys.stdout)}


def columns() -> int:
    """Return the width of tables."""
    return max(NARROWEST_COLUMNS, shutil.get_terminal_size((100, 24)).columns)


@contextmanager
def progress_bar(label: str, *, quiet: bool = False, of_bytes: bool = True) -> Iterator[Callable[..., None] | None]:
    """Yield a function to call with (done, total); None where no bar is shown, so that readers need not count.

    It appears after a second and only on a terminal. A third argument replaces ``label``.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    started, shown = time.monotonic(), list[Any]()

    def update(done: int, total: int, name: str = label) -> None:
        if not shown and time.monotonic() - started >= PATIENCE_SECONDS:
            shown.append(_start_bar(label, of_bytes=of_bytes))
        for bar in shown:
            bar.update(
                bar.task_ids[0], completed=done, total=total or None, description=escape_control_characters(name)
            )

    try:
        yield update
    finally:
        for bar in shown:
            bar.stop()


def _start_bar(label: str, *, of_bytes: bool) -> Progress:
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
