# SPDX-License-Identifier: Apache-2.0
"""The board that ``tensor`` and ``replay`` ask the twin about, and how it is opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ttmem.base.errors import BadInputError

if TYPE_CHECKING:
    from ttmem.hardware import MemoryMap


def open_requested_board(
    board: str | None = None,
    *,
    release: str | None = None,
    like: str | None = None,
    l1_small: int | None = None,
    trace_region: int | None = None,
    worker_l1: int | None = None,
    dispatch: str | None = None,
) -> MemoryMap:
    """Return the memories of an opened board: n150, unless a board is named or ``like`` is from another one.

    ``like`` is a log, a capture or an out-of-memory message whose bank sizes count, because builds differ from the
    published releases. The others are the arguments of ``open_device`` that move memory, in bytes; their defaults are
    the library's.
    """
    from ttmem.hardware import DEFAULT_RELEASE, OpenSettings, open_board
    from ttmem.twin.infer_banks import learn_board

    if like is None:
        settings = OpenSettings(l1_small or 0, trace_region or 0, worker_l1 or 0, dispatch)
        return open_board(board or "n150", settings, release or DEFAULT_RELEASE)
    given = {"release": release, "l1-small": l1_small, "trace-region": trace_region, "worker-l1": worker_l1}
    for name, value in {**given, "dispatch": dispatch}.items():
        if value is not None:
            raise BadInputError(f"--{name} and --like both say how the device was opened; choose one")
    return learn_board(_read_evidence(like), board)


def read_lines(source: str | Path, *, refuse_long: bool = False) -> Iterator[str]:
    """Yield the lines of a file, packed or not; ``-`` is standard input."""
    from ttmem.readers.byte_source import OpenedSource

    with OpenedSource(source) as opened:
        yield from opened.lines(refuse_long=refuse_long)


def _read_evidence(like: str) -> Iterator[str]:
    """Yield the lines of a file, or of the text itself when it is no file."""
    from ttmem.readers.sources import STDIN, exists

    if like == STDIN or exists(Path(like)):
        return read_lines(like)
    if len(like.split()) > 1:
        return iter(like.splitlines())
    raise BadInputError(
        f"--like {like!r}: no such file", hint="name a log or a capture, or quote an out-of-memory message"
    )
