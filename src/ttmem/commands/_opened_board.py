# SPDX-License-Identifier: Apache-2.0
"""The board that the opening options describe, for the verbs that ask the twin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem._errors import BadInputError

if TYPE_CHECKING:
    from ttmem.hardware import MemoryMap


def open_chosen(
    board: str | None,
    *,
    release: str | None,
    like: str | None,
    l1_small: int | None,
    trace_region: int | None,
    worker_l1: int | None,
    dispatch: str | None,
) -> MemoryMap:
    """The memory map that the options describe; n150 unless a board is named or the evidence shows another."""
    from ttmem.hardware import DEFAULT_RELEASE, OpenSettings, open_board

    if like is None:
        settings = OpenSettings(l1_small or 0, trace_region or 0, worker_l1 or 0, dispatch)
        return open_board(board or "n150", settings, release or DEFAULT_RELEASE)
    given = {"--release": release, "--l1-small": l1_small, "--trace-region": trace_region, "--worker-l1": worker_l1}
    for option, value in {**given, "--dispatch": dispatch}.items():
        if value is not None:
            raise click.UsageError(f"{option} and --like both say how the device was opened; choose one")
    from ttmem.allocator.evidence import learn_board

    return learn_board(evidence_lines(like), board)


def evidence_lines(like: str) -> Iterator[str]:
    """Lines of a file (packed or not, - for stdin), or of the text itself when it is no file."""
    if like == "-" or Path(like).exists():
        yield from text_lines(like)
    elif " " in like.strip():
        yield from like.splitlines()
    else:
        raise BadInputError(
            f"--like {like!r}: no such file", hint="name a log or a capture, or quote an out-of-memory message"
        )


def text_lines(source: str) -> Iterator[str]:
    """Lines of a file, packed or not; - is standard input."""
    from ttmem.readers.byte_source import open_bytes

    stream, _, _ = open_bytes(source)
    with stream:
        for line in stream:
            yield line.decode("utf-8", "replace")


def describe_opening(memory_map: MemoryMap) -> str:
    """One line: which board, opened how, sizes from where."""
    settings = memory_map.settings
    parts = [f"{memory_map.board_name} ({memory_map.architecture}, grid {memory_map.grid})"]
    if memory_map.l1_small.bytes_per_bank:
        parts.append(f"L1_SMALL {memory_map.l1_small.bytes_per_bank:,} B per bank")
    if memory_map.trace.bytes_per_bank:
        parts.append(f"TRACE {memory_map.trace.bytes_per_bank:,} B per bank")
    if settings.worker_l1_bytes:
        parts.append(f"worker_l1_size {settings.worker_l1_bytes:,} B")
    return f"{', '.join(parts)}; bank sizes: {memory_map.source}"


def opening_document(memory_map: MemoryMap) -> dict[str, Any]:
    """The same for machines."""
    return {
        "board": memory_map.board_name,
        "bank_sizes_from": memory_map.source,
        "l1_small_bytes_per_bank": memory_map.l1_small.bytes_per_bank,
        "trace_region_bytes_per_bank": memory_map.trace.bytes_per_bank,
        "grid": [memory_map.grid.columns, memory_map.grid.rows],
    }
