# SPDX-License-Identifier: Apache-2.0
"""``circular_buffer_evidence``: what a source of any kind says about circular buffers.

Here and not in ``circular_buffers``, because it asks rooms that that one may not know: readers and explain.
"""

from __future__ import annotations

import json
from itertools import islice

from ttmem._errors import BadInputError
from ttmem.capture_nodes.programs import nodes_of, programs_of
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
from ttmem.library import sources
from ttmem.library.read import read
from ttmem.readers import registry
from ttmem.readers.byte_source import Head, OpenedSource, Progress
from ttmem.readers.log_facts import LogFactsReader
from ttmem.readers.watcher import WatcherReader

_BATCH_LINES = 20_000
_WINDOW_LINES = 8
_MOST_WINDOW_LINES = 50_000


def circular_buffer_evidence(source: str, *, progress: Progress | None = None) -> Evidence:
    """Everything that a source says about circular buffers; ``progress`` is called with (bytes read, bytes in all)."""
    path = sources.locate(source).path
    if Head.of(path).is_folder:
        return _of_profile(source)
    with OpenedSource(path) as opened:
        head = opened.head
        if not head.content.strip():
            raise BadInputError("is empty", where=opened.name)
        if head.is_json:
            return _of_capture(opened)
        reader = registry.detect(head, registry.PROFILE, registry.PROFILER_FACTS, registry.LOG_FACTS)
        if reader is not None and reader.gives == registry.PROFILER_FACTS:
            return Evidence(opened.name, PROFILER, profiler=reader.read(opened.lines(progress), opened.name))
        if head.is_text:
            return _of_text(opened, progress)
        if reader in (None, registry.FALLBACK):
            raise BadInputError("is neither text nor a capture", where=opened.name)
    return _of_profile(source)


def _of_profile(source: str) -> Evidence:
    """A source that only the readers understand; its profile tells what programs took, if its maker knew."""
    from ttmem.analysis.programs_l1 import programs_peak

    profile = read(source)
    peak = programs_peak(profile)
    fact = None
    if peak is not None:
        where = f" at {peak.location}" if peak.location else ""
        fact = ProgramPeakFact(f"#{peak.index} {peak.name}{where}", peak.parts, peak.unmeasured_operations)
    return Evidence(profile.name, PROFILE, peak=fact)


def _of_capture(opened: OpenedSource) -> Evidence:
    """The programs of a capture, which say more of circular buffers than its profile keeps."""
    try:
        nodes = nodes_of(json.loads(opened.content()))
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"begins like JSON but is none: {error}", where=opened.name) from error
    if nodes is None:
        raise BadInputError(
            "is JSON, but no graph capture", where=opened.name, hint="a capture is a list of nodes with a node_type"
        )
    return Evidence(opened.name, CAPTURE, programs=tuple(one for one in programs_of(nodes) if one.buffers))


def _of_text(opened: OpenedSource, progress: Progress | None) -> Evidence:
    """A log may hold lines of every kind, so all that look at lines see each of them, in one pass."""
    lines = opened.lines(progress)
    facts, watcher, failures = LogFactsReader(), WatcherReader(), _FailureWindows()
    while batch := list(islice(lines, _BATCH_LINES)):
        facts.take(batch)
        watcher.take(batch)
        failures.take(batch)
    watched = watcher.facts()
    kind = WATCHER if watched is not None and watched.cores else LOG
    return Evidence(opened.name, kind, log=facts.facts(), watcher=watched, failures=failures.found())


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
