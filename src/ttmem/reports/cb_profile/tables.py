# SPDX-License-Identifier: Apache-2.0
"""What a source says about circular buffers, as tables and sentences for every format."""

from collections.abc import Sized

from ttmem.circular_buffers.measured_facts import INSTEAD, Evidence
from ttmem.profile import source_facts
from ttmem.profile.source_facts import Fact, LogFacts
from ttmem.reports.kit.tables import Table
from ttmem.reports.kit.units import counted, one_line, short, thousands

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


def sentences(evidence: Evidence) -> list[str]:
    """What it is and what it can tell."""
    lines = [f"{evidence.name}: {evidence.kind}. {evidence.verdict[0].upper()}{evidence.verdict[1:]}."]
    if evidence.watcher:
        for core in evidence.watcher.stuck_cores[:_ROWS]:
            story = "; ".join(evidence.watcher.story(core))
            lines.append(f"core ({core.x},{core.y}) of device {core.device}, line {core.line}: {one_line(story)}")
        lines += _more(evidence.watcher.stuck_cores, "core")
        lines += [
            f"line {line}: a NoC transfer wrote past the end of a circular buffer"
            for line in evidence.watcher.overflow_lines[:_ROWS]
        ]
        lines += _more(evidence.watcher.overflow_lines, "such line")
    if evidence.profiler and evidence.profiler.stall_percent is not None:
        lines.append(f"compute waited {evidence.profiler.stall_percent:.1f} % of the kernels' time (measured)")
    for failure in evidence.failures[:_ROWS]:
        lines.append(f"line {failure.line}: {failure.failure_class}: {short(failure.message, 400)}")
    lines += _more(evidence.failures, "failure")
    lines += [f"left out: {what}" for what in evidence.left_out]
    return lines


def _more(items: Sized, noun: str) -> list[str]:
    return [f"... and {counted(len(items) - _ROWS, noun)} more: --json has them"] if len(items) > _ROWS else []


def instead(evidence: Evidence) -> list[str]:
    """What to capture where this source has nothing."""
    return [] if evidence.has_events or evidence.has_facts else list(INSTEAD)


def tables(evidence: Evidence) -> list[Table]:
    """All that has rows."""
    found: list[Table] = []
    if evidence.programs:
        found.append(_programs(evidence))
    if evidence.peak:
        parts = tuple((name.replace("_", " "), thousands(value)) for name, value in evidence.peak.parts.items())
        title = f"Fullest operation, bytes per core (captured): {one_line(evidence.peak.operation)}"
        found.append(Table.of_texts(("Part", "Bytes per core"), parts, left=1, title=title))
    if evidence.profiler and evidence.profiler.measured:
        found.append(_measured(evidence))
    if evidence.log:
        found += _log_tables(evidence.log)
    return found


def _programs(evidence: Evidence) -> Table:
    ordered = sorted(evidence.programs, key=lambda program: -program.bytes_per_core)
    rows = [
        (
            short(program.operation or "(unnamed)", 40),
            "+".join(sorted({buffer.kind for buffer in program.buffers})),
            str(len(program.buffers)),
            str(sum(buffer.borrowed for buffer in program.buffers)),
            thousands(program.bytes_per_core),
            "-" if program.margin_bytes is None else thousands(program.margin_bytes),
        )
        for program in ordered
    ]
    heads = ("Operation", "Kind", "Buffers", "Borrowed", "B per core", "Margin B")
    title = f"Programs (captured; {counted(len(rows), 'program')})"
    return Table.of_texts(heads, rows[:_ROWS], left=2, title=title)


def _measured(evidence: Evidence) -> Table:
    assert evidence.profiler is not None
    ordered = sorted(evidence.profiler.measured, key=lambda row: -(row.wait_front_ns + row.reserve_back_ns))
    rows = tuple(
        (
            short(row.name or f"line {row.line}", 40),
            f"{row.duration_ns:,.0f}",
            f"{row.wait_front_ns:,.0f}",
            f"{row.reserve_back_ns:,.0f}",
            "sums over cores" if row.stall_percent is None else f"{row.stall_percent:.1f}",
        )
        for row in ordered[:_ROWS]
    )
    heads = ("Operation", "Kernel ns", "Wait front ns", "Reserve back ns", "Stall %")
    return Table.of_texts(heads, rows, left=1, title="Compute's waits (measured)")


def _log_tables(log: LogFacts) -> list[Table]:
    found = []
    if buffers := log.of(source_facts.BUFFER):
        rows = tuple(
            (
                str(fact.values["index"]),
                str(fact.line),
                *(thousands(int(fact.values[key])) for key in ("page_bytes", "pages", "bytes")),
            )
            for fact in buffers[:_ROWS]
        )
        title = f"Buffers that operations print (debug log; {counted(log.counts[source_facts.BUFFER], 'line')})"
        found.append(Table.of_texts(("Buffer", "Line", "Page B", "Pages", "Bytes"), rows, left=1, title=title))
    for kind, title in _TITLES.items():
        if facts := log.of(kind):
            rows = tuple((str(fact.line), _words(fact)) for fact in facts[:_ROWS])
            found.append(Table.of_texts(("Line", "Says"), rows, title=f"{title}; {counted(log.counts[kind], 'line')}"))
    if log.events:
        rows = tuple(
            (
                f"cb{index}",
                *(thousands(seen.pages[name]) for name in ("reserve", "push", "wait", "pop")),
                thousands(seen.highest_held),
                thousands(seen.left_pages),
            )
            for index, seen in sorted(log.events.items())
        )
        heads = ("Buffer", "Reserved", "Pushed", "Waited", "Popped", "Most held", "Left")
        title = "Events printed by kernels (TTMEM lines), pages"
        found.append(Table.of_texts(heads, rows, left=1, title=title))
    return found


def _words(fact: Fact) -> str:
    return short(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in fact.values.items()), 300)
