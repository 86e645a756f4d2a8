# SPDX-License-Identifier: Apache-2.0
"""``circular_buffer_evidence``: what a source of any kind says about circular buffers.

Here and not in ``circular_buffers``, because it asks rooms that that one may not know: readers and explain.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from ttmem import readers
from ttmem.base.errors import BadInputError
from ttmem.circular_buffers import measured_facts as kinds
from ttmem.circular_buffers.measured_facts import Evidence, FailureFact, ProgramPeakFact
from ttmem.engines.worker.graph_nodes.programs import nodes_of, programs_of
from ttmem.readers import registry, sources
from ttmem.readers.byte_source import OpenedSource, Progress, TextLines, TruncatedSourceError
from ttmem.readers.log_facts import LogFactsReader
from ttmem.readers.watcher import WatcherReader


def circular_buffer_evidence(source: str, *, progress: Progress | None = None) -> Evidence:
    """Everything that a source says about circular buffers; ``progress`` is called with (bytes read, bytes in all)."""
    path = sources.locate(source).path
    if isinstance(path, Path) and path.is_dir():
        return _of_profile(path)
    with OpenedSource(path) as opened:
        head = opened.head
        if not head.content.strip():
            raise BadInputError("is empty", where=opened.name)
        if head.is_json:
            return _of_capture(opened)
        reader = registry.detect(head, registry.PROFILE, registry.PROFILER_FACTS, registry.LOG_FACTS)
        if reader is not None and reader.gives == registry.PROFILER_FACTS:
            table = reader.read(opened.lines(progress), opened.name)
            return Evidence(opened.name, kinds.PROFILER, profiler=table, left_out=opened.left_out)
        if head.is_text:
            return _of_text(opened, progress)
        if reader in (None, registry.FALLBACK):
            raise BadInputError("is neither text nor a capture", where=opened.name)
    return _of_profile(path)


def _of_profile(path: str | Path) -> Evidence:
    """A source that only the readers understand; its profile tells what programs took, if its maker knew."""
    from ttmem.analysis.programs_l1 import programs_peak

    profile = readers.read(path)
    peak = programs_peak(profile)
    if peak is None:
        return Evidence(profile.name, kinds.PROFILE)
    where = f"#{peak.index} {peak.name}" + (f" at {peak.location}" if peak.location else "")
    return Evidence(profile.name, kinds.PROFILE, peak=ProgramPeakFact(where, peak.parts, peak.unmeasured_operations))


def _of_capture(opened: OpenedSource) -> Evidence:
    """The programs of a capture, which say more of circular buffers than its profile keeps."""
    try:
        nodes = nodes_of(json.loads(opened.json_content()))
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"begins like JSON but is none: {error}", where=opened.name) from error
    if nodes is None:
        raise BadInputError(
            "is JSON, but no graph capture", where=opened.name, hint="a capture is a list of nodes with a node_type"
        )
    return Evidence(opened.name, kinds.CAPTURE, programs=tuple(one for one in programs_of(nodes) if one.buffers))


def _of_text(opened: OpenedSource, progress: Progress | None) -> Evidence:
    """A log may hold lines of every kind, so all that look at lines see each of them, in one pass over its bytes."""
    from ttmem.failures import find_in_chunks

    facts, watcher, splitter = LogFactsReader(), WatcherReader(), TextLines()

    def take(lines: list[str]) -> None:
        facts.take(lines)
        watcher.take(lines)

    def looked_at() -> Iterator[bytes]:
        for chunk in opened.chunks(progress):
            take(splitter.split(chunk))
            yield chunk

    try:
        found = find_in_chunks(looked_at())
    except TruncatedSourceError as error:
        raise BadInputError(f"cannot be read to its end: {error.reason}", where=opened.name) from error
    take(splitter.rest())
    watched = watcher.facts()
    kind = kinds.WATCHER if watched is not None and watched.cores else kinds.LOG
    failures = tuple(
        FailureFact(one.failure_class, one.message, dict(one.numbers), one.line)
        for one in found.failures
        if one.failure_class != "none"
    )
    left_out = (*found.left_out, *splitter.long_lines.remarks, *opened.remarks)
    return Evidence(opened.name, kind, log=facts.facts(), watcher=watched, failures=failures, left_out=left_out)
