# SPDX-License-Identifier: Apache-2.0
"""All that one source says about circular buffers, and a plain word on what it cannot say."""

from collections.abc import Mapping
from dataclasses import dataclass

from ttmem.engines.worker.graph_nodes.programs import CapturedProgram
from ttmem.profile.source_facts import EVENT, LogFacts, ProfilerFacts, WatcherFacts

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
    """A failure that the source tells of."""

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
    """One source."""

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
        """Whether single reserves, pushes, waits or pops can be seen."""
        return self.log is not None and self.log.counts.get(EVENT, 0) > 0

    @property
    def has_facts(self) -> bool:
        """Whether it says anything at all of circular buffers."""
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
        """What this source can and cannot tell, in one sentence."""
        if self.kind in (CAPTURE, PROFILE):
            return _of_capture(self)
        if self.kind == PROFILER and self.profiler is not None:
            return _of_profiler(self.profiler)
        if self.kind == WATCHER and self.watcher is not None:
            return _of_watcher(self.watcher)
        return _of_log(self)


def _of_capture(evidence: Evidence) -> str:
    if not evidence.has_facts:
        return (
            "no program of this capture allocated a circular buffer: captures that dispatch list them only on a miss "
            "of the program cache, and never dataflow buffers"
        )
    return "bytes are exact; a capture holds allocations, not single reserves, pushes and pops"


def _of_profiler(found: ProfilerFacts) -> str:
    if not found.has_columns:
        return "the profiler did not sum compute's waits on circular buffers: run again with TT_METAL_PROFILER_SUM=1"
    if not found.measured:
        return "no operation of this table has a measured wait"
    return "waits are measured on the card: the truth that predictions are held to"


def _of_watcher(found: WatcherFacts) -> str:
    if found.stuck_cores:
        cores = len(found.stuck_cores)
        return f"{cores} core{'s' if cores > 1 else ''} stood in a wait on a circular buffer at the last dump"
    return "no core stood in a wait on a circular buffer at the last dump"


def _of_log(evidence: Evidence) -> str:
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
