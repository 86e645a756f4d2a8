# SPDX-License-Identifier: Apache-2.0
"""The answer of ``ttmem diff``: two profiles compared, as JSON, text, Markdown and a page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

import msgspec
import numpy as np

from ttmem.analysis.alignment import align, pair_forms
from ttmem.analysis.diff import CountChange, MemoryChange, MemoryDiff
from ttmem.analysis.states import OperationPlace
from ttmem.analysis.suite import memory_of_tests
from ttmem.analysis.tensor_diff import TensorChange
from ttmem.base.formatting import flatten_text, format_count, format_mib, format_operation, format_percent, shorten
from ttmem.profile.model import SUITE_KIND, Profile, Timeline
from ttmem.profile.tensor_type import TensorType
from ttmem.reports import profile_files
from ttmem.reports.kit import pages, tables
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.documents import Document, round_floats
from ttmem.reports.kit.pages import PackedColumns
from ttmem.reports.kit.tables import Table, mib_column, name_column, text_column
from ttmem.reports.profile_document import find_cause
from ttmem.reports.profile_tables import Columns, build_table


class MemoryChangeEntry(Document, frozen=True):
    """The peaks of one memory in bytes per bank; null where a profile has none."""

    before_bytes_per_bank: int | None = msgspec.field(name="before")
    after_bytes_per_bank: int | None = msgspec.field(name="after")
    delta_bytes_per_bank: int | None
    """Null where one of the profiles does not show this memory: unknown, not a change of 100 %."""
    delta_percent: float | None
    """Null also for growth from nothing."""
    unattributed_delta_bytes_per_bank: int | None
    error_bytes: int = msgspec.field(name="error_bytes_per_bank")
    before_device_bytes: int | None
    """Over all banks of a chip: what compares where the number of banks does not."""
    after_device_bytes: int | None
    before_with_programs_bytes_per_core: int | None
    """L1 with the programs' own buffers; null unless both profiles know them."""
    after_with_programs_bytes_per_core: int | None
    peak_moved: bool
    caused_by_before: OperationPlace | None
    caused_by_after: OperationPlace | None


class ChangedOperation(Document, frozen=True):
    """The operation that makes a tensor; the index is null for one that was there before."""

    operation_index: int | None = msgspec.field(name="index")
    operation_name: str = msgspec.field(name="name")
    location: str
    program: str


class TensorTypeEntry(Document, frozen=True):
    """The type of a tensor; bytes with padding."""

    shape: Sequence[int]
    dtype: str
    padded_bytes: int = msgspec.field(name="bytes")


class TensorChangeEntry(Document, frozen=True):
    """A tensor that takes more or less of a peak than before."""

    tensor: str
    operation: ChangedOperation
    delta_bytes: int
    delta_bytes_per_bank: int
    memory: str
    reason: str
    before: TensorTypeEntry | None
    after: TensorTypeEntry | None
    counterpart: str
    """Its name in the first profile, where two different programs ran the same model."""


class DiffDocument(Document, frozen=True, tag_field="schema", tag="ttmem.diff/1"):
    """Two profiles compared; ``grew`` begins with the first suspect."""

    before_name: str = msgspec.field(name="before")
    after_name: str = msgspec.field(name="after")
    memories: Mapping[str, MemoryChangeEntry]
    grew: Sequence[TensorChangeEntry]
    shrank: Sequence[TensorChangeEntry]
    operation_counts: Sequence[CountChange]
    remarks: Sequence[str]
    """Reasons why the figures may not compare: another board, another way to open the device."""
    regression: bool


def build_document(diff: MemoryDiff, regression: bool) -> DiffDocument:
    """Build the document; ``regression`` is true when the given limit is exceeded."""
    return DiffDocument(
        before_name=diff.before_name,
        after_name=diff.after_name,
        memories={memory: _describe_memory(change) for memory, change in diff.memories.items()},
        grew=[_describe_tensor(change) for change in diff.grew],
        shrank=[_describe_tensor(change) for change in diff.shrank],
        operation_counts=diff.operation_counts,
        remarks=diff.remarks,
        regression=regression,
    )


def _describe_memory(change: MemoryChange) -> MemoryChangeEntry:
    before, after = (find_cause(peak) if peak else None for peak in (change.before_peak, change.after_peak))
    programs = (change.before_programs, change.after_programs)
    with_programs = [peak.total_bytes_per_core if peak else None for peak in programs]
    return MemoryChangeEntry(
        before_bytes_per_bank=change.before_bytes_per_bank,
        after_bytes_per_bank=change.after_bytes_per_bank,
        delta_bytes_per_bank=change.delta_bytes_per_bank,
        delta_percent=round_floats(change.delta_percent, 4),
        unattributed_delta_bytes_per_bank=change.unattributed_delta_bytes_per_bank,
        error_bytes=change.error_bytes,
        before_device_bytes=change.before_device_bytes,
        after_device_bytes=change.after_device_bytes,
        before_with_programs_bytes_per_core=with_programs[0],
        after_with_programs_bytes_per_core=with_programs[1],
        peak_moved=before != after,
        caused_by_before=before,
        caused_by_after=after,
    )


def _describe_tensor(change: TensorChange) -> TensorChangeEntry:
    return TensorChangeEntry(
        tensor=change.tensor,
        operation=ChangedOperation(
            operation_index=change.operation_index,
            operation_name=change.operation_name,
            location=change.location,
            program=change.program,
        ),
        delta_bytes=change.delta_bytes,
        delta_bytes_per_bank=change.delta_bytes_per_bank,
        memory=change.memory,
        reason=change.reason,
        before=_describe_type(change.before),
        after=_describe_type(change.after),
        counterpart=change.counterpart,
    )


def _describe_type(type_: TensorType | None) -> TensorTypeEntry | None:
    if type_ is None:
        return None
    return TensorTypeEntry(shape=type_.shape, dtype=type_.dtype, padded_bytes=type_.padded_bytes)


_ROWS = 10


def render_terminal(diff: MemoryDiff, *, width: int = 100, color: bool = False) -> str:
    """Render the peaks, and the tensors and operations that moved them."""
    report = TextReport(width, color=color)
    report.print(f"{flatten_text(diff.before_name)} -> {flatten_text(diff.after_name)}", style="bold")
    report.print("", build_memory_table(diff))
    for text in diff.remarks:
        report.print(f"! {flatten_text(text)}", style="yellow")
    for text in list_notes(diff):
        report.print(flatten_text(text), style="dim")
    for title, changes in (("Grew", diff.grew), ("Shrank", diff.shrank)):
        if changes:
            report.print("", build_tensor_table(title, changes, report.width))
    if diff.operation_counts:
        report.print("", "Operation counts: " + format_operation_counts(diff))
    if is_unchanged(diff):
        report.print("", "No difference in memory.")
    return report.render()


def is_unchanged(diff: MemoryDiff) -> bool:
    """Return whether nothing changed; an unknown change does not count as none."""
    changes = diff.memories.values()
    return not (diff.grew or diff.shrank) and all(change.delta_bytes_per_bank == 0 for change in changes)


def build_memory_table(diff: MemoryDiff) -> Table:
    """Build the table of the peaks of both profiles."""
    columns: Columns = [
        (text_column("Peak, MiB per bank"), attrgetter("memory")),
        (mib_column("Before"), attrgetter("before_bytes_per_bank")),
        (mib_column("After"), attrgetter("after_bytes_per_bank")),
        (mib_column("Change", signed=True, unknown="unknown"), attrgetter("delta_bytes_per_bank")),
        (text_column(""), _format_change),
        (mib_column("Not attributed", signed=True), _find_unattributed),
    ]
    return build_table(diff.memories.values(), columns)


def list_notes(diff: MemoryDiff) -> Iterator[str]:
    """Yield what the table does not show: totals per chip where banks differ, and L1 with programs."""
    for change in diff.memories.values():
        before, after = change.before_peak, change.after_peak
        used = change.before_bytes_per_bank or change.after_bytes_per_bank
        if before and after and before.banks != after.banks and used:
            totals = (format_mib(change.before_device_bytes or 0), format_mib(change.after_device_bytes or 0))
            yield f"{change.memory} over all banks of a chip: {totals[0]} -> {totals[1]}"
        if change.before_programs and change.after_programs:
            first, second = change.before_programs, change.after_programs
            yield (
                f"L1 with programs: {format_mib(first.total_bytes_per_core)} ({first.name}) -> "
                f"{format_mib(second.total_bytes_per_core)} ({second.name}) per core; a limit is held against this"
            )


def _format_change(change: MemoryChange) -> str:
    if not change.is_known:
        return ""
    return "new" if change.delta_percent is None else format_percent(change.delta_percent, signed=True)


def _find_unattributed(change: MemoryChange) -> int | None:
    """Return the change that no tensor explains; None where rounding explains it."""
    left = change.unattributed_delta_bytes_per_bank
    return left if left is not None and abs(left) > 2 * change.error_bytes else None


def build_tensor_table(title: str, changes: Sequence[TensorChange], width: int, *, rows: int = _ROWS) -> Table:
    """Build the table of changed tensors, the first suspects first."""
    columns: Columns = [
        (text_column(title), attrgetter("memory")),
        (mib_column("MiB/bank", signed=True, unknown=""), attrgetter("delta_bytes_per_bank")),
        (text_column("Why"), attrgetter("reason")),
        (name_column("Tensor", most=max(20, width // 2 - 12)), lambda change: f"{change.tensor} {change.describe()}"),
        (name_column("Operation", most=max(20, width // 2 - 16)), _format_operation_place),
    ]
    table = build_table(changes[:rows], columns)
    if len(changes) <= rows:
        return table
    return replace(table, rows=[*table.rows, ["", None, "", f"{format_count(len(changes) - rows)} more", ""]])


def _format_operation_place(change: TensorChange) -> str:
    label = format_operation(change.operation_index, change.operation_name) or "resident"
    return f"{label} at {change.location}" if change.location else label


def format_operation_counts(diff: MemoryDiff) -> str:
    """List the operations that ran more or less often."""
    shown = [f"{flatten_text(item.name)} {item.before} -> {item.after}" for item in diff.operation_counts[:_ROWS]]
    more = len(diff.operation_counts) - len(shown)
    return ", ".join(shown) + (f", {more} more" if more else "")


_MOST_BYTES = 24_000
_DETAILS = ((20, 90), (10, 60), (5, 24), (2, 12))
"""Rows, and the longest name, until the text is short enough."""


def render_markdown(diff: MemoryDiff, *, regression: bool = False) -> str:
    """Render compact Markdown for an LLM agent, at most some 8,000 tokens."""
    text = ""
    for rows, width in _DETAILS:
        text = _render_rows(diff, rows, width, regression=regression)
        if len(text.encode("utf-8", "replace")) <= _MOST_BYTES:
            break
    return text


def _render_rows(diff: MemoryDiff, rows: int, width: int, *, regression: bool) -> str:
    before, after = (shorten(flatten_text(name), width) for name in (diff.before_name, diff.after_name))
    lines = [f"# Memory Difference: {before} -> {after}", ""]
    lines += tables.format_markdown(build_memory_table(diff), longest=width) or ["No memory is known in either."]
    if regression:
        lines += ["", "**Regression**: a peak grew by more than the limit."]
    notes = [*diff.remarks, *list_notes(diff)]
    lines += [line for text in notes for line in ("", flatten_text(text))]
    for title, changes in (("Grew", diff.grew), ("Shrank", diff.shrank)):
        lines += _render_tensors(title, changes, rows, width)
    if diff.operation_counts:
        lines += ["", f"Operation counts: {format_operation_counts(diff)}"]
    if is_unchanged(diff):
        lines += ["", "No difference in memory."]
    return "\n".join(lines) + "\n"


def _render_tensors(title: str, changes: Sequence[TensorChange], rows: int, width: int) -> list[str]:
    if not changes:
        return []
    table = build_tensor_table(title, changes, 2 * width, rows=rows)
    return ["", f"## {title}", "", *tables.format_markdown(table, longest=width)]


_MOST_PAIRS = 5000
_MOST_ALIGNED = 200_000
"""Longer profiles are aligned by the number of the operation."""


def render_html(before: Profile, after: Profile, changes: MemoryDiff, *, regression: bool = False) -> str:
    """Render the page with both curves and the overview of each profile."""
    names = [shorten(name, 60) for name in (changes.before_name, changes.after_name)]
    title = f"{names[0]} and {names[1]}"
    known = [change for change in changes.memories.values() if change.is_known]
    grown = max(known, key=lambda change: abs(change.delta_bytes_per_bank or 0), default=None)
    if grown is None:
        subtitle = "No memory is known in both profiles."
    elif not grown.delta_bytes_per_bank:
        subtitle = "The peaks are the same."
    else:
        verb = "grew" if grown.delta_bytes_per_bank > 0 else "shrank"
        subtitle = f"The peak of {grown.memory} {verb} from {names[0]} to {names[1]}."
    shared = max((len(change.pairs) for change in changes.memories.values()), default=0)
    if shared:
        kinds = ["predicted" if profile.source.kind == "predicted" else "measured" for profile in (before, after)]
        told = f"{names[0]} ({kinds[0]}) and {names[1]} ({kinds[1]}) are two programs with {shared} steps in common"
        subtitle = f"{told}. {subtitle}"
    header = {
        "part": "compare",
        "title": title,
        "subtitle": subtitle,
        "document": msgspec.to_builtins(build_document(changes, regression)),
        "alignments": _align_memories(before, after, changes),
        "tests": _compare_tests(before, after) if before.source.kind == after.source.kind == SUITE_KIND else [],
    }
    first = PackedColumns(pages.build_header(header)).compress()
    sides = [profile_files.build_page_blocks(profile, side=side) for side, profile in enumerate((before, after))]
    return pages.render_frame("compare", title, [first, *sides[0], *sides[1]], plain=render_terminal(changes))


def _align_memories(before: Profile, after: Profile, changes: MemoryDiff) -> dict[str, dict[str, object]]:
    """Align the operations of the two processes with the peaks, by memory."""
    found: dict[str, dict[str, object]] = {}
    known: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for memory, change in changes.memories.items():
        if change.before_peak is None or change.after_peak is None:
            continue
        first, second = place = change.before_peak.timeline, change.after_peak.timeline
        if change.pairs:
            known[place] = _find_shifts(change.pairs)
        elif place not in known:
            known[place] = _find_anchors(before, before.timelines[first], after, after.timelines[second])
        found[memory] = {"anchors": known[place], "pairs": change.pairs[:_MOST_PAIRS]}
    return found


def _compare_tests(before: Profile, after: Profile) -> list[tuple[str, str, int | None, int | None]]:
    """List the tests whose memory changed, or that one suite does not have: name, memory, before, after."""
    first, second = memory_of_tests(before), memory_of_tests(after)
    changed = []
    for test in {**first, **second}:
        old, new = (one[test].figures if test in one else {} for one in (first, second))
        changed += [(test, memory, old.get(memory), new.get(memory)) for memory in {**old, **new}]
    changed = [row for row in changed if row[2] != row[3]]
    return sorted(changed, key=lambda row: -abs((row[3] or 0) - (row[2] or 0)))[:_MOST_PAIRS]


def _find_shifts(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pairs at which the distance between the two indices changes."""
    kept: list[tuple[int, int]] = []
    for pair in pairs:
        if not kept or pair[1] - pair[0] != kept[-1][1] - kept[-1][0]:
            kept.append(pair)
    return kept


def _find_anchors(before: Profile, first: Timeline, after: Profile, second: Timeline) -> list[tuple[int, int]]:
    """Return the pairs of equal operations (before, after) at which their distance changes.

    Only pairs in order count: a curve runs one way. Empty when the profiles are too long to be aligned.
    """
    if not (0 < len(first) <= _MOST_ALIGNED and 0 < len(second) <= _MOST_ALIGNED):
        return []
    # Of these processes alone: which one of a suite ran first is chance.
    both = replace(before, timelines=(first,)), replace(after, timelines=(second,))
    partner = pair_forms(*both, set(after.forms.names))
    same = np.full(len(after.forms), -1, np.int64)
    same[list(partner)] = list(partner.values())
    counterparts = same[second.form]
    # What has no counterpart must equal nothing of the first profile.
    wanted = np.where(counterparts >= 0, counterparts, -1 - np.arange(len(counterparts))).tolist()
    executed = first.form.tolist()
    anchors: list[tuple[int, int]] = []
    reached = -1
    for old, new in align(executed, wanted):
        if executed[old] != wanted[new] or new <= reached:
            continue
        reached = new
        pair = (old + first.first_index, new + second.first_index)
        if not anchors or pair[1] - pair[0] != anchors[-1][1] - anchors[-1][0]:
            anchors.append(pair)
    return anchors
