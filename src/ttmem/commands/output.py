# SPDX-License-Identifier: Apache-2.0
"""Where text goes: the answer to stdout or a file, everything else to stderr."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from ttmem.base.text_safety import escape_control_characters, one_line

NARROWEST_COLUMNS = 60


def emit(answer: str, output: Path | None) -> None:
    """The answer, whole: into the file if one was named, else alone on stdout."""
    text = escape_control_characters(answer)
    text = text if not text or text.endswith("\n") else f"{text}\n"
    if output is None:
        sys.stdout.flush()
        write_fully(sys.stdout.buffer, text.encode(sys.stdout.encoding, "backslashreplace"))
        return
    from ttmem.base.atomic_files import write_text

    write_text(output, text)


def write_fully(stream: BinaryIO, content: bytes) -> None:
    """Write all of it: an unbuffered stream (PYTHONUNBUFFERED) takes what it can, and Python would drop the rest."""
    left = memoryview(content)
    while left:
        left = left[stream.write(left) :]
    stream.flush()


def note(text: str, *, quiet: bool = False) -> None:
    """A remark for the person at the terminal."""
    if not quiet:
        say(text)


def warn(text: str) -> None:
    """Something that did not go as asked but does not change the answer."""
    say(f"ttmem: warning: {one_line(text)}")


def say(text: str, *, end: str = "\n", before: str = "") -> None:
    """Everything that goes to stderr, through the gate; ``before`` is our own (it clears a line)."""
    print(f"{before}{escape_control_characters(text)}", end=end, file=sys.stderr, flush=True)


def stderr_descriptor() -> int:
    """Where a program that we start may print: our stderr, also when something in this process took its place."""
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return 2


def json_text(document: Any) -> str:
    """One JSON document, indented; ASCII alone, so that no terminal encoding and no odd file name can break it."""
    import msgspec

    from ttmem.reports.kit.documents import indented

    return indented(msgspec.to_builtins(document))


def color_wanted(stream: TextIO) -> bool:
    """Colour on a terminal unless NO_COLOR says otherwise; FORCE_COLOR keeps it in a pipe."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def looks(output: Path | None = None) -> dict[str, Any]:
    """How an answer is drawn: as wide as the terminal, in colour when a person looks at it."""
    return {"width": columns(), "color": output is None and color_wanted(sys.stdout)}


def columns() -> int:
    """How wide a table may be."""
    return max(NARROWEST_COLUMNS, shutil.get_terminal_size((100, 24)).columns)
