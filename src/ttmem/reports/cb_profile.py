# SPDX-License-Identifier: Apache-2.0
"""The answer of ``ttmem cb profile``: the circular buffers that one source reports."""

from collections.abc import Mapping, Sequence, Sized

import msgspec

from ttmem.base.formatting import flatten_text, format_count, pluralize, shorten
from ttmem.circular_buffers.facts import INSTEAD, Evidence, ProgramPeakFact
from ttmem.engines.worker.graph_nodes import CapturedStaticBuffer
from ttmem.profile import source_facts
from ttmem.profile.source_facts import Fact, LogFacts, ProfilerFacts, WatcherFacts
from ttmem.reports.cb_simulate_document import COMPUTED, MEASURED
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.documents import Document, round_floats
from ttmem.reports.kit.tables import Table


class EvidenceSource(Document, frozen=True):
    """The source."""

    name: str
    kind: str
    lines: int | None
    debug_lines: int | None
    """0: nothing can be concluded from what is missing in the log."""


class BufferEvents(Document, frozen=True):
    """The events of one buffer that a kernel printed."""

    pages: Mapping[str, int]
    """By call: reserve, push, wait, pop."""
    highest_held: int = msgspec.field(name="highest_held_pages")
    left_pages: int
    """Pages pushed and never popped."""
    cycles: tuple[int, int]


class EvidenceFailure(Document, frozen=True):
    """An error text about buffers."""

    failure_class: str = msgspec.field(name="class")
    message: str
    numbers: Mapping[str, int]
    line: int | None


class StuckCore(Document, frozen=True):
    """A core that waits for a buffer."""

    device: int
    core: tuple[int, int]
    line: int
    processors: Mapping[str, str]
    """The waypoint of each."""
    held_pages: Mapping[str, int]
    story: Sequence[str]
    """The reason for the wait, in sentences."""


class WatcherRow(Document, frozen=True):
    """The facts of a watcher log."""

    dumps: int
    cores: int
    stuck: Sequence[StuckCore]
    overflow_lines: Sequence[int]


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


class MeasuredStallRow(Document, frozen=True):
    """The waits in a profiler table."""

    origin: str
    rows: int
    has_columns: bool
    stall_percent: float | None
    operations: Sequence[MeasuredOperation]


class CapturedBufferRow(Document, frozen=True):
    """A circular or dataflow buffer of a captured program."""

    kind: str
    bytes_per_core: int = msgspec.field(name="bytes")
    borrowed: bool
    """It is located in a tensor's memory and takes none of its own."""
    address: int | None
    cores: int


class CapturedProgramRow(Document, frozen=True):
    """A captured program."""

    operation: str
    origin: str
    bytes_per_core: int
    end_address: int | None
    margin_bytes: int | None
    """Bytes between the buffers and the lowest tensor."""
    buffers: Sequence[CapturedBufferRow]


class CbProfile(Document, frozen=True, tag_field="schema", tag="ttmem.cb-profile/1"):
    """The circular buffers that one source reports; a part that it cannot have is null."""

    source: EvidenceSource
    verdict: str
    has_events: bool
    has_facts: bool
    facts: Mapping[str, Sequence[Mapping[str, int | str]]]
    """By kind: the line and its values."""
    fact_counts: Mapping[str, int]
    events: Mapping[str, BufferEvents]
    failures: Sequence[EvidenceFailure]
    watcher: WatcherRow | None
    measured_stall: MeasuredStallRow | None
    programs: Sequence[CapturedProgramRow]
    peak_bytes_per_core: int | None
    peak: ProgramPeakFact | None = msgspec.field(name="profile_peak")
    left_out: Sequence[str]
    """The parts of the source that were too large to be read."""
    capture_instead: Sequence[str]
    """What to capture where this source has no events."""


def build_document(evidence: Evidence) -> CbProfile:
    """Build the document of one source."""
    log = evidence.log
    facts = log.facts if log else {}
    events = sorted(log.events.items()) if log else []
    return CbProfile(
        source=EvidenceSource(
            name=evidence.name,
            kind=evidence.kind,
            lines=log.lines if log else None,
            debug_lines=log.debug_lines if log else None,
        ),
        verdict=evidence.verdict,
        has_events=evidence.has_events,
        has_facts=evidence.has_facts,
        facts={kind: [{"line": fact.line, **fact.values} for fact in found] for kind, found in facts.items()},
        fact_counts=dict(log.counts) if log else {},
        events={
            f"cb{index}": BufferEvents(
                pages=seen.pages,
                highest_held=seen.highest_held,
                left_pages=seen.left_pages,
                cycles=(seen.first_cycle or 0, seen.last_cycle),
            )
            for index, seen in events
        },
        failures=[
            EvidenceFailure(failure_class=one.failure_class, message=one.message, numbers=one.numbers, line=one.line)
            for one in evidence.failures
        ],
        watcher=_describe_watcher(evidence.watcher) if evidence.watcher else None,
        measured_stall=_describe_stall(evidence.profiler) if evidence.profiler else None,
        programs=[
            CapturedProgramRow(
                operation=program.operation,
                origin=COMPUTED,
                bytes_per_core=program.bytes_per_core,
                end_address=program.end_address,
                margin_bytes=program.margin_bytes,
                buffers=[_describe_buffer(one) for one in program.buffers],
            )
            for program in evidence.programs
        ],
        peak_bytes_per_core=max((program.bytes_per_core for program in evidence.programs), default=None),
        peak=evidence.peak,
        left_out=evidence.left_out,
        capture_instead=[] if evidence.has_events else INSTEAD,
    )


def _describe_watcher(found: WatcherFacts) -> WatcherRow:
    stuck = [
        StuckCore(
            device=core.device,
            core=(core.x, core.y),
            line=core.line,
            processors=dict(core.stuck),
            held_pages={f"cb{held.index}": held.pages for held in core.held},
            story=found.describe_waits(core),
        )
        for core in found.stuck_cores
    ]
    return WatcherRow(dumps=found.dumps, cores=len(found.cores), stuck=stuck, overflow_lines=found.overflow_lines)


def _describe_stall(found: ProfilerFacts) -> MeasuredStallRow:
    operations = [
        MeasuredOperation(
            name=row.name,
            line=row.line,
            duration_ns=row.duration_ns,
            wait_front_ns=row.wait_front_ns,
            reserve_back_ns=row.reserve_back_ns,
            cores=row.cores,
            stall_percent=round_floats(row.stall_percent),
        )
        for row in found.measured
    ]
    return MeasuredStallRow(
        origin=MEASURED,
        rows=found.rows,
        has_columns=found.has_columns,
        stall_percent=found.stall_percent,
        operations=operations,
    )


def _describe_buffer(found: CapturedStaticBuffer) -> CapturedBufferRow:
    return CapturedBufferRow(
        kind=found.kind,
        bytes_per_core=found.bytes_per_core,
        borrowed=found.borrowed,
        address=found.address or None,
        cores=sum(one.cores for one in found.ranges),
    )


_ROWS = 20
_TITLES = {
    source_facts.PROGRAM_BUFFERS: "Tiles that the program chose (printed by it)",
    source_facts.WORKLOAD: "Workload (printed by the program)",
    source_facts.STREAMING: "Streaming mode (printed by the program)",
    source_facts.VERIFICATION: "Results (printed by the program)",
    source_facts.DEPTH_REDUCED: "Depth reduced for lack of L1: a real sign of pressure",
    source_facts.L1_MAP: "L1 map (debug log)",
    source_facts.KERNEL: "Kernel binaries (debug log)",
    source_facts.L1_USAGE: "L1 use (debug log)",
    source_facts.INDEX_GAP: "Indices with gaps: dispatch writes configs for the gaps too",
    source_facts.CONFIG: "Config words in the kernel ring (trace log; not the buffers' size)",
    source_facts.DIRTY: "Buffers that were not empty at the end (R4)",
}


def list_sentences(evidence: Evidence) -> list[str]:
    """List the source, its verdict and its findings as sentences."""
    lines = [f"{evidence.name}: {evidence.kind}. {evidence.verdict[0].upper()}{evidence.verdict[1:]}."]
    if evidence.watcher:
        for core in evidence.watcher.stuck_cores[:_ROWS]:
            story = "; ".join(evidence.watcher.describe_waits(core))
            lines.append(f"core ({core.x},{core.y}) of device {core.device}, line {core.line}: {flatten_text(story)}")
        lines += _describe_rest(evidence.watcher.stuck_cores, "core")
        lines += [
            f"line {line}: a NoC transfer wrote past the end of a circular buffer"
            for line in evidence.watcher.overflow_lines[:_ROWS]
        ]
        lines += _describe_rest(evidence.watcher.overflow_lines, "such line")
    if evidence.profiler and evidence.profiler.stall_percent is not None:
        lines.append(f"compute waited {evidence.profiler.stall_percent:.1f} % of the kernels' time (measured)")
    for failure in evidence.failures[:_ROWS]:
        lines.append(f"line {failure.line}: {failure.failure_class}: {shorten(failure.message, 400)}")
    lines += _describe_rest(evidence.failures, "failure")
    lines += [f"left out: {what}" for what in evidence.left_out]
    return lines


def _describe_rest(items: Sized, noun: str) -> list[str]:
    return [f"... and {pluralize(len(items) - _ROWS, noun)} more: --json has them"] if len(items) > _ROWS else []


def list_hints(evidence: Evidence) -> list[str]:
    """List what to capture instead where this source has nothing."""
    return [] if evidence.has_events or evidence.has_facts else list(INSTEAD)


def build_tables(evidence: Evidence) -> list[Table]:
    """Build all tables that have rows."""
    found: list[Table] = []
    if evidence.programs:
        found.append(_build_programs_table(evidence))
    if evidence.peak:
        parts = tuple((name.replace("_", " "), format_count(value)) for name, value in evidence.peak.parts.items())
        title = f"Fullest operation, bytes per core (captured): {flatten_text(evidence.peak.operation)}"
        found.append(Table.build(("Part", "Bytes per core"), parts, left=1, title=title))
    if evidence.profiler and evidence.profiler.measured:
        found.append(_build_waits_table(evidence))
    if evidence.log:
        found += _build_log_tables(evidence.log)
    return found


def _build_programs_table(evidence: Evidence) -> Table:
    ordered = sorted(evidence.programs, key=lambda program: -program.bytes_per_core)
    rows = [
        (
            shorten(program.operation or "(unnamed)", 40),
            "+".join(sorted({buffer.kind for buffer in program.buffers})),
            str(len(program.buffers)),
            str(sum(buffer.borrowed for buffer in program.buffers)),
            format_count(program.bytes_per_core),
            "-" if program.margin_bytes is None else format_count(program.margin_bytes),
        )
        for program in ordered
    ]
    heads = ("Operation", "Kind", "Buffers", "Borrowed", "B per core", "Margin B")
    title = f"Programs (captured; {pluralize(len(rows), 'program')})"
    return Table.build(heads, rows[:_ROWS], left=2, title=title)


def _build_waits_table(evidence: Evidence) -> Table:
    assert evidence.profiler is not None
    ordered = sorted(evidence.profiler.measured, key=lambda row: -(row.wait_front_ns + row.reserve_back_ns))
    rows = tuple(
        (
            shorten(row.name or f"line {row.line}", 40),
            f"{row.duration_ns:,.0f}",
            f"{row.wait_front_ns:,.0f}",
            f"{row.reserve_back_ns:,.0f}",
            "sums over cores" if row.stall_percent is None else f"{row.stall_percent:.1f}",
        )
        for row in ordered[:_ROWS]
    )
    heads = ("Operation", "Kernel ns", "Wait front ns", "Reserve back ns", "Stall %")
    return Table.build(heads, rows, left=1, title="Compute's waits (measured)")


def _build_log_tables(log: LogFacts) -> list[Table]:
    found = []
    if buffers := log.get_facts(source_facts.BUFFER):
        rows = tuple(
            (
                str(fact.values["index"]),
                str(fact.line),
                *(format_count(int(fact.values[key])) for key in ("page_bytes", "pages", "bytes")),
            )
            for fact in buffers[:_ROWS]
        )
        title = f"Buffers that operations print (debug log; {pluralize(log.counts[source_facts.BUFFER], 'line')})"
        found.append(Table.build(("Buffer", "Line", "Page B", "Pages", "Bytes"), rows, left=1, title=title))
    for kind, title in _TITLES.items():
        if facts := log.get_facts(kind):
            rows = tuple((str(fact.line), _format_fact(fact)) for fact in facts[:_ROWS])
            found.append(Table.build(("Line", "Says"), rows, title=f"{title}; {pluralize(log.counts[kind], 'line')}"))
    if log.events:
        rows = tuple(
            (
                f"cb{index}",
                *(format_count(seen.pages[name]) for name in ("reserve", "push", "wait", "pop")),
                format_count(seen.highest_held),
                format_count(seen.left_pages),
            )
            for index, seen in sorted(log.events.items())
        )
        heads = ("Buffer", "Reserved", "Pushed", "Waited", "Popped", "Most held", "Left")
        title = "Events printed by kernels (TTMEM lines), pages"
        found.append(Table.build(heads, rows, left=1, title=title))
    return found


def _format_fact(fact: Fact) -> str:
    return shorten(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in fact.values.items()), 300)


def render_terminal(evidence: Evidence, *, width: int = 100, color: bool = False) -> str:
    """Render the sentences, the tables, and at the end what to capture instead."""
    report = TextReport(width, color=color)
    first, *others = list_sentences(evidence)
    report.print(first, style="bold")
    for line in others:
        report.print(line)
    for table in build_tables(evidence):
        report.print_titled(table)
    if hints := list_hints(evidence):
        report.print("", "To see circular buffers:", *(f"  {hint}" for hint in hints))
    return report.render()
