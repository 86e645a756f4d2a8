# SPDX-License-Identifier: Apache-2.0
"""From a file to what it says about circular buffers: which kind it is, is seen from its content.

Here and not in ``circular_buffers``, because it asks rooms that that one may not know: readers and explain.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

from ttmem._errors import BadInputError, TtmemError
from ttmem.circular_buffers.capture import nodes_of, programs_of
from ttmem.circular_buffers.evidence import (
    CAPTURE,
    LOG,
    PROFILE,
    PROFILER,
    WATCHER,
    Evidence,
    FailureFact,
    ProgramPeakFact,
)
from ttmem.circular_buffers.log_facts import LogFactsReader
from ttmem.circular_buffers.profiler_csv import header_first, is_profiler_header, read_profiler_csv
from ttmem.circular_buffers.watcher import WatcherReader
from ttmem.commands._progress import progress_bar
from ttmem.library import sources as _sources
from ttmem.library.read import read

_HEAD_LINES = 20
_BATCH_LINES = 20_000
_WINDOW_LINES = 8
_MOST_WINDOW_LINES = 50_000
_LINE_BYTES = 1 << 20
_MOST_JSON_BYTES = 1 << 30


def collect(source: str, *, quiet: bool = False) -> Evidence:
    """Everything that a source says about circular buffers, with a progress bar for large ones."""
    path = _sources.locate(source).path
    if isinstance(path, Path) and (path.is_dir() or _is_database_or_saved(path)):
        return _profile(source)
    from ttmem.readers.byte_source import open_bytes

    stream, size, name = open_bytes(path)
    with stream, progress_bar(f"reading {name}", quiet=quiet) as progress:
        first = stream.read(1 << 16)
        if not first.strip():
            raise BadInputError("is empty", where=name)
        if first.lstrip()[:1] in (b"[", b"{") and (found := _json(first, stream, name)) is not None:
            return found
        if b"\0" in first:
            raise BadInputError("is neither text nor a capture", where=name)
        # A packed source has more bytes than its file: then there is no end to show.
        seen = None if progress is None else lambda done: progress(done, size if done <= size else 0)
        return _text(first, stream, name, seen)


def _is_database_or_saved(path: Path) -> bool:
    from ttmem.profile.storage import is_saved_profile

    try:
        with path.open("rb") as stream:
            head = stream.read(64)
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}", where=str(path)) from error
    return head.startswith(b"SQLite format 3") or is_saved_profile(head)


def _profile(source: str) -> Evidence:
    """A source that only the readers understand; its profile tells what programs took, if its maker knew."""
    from ttmem.analysis.programs_l1 import programs_peak

    profile = read(source)
    peak = programs_peak(profile)
    fact = None
    if peak is not None:
        where = f" at {peak.location}" if peak.location else ""
        fact = ProgramPeakFact(f"#{peak.index} {peak.name}{where}", peak.parts, peak.unmeasured_operations)
    return Evidence(profile.name, PROFILE, peak=fact)


def _json(first: bytes, stream: BinaryIO, name: str) -> Evidence | None:
    """A capture; None when the text only begins like JSON (``[2025-...] [info]``)."""
    if first.lstrip()[:1] == b"[" and first.lstrip()[1:].lstrip()[:1] not in (b"{", b"]"):
        return None
    content = first + stream.read(_MOST_JSON_BYTES)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"begins like JSON but is none: {error}", where=name) from error
    nodes = nodes_of(document)
    if nodes is None:
        raise BadInputError(
            "is JSON, but no graph capture", where=name, hint="a capture is a list of nodes with a node_type"
        )
    return Evidence(name, CAPTURE, programs=programs_of(nodes))


def _text(first: bytes, stream: BinaryIO, name: str, seen: Callable[[int], None] | None) -> Evidence:
    lines = _lines(first, stream, seen)
    head = list(islice(lines, _HEAD_LINES))
    lines = chain(head, lines)
    if any(is_profiler_header(line) for line in head):
        return Evidence(name, PROFILER, profiler=read_profiler_csv(header_first(lines), name))
    facts, watcher, failures = LogFactsReader(), WatcherReader(), _FailureWindows()
    while batch := list(islice(lines, _BATCH_LINES)):
        facts.take(batch)
        watcher.take(batch)
        failures.take(batch)
    watched = watcher.facts()
    kind = WATCHER if watched is not None and watched.cores else LOG
    return Evidence(name, kind, log=facts.facts(), watcher=watched, failures=failures.found())


def _lines(first: bytes, stream: BinaryIO, seen: Callable[[int], None] | None) -> Iterator[str]:
    """Text lines; one without an end (a constant of many MB) is cut."""
    left, done = first, len(first)
    while True:
        *whole, left = left.split(b"\n")
        for line in whole:
            yield line[:_LINE_BYTES].decode("utf-8", "replace").rstrip("\r")
        try:
            more = stream.read(1 << 20)
        except (OSError, EOFError) as error:
            raise TtmemError(f"cannot be read to its end: {error}") from error
        if not more:
            break
        done += len(more)
        if seen is not None:
            seen(done)
        left = left[:_LINE_BYTES] + more
    if left:
        yield left[:_LINE_BYTES].decode("utf-8", "replace").rstrip("\r")


class _FailureWindows:
    """The lines that may tell of a failure and a few below each, for ``explain`` to judge."""

    def __init__(self) -> None:
        from ttmem.explain import MARKERS

        self._markers = tuple(marker.decode() for marker in MARKERS)
        self._number = 0
        self._left = 0
        self._windows: list[tuple[int, list[str]]] = []
        self._kept = 0

    def take(self, lines: list[str]) -> None:
        for line in lines:
            self._number += 1
            marked = any(marker in line for marker in self._markers)
            if marked and self._kept < _MOST_WINDOW_LINES:
                if not self._left:
                    self._windows.append((self._number, []))
                self._left = _WINDOW_LINES
            if self._left:
                self._windows[-1][1].append(line[:4000])
                self._left -= 1
                self._kept += 1

    def found(self) -> tuple[FailureFact, ...]:
        from ttmem.explain import deduplicate, find_failures

        failures = [one for first, lines in self._windows for one in find_failures("\n".join(lines), first_line=first)]
        return tuple(
            FailureFact(one.failure_class, one.message, dict(one.numbers), one.line) for one in deduplicate(failures)
        )
