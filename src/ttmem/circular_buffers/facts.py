# SPDX-License-Identifier: Apache-2.0
"""Facts about circular buffers from one source, and what the source cannot show."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ttmem import readers
from ttmem.base.errors import BadInputError
from ttmem.engines.worker.graph_nodes import CapturedProgram, find_nodes, read_programs
from ttmem.profile.source_facts import EVENT, LogFacts, ProfilerFacts, WatcherFacts
from ttmem.readers import registry, sources
from ttmem.readers.byte_source import OpenedSource, Progress, TextLines, TruncatedSourceError
from ttmem.readers.log_facts import LogFactsReader
from ttmem.readers.watcher import WatcherReader

LOG, WATCHER, PROFILER, CAPTURE, PROFILE = "log", "watcher-log", "profiler-csv", "graph-capture", "profile"

INSTEAD = (
    "ttmem run SCRIPT captures circular and dataflow buffers of every program without a card",
    "TT_METAL_DEVICE_PROFILER=1 TT_METAL_PROFILER_SUM=1 on a card measures compute's waits (table of operations, CSV)",
    "TT_METAL_WATCHER=10 shows who waits on which buffer when a program hangs (generated/watcher/watcher.log)",
    "print 'TTMEM cb=<index> op=<reserve|push|wait|pop> n=<pages> t=<cycles>' from a kernel (DPRINT) to see its events",
)
"""What to capture where a log has nothing."""


@dataclass(frozen=True, slots=True)
class FailureFact:
    """A failure in the source."""

    failure_class: str
    message: str
    numbers: Mapping[str, int]
    line: int | None


@dataclass(frozen=True, slots=True)
class ProgramPeakFact:
    """The worst operation of a profile that knows programs."""

    operation: str
    parts: Mapping[str, int]
    """Bytes per core by who holds them."""
    unmeasured_operations: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """The facts of one source."""

    name: str
    kind: str
    log: LogFacts | None = None
    watcher: WatcherFacts | None = None
    profiler: ProfilerFacts | None = None
    programs: tuple[CapturedProgram, ...] = ()
    peak: ProgramPeakFact | None = None
    failures: tuple[FailureFact, ...] = ()
    left_out: tuple[str, ...] = ()
    """What of the source was too much to be looked at."""

    @property
    def has_events(self) -> bool:
        """True if single reserves, pushes, waits or pops are visible."""
        return self.log is not None and self.log.counts.get(EVENT, 0) > 0

    @property
    def has_facts(self) -> bool:
        """True if it has any fact about circular buffers."""
        return bool(
            (self.log and self.log.counts)
            or (self.watcher and (self.watcher.stuck_cores or self.watcher.overflow_lines))
            or (self.profiler and self.profiler.measured)
            or self.programs
            or self.peak
            or any(failure.failure_class.startswith("buffers/") for failure in self.failures)
        )

    @property
    def verdict(self) -> str:
        """Return a sentence on what this source can and cannot show."""
        if self.kind in (CAPTURE, PROFILE):
            return _describe_capture(self)
        if self.kind == PROFILER and self.profiler is not None:
            return _describe_profiler(self.profiler)
        if self.kind == WATCHER and self.watcher is not None:
            return _describe_watcher(self.watcher)
        return _describe_log(self)


def _describe_capture(evidence: Evidence) -> str:
    if not evidence.has_facts:
        return (
            "no program of this capture allocated a circular buffer: captures that dispatch list them only on a miss "
            "of the program cache, and never dataflow buffers"
        )
    return "bytes are exact; a capture holds allocations, not single reserves, pushes and pops"


def _describe_profiler(found: ProfilerFacts) -> str:
    if not found.has_columns:
        return "the profiler did not sum compute's waits on circular buffers: run again with TT_METAL_PROFILER_SUM=1"
    if not found.measured:
        return "no operation of this table has a measured wait"
    return "waits are measured on the card: the truth that predictions are held to"


def _describe_watcher(found: WatcherFacts) -> str:
    if found.stuck_cores:
        cores = len(found.stuck_cores)
        return f"{cores} core{'s' if cores > 1 else ''} stood in a wait on a circular buffer at the last dump"
    return "no core stood in a wait on a circular buffer at the last dump"


def _describe_log(evidence: Evidence) -> str:
    log = evidence.log
    if log is None:
        return "nothing was read"
    if evidence.has_events:
        return "holds events that kernels printed themselves (TTMEM lines)"
    no_events = "the runtime logs no reserve, push or pop at any level, so this log cannot contain such events"
    if not log.logger_lines:
        return f"no line of the runtime's logger: {no_events}"
    if not log.debug_lines:
        return (
            "no debug line: the level was not set (TT_LOGGER_LEVEL=debug) or the binary was built without debug logs "
            f"(Release builds and wheels are); {no_events}"
        )
    if not evidence.has_facts:
        return f"debug lines, but of no operation that prints its circular buffers; {no_events}"
    return f"only what operations print of their own buffers; {no_events}"


def circular_buffer_evidence(source: str, *, progress: Progress | None = None) -> Evidence:
    """Everything that a source says about circular buffers; ``progress`` is called with (bytes read, bytes in all)."""
    path = sources.locate(source).path
    if isinstance(path, Path) and path.is_dir():
        return _read_profile(path)
    with OpenedSource(path) as opened:
        head = opened.head
        if not head.content.strip():
            raise BadInputError("is empty", where=opened.name)
        if head.is_json:
            return _read_capture(opened)
        reader = registry.detect(head, registry.PROFILE, registry.PROFILER_FACTS, registry.LOG_FACTS)
        if reader is not None and reader.gives == registry.PROFILER_FACTS:
            table = reader.read(opened.lines(progress), opened.name)
            return Evidence(opened.name, PROFILER, profiler=table, left_out=opened.left_out)
        if head.is_text:
            return _read_text(opened, progress)
        if reader in (None, registry.FALLBACK):
            raise BadInputError("is neither text nor a capture", where=opened.name)
    return _read_profile(path)


def _read_profile(path: str | Path) -> Evidence:
    """A source that only the readers understand; its profile tells what programs took, if its maker knew."""
    from ttmem.analysis.programs_l1 import programs_peak

    profile = readers.read(path)
    peak = programs_peak(profile)
    if peak is None:
        return Evidence(profile.name, PROFILE)
    where = f"#{peak.index} {peak.name}" + (f" at {peak.location}" if peak.location else "")
    return Evidence(profile.name, PROFILE, peak=ProgramPeakFact(where, peak.parts, peak.unmeasured_operations))


def _read_capture(opened: OpenedSource) -> Evidence:
    """The programs of a capture, which say more of circular buffers than its profile keeps."""
    try:
        nodes = find_nodes(json.loads(opened.json_content()))
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"begins like JSON but is none: {error}", where=opened.name) from error
    if nodes is None:
        raise BadInputError(
            "is JSON, but no graph capture", where=opened.name, hint="a capture is a list of nodes with a node_type"
        )
    return Evidence(opened.name, CAPTURE, programs=tuple(one for one in read_programs(nodes) if one.buffers))


def _read_text(opened: OpenedSource, progress: Progress | None) -> Evidence:
    """A log may hold lines of every kind, so all that look at lines see each of them, in one pass over its bytes."""
    from ttmem.failures.text.find_in_stream import find_in_chunks

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
    kind = WATCHER if watched is not None and watched.cores else LOG
    failures = tuple(
        FailureFact(one.failure_class, one.message, dict(one.numbers), one.line)
        for one in found.failures
        if one.failure_class != "none"
    )
    left_out = (*found.left_out, *splitter.long_lines.remarks, *opened.remarks)
    return Evidence(opened.name, kind, log=facts.facts(), watcher=watched, failures=failures, left_out=left_out)
