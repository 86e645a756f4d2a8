# SPDX-License-Identifier: Apache-2.0
"""Which board is opened and how, for the calls that ask the twin."""

from collections.abc import Iterator
from pathlib import Path

from ttmem.base.errors import BadInputError
from ttmem.hardware import DEFAULT_RELEASE, MemoryMap, OpenSettings, open_board
from ttmem.readers.sources import STDIN, exists


def opened_board(
    board: str | None = None,
    *,
    release: str | None = None,
    like: str | None = None,
    l1_small: int | None = None,
    trace_region: int | None = None,
    worker_l1: int | None = None,
    dispatch: str | None = None,
) -> MemoryMap:
    """The memories of an opened board; n150 unless a board is named or the evidence shows another.

    ``like`` is a log, a capture or an out-of-memory message whose bank sizes count, because builds differ from the
    published releases. The others are the arguments of ``open_device`` that move memory, in bytes; their defaults are
    the library's.
    """
    if like is None:
        settings = OpenSettings(l1_small or 0, trace_region or 0, worker_l1 or 0, dispatch)
        return open_board(board or "n150", settings, release or DEFAULT_RELEASE)
    given = {"release": release, "l1-small": l1_small, "trace-region": trace_region, "worker-l1": worker_l1}
    for name, value in {**given, "dispatch": dispatch}.items():
        if value is not None:
            raise BadInputError(f"--{name} and --like both say how the device was opened; choose one")
    from ttmem.twin.infer_banks import learn_board

    return learn_board(_evidence_lines(like), board)


def text_lines(source: str | Path) -> Iterator[str]:
    """Lines of a file, packed or not; ``-`` is standard input."""
    from ttmem.readers.byte_source import OpenedSource

    with OpenedSource(source) as opened:
        yield from opened.lines()


def _evidence_lines(like: str) -> Iterator[str]:
    """Of a file, or of the text itself when it is no file."""
    if like == STDIN or exists(Path(like)):
        return text_lines(like)
    if len(like.split()) > 1:
        return iter(like.splitlines())
    raise BadInputError(
        f"--like {like!r}: no such file", hint="name a log or a capture, or quote an out-of-memory message"
    )
