# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem cb profile --json`` says."""

import msgspec

from ttmem.circular_buffers.measured_facts import INSTEAD, Evidence, ProgramPeakFact
from ttmem.engines.worker.graph_nodes.programs import StaticBuffer
from ttmem.profile.source_facts import ProfilerFacts, WatcherFacts
from ttmem.reports.cb_simulate.document import COMPUTED, MEASURED
from ttmem.reports.kit.documents import Document, rounded


class Source(Document, frozen=True):
    """What was read."""

    name: str
    kind: str
    lines: int | None
    debug_lines: int | None
    """Without any, nothing can be concluded from what a log does not say."""


class Events(Document, frozen=True):
    """What a kernel's own prints say of one buffer."""

    pages: dict[str, int]
    """By call: reserve, push, wait, pop."""
    highest_held: int = msgspec.field(name="highest_held_pages")
    left_pages: int
    """Pushed and never popped."""
    cycles: tuple[int, int]


class Failure(Document, frozen=True):
    """An error text about buffers."""

    failure_class: str = msgspec.field(name="class")
    message: str
    numbers: dict[str, int]
    line: int | None


class StuckCore(Document, frozen=True):
    """A core that waits for a buffer."""

    device: int
    core: tuple[int, int]
    line: int
    processors: dict[str, str]
    """The waypoint of each."""
    held_pages: dict[str, int]
    story: tuple[str, ...]
    """What it waits for, in sentences."""


class Watcher(Document, frozen=True):
    """What a watcher log says."""

    dumps: int
    cores: int
    stuck: tuple[StuckCore, ...]
    overflow_lines: tuple[int, ...]


class MeasuredOperation(Document, frozen=True):
    """The waits of one operation's compute kernels."""

    name: str
    line: int
    duration_ns: float
    wait_front_ns: float
    reserve_back_ns: float
    cores: int | None
    stall_percent: float | None
    """null: the table sums over cores and does not say how many."""


class MeasuredStall(Document, frozen=True):
    """What a profiler table says."""

    origin: str
    rows: int
    has_columns: bool
    stall_percent: float | None
    operations: tuple[MeasuredOperation, ...]


class CapturedBuffer(Document, frozen=True):
    """A circular or dataflow buffer of a captured program."""

    kind: str
    bytes_per_core: int = msgspec.field(name="bytes")
    borrowed: bool
    """It lies in a tensor's memory and takes none of its own."""
    address: int | None
    cores: int


class CapturedProgram(Document, frozen=True):
    """One captured program."""

    operation: str
    origin: str
    bytes_per_core: int
    end_address: int | None
    margin_bytes: int | None
    """Between the buffers and the lowest tensor."""
    buffers: tuple[CapturedBuffer, ...]


class CbProfile(Document, frozen=True, tag_field="schema", tag="ttmem.cb-profile/1"):
    """What one source says about circular buffers; a part that it cannot have is null."""

    source: Source
    verdict: str
    has_events: bool
    has_facts: bool
    facts: dict[str, tuple[dict[str, int | str], ...]]
    """By kind: the line and what it says."""
    fact_counts: dict[str, int]
    events: dict[str, Events]
    failures: tuple[Failure, ...]
    watcher: Watcher | None
    measured_stall: MeasuredStall | None
    programs: tuple[CapturedProgram, ...]
    peak_bytes_per_core: int | None
    peak: ProgramPeakFact | None = msgspec.field(name="profile_peak")
    left_out: tuple[str, ...]
    """What of the source was too much to be looked at."""
    capture_instead: tuple[str, ...]
    """What to capture where this source has no events."""


def document(evidence: Evidence) -> CbProfile:
    """One source."""
    log = evidence.log
    facts = log.facts if log else {}
    events = sorted(log.events.items()) if log else []
    return CbProfile.of(
        evidence,
        source=Source.of(evidence, lines=log and log.lines, debug_lines=log and log.debug_lines),
        facts={kind: [{"line": fact.line, **fact.values} for fact in found] for kind, found in facts.items()},
        fact_counts=log.counts if log else {},
        events={
            f"cb{index}": Events.of(seen, cycles=(seen.first_cycle or 0, seen.last_cycle)) for index, seen in events
        },
        watcher=evidence.watcher and _watcher(evidence.watcher),
        measured_stall=evidence.profiler and _measured_stall(evidence.profiler),
        programs=[
            CapturedProgram.of(program, origin=COMPUTED, buffers=[_buffer(one) for one in program.buffers])
            for program in evidence.programs
        ],
        peak_bytes_per_core=max((program.bytes_per_core for program in evidence.programs), default=None),
        capture_instead=[] if evidence.has_events else INSTEAD,
    )


def _watcher(found: WatcherFacts) -> Watcher:
    stuck = [
        StuckCore.of(
            core,
            core=(core.x, core.y),
            processors=dict(core.stuck),
            held_pages={f"cb{held.index}": held.pages for held in core.held},
            story=found.story(core),
        )
        for core in found.stuck_cores
    ]
    return Watcher.of(found, cores=len(found.cores), stuck=stuck)


def _measured_stall(found: ProfilerFacts) -> MeasuredStall:
    operations = [MeasuredOperation.of(row, stall_percent=rounded(row.stall_percent)) for row in found.measured]
    return MeasuredStall.of(found, decimals=2, origin=MEASURED, operations=operations)


def _buffer(found: StaticBuffer) -> CapturedBuffer:
    return CapturedBuffer.of(found, address=found.address or None, cores=sum(one.cores for one in found.ranges))
