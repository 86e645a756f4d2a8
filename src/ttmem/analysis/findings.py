# SPDX-License-Identifier: Apache-2.0
"""Leaks and waste: what a captured run holds and does not need. Small things are left out; a clean run has none.

Each finding is evaluated at the fullest moment of its memory, because that has to fit: a tensor that is not read any
more costs nothing while there is room.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ttmem.analysis.budget import BYTES, Limit, parse_limit
from ttmem.analysis.peaks import Peak, operation_place, peaks_of
from ttmem.analysis.persistent_tensors import freeing_operations, lasting_rows
from ttmem.base.errors import BadInputError
from ttmem.profile.model import MEMORIES, START, TAKE, USE, WITHIN_OPERATION, BufferTable, Profile, Timeline
from ttmem.profile.runs import find_timeline_runs, select

LEAK, LATE_FREE, DOUBLE_UPLOAD, PADDING, UNUSED_REGION, WIDE_DTYPE, GROWTH = KINDS = (
    "leak",
    "late-free",
    "double-upload",
    "padding",
    "unused-region",
    "wide-dtype",
    "growth",
)
MOST = 10
"""Of each kind, the largest."""
_SMALLEST_SHARE = 0.01
_NEGLIGIBLE_SHARE, _NEGLIGIBLE_BYTES = 0.001, 64 * 1024
_LEAST_GROWTH = 3
_LEAST_KEPT = 2
"""Tensors of the same call, reached in the same way: one that lives to the end is a variable like any other."""
_LEAST_HELD = 2
"""Operations: a program that frees three inputs one after the other after a call does nothing wrong."""
_LEAST_PADDING = 1.0
"""Padding that at least doubles a tensor."""
_LEAST_PADDED_SHARE = 0.1
"""Of the peak: a bias and the step of one token are a row of a tile whatever one does, and cost little."""
_WIDE = ("float32",)
REGIONS = {"L1_SMALL": "l1_small_size", "TRACE": "trace_region_size"}
_TAKEN_FROM = {"L1_SMALL": "L1", "TRACE": "DRAM"}
"""Memories that a program sets aside when it opens a device, and the option that says how much."""
_TRACED = "a trace was captured"
"""How the recorder's note on it begins."""
_BEFORE_OTHERS = (DOUBLE_UPLOAD, GROWTH)
"""Of findings that cost the same these say more of the cause."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A leak or a waste."""

    kind: str
    tensor: str
    """Empty for a region."""
    memory: str
    location: str
    """Where it is made."""
    bytes_per_bank: int
    """What it costs at the fullest moment: of all tensors that this place made."""
    held_operations: int
    """How many operations it was kept for after its last use; 0 where that is not the point."""
    count: int
    """Tensors of this name and place that are part of it."""
    message: str


def findings(profile: Profile) -> list[Finding]:
    """Return the findings of a captured run, the costliest first; none where the source has no buffers."""
    found: list[Finding] = []
    for number, timeline in enumerate(profile.timelines):
        if timeline.buffers is not None and timeline.events is not None:
            last_state = len(timeline.state_kind) - 1
            look = _ProcessFindings(profile, timeline, timeline.buffers, peaks_of(profile, number), last_state)
            found += look.all()
    return _largest(found)


def findings_by_run(profile: Profile) -> dict[str, list[Finding]]:
    """The same for every run of a profile, by its program: a test of a suite is a run."""
    found: dict[str, list[Finding]] = {}
    for timeline in profile.timelines:
        if timeline.buffers is None or timeline.events is None:
            continue
        alone = replace(profile, timelines=(timeline,))
        for run in find_timeline_runs(timeline):
            peaks = {
                memory: replace(peak, state=peak.state + run.first_state)
                for memory, peak in peaks_of(select(alone, run=run.number), 0).items()
            }
            look = _ProcessFindings(profile, timeline, timeline.buffers, peaks, run.end_state - 1)
            found.setdefault(run.program, []).extend(look.all())
    return {program: _largest(told) for program, told in found.items()}


def parse_kinds(text: str) -> dict[str, int]:
    """``leak,late-free:10MB``: which kinds matter, and from how many bytes per bank on."""
    wanted: dict[str, int] = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        kind, _, least = word.partition(":")
        if kind not in KINDS:
            raise BadInputError(f"{kind!r} is no finding", hint=f"known: {', '.join(KINDS)}")
        limit = parse_limit(least) if least else Limit(0, BYTES)
        if limit.unit != BYTES:
            raise BadInputError(f"{word!r}: a finding needs a size in bytes per bank", hint=f"write {kind}:10MB")
        wanted[kind] = int(limit.amount)
    return wanted


def _largest(found: list[Finding]) -> list[Finding]:
    found.sort(
        key=lambda one: (-one.bytes_per_bank, one.kind not in _BEFORE_OTHERS, KINDS.index(one.kind))
    )  # among equals, what was made first
    counts = dict.fromkeys(KINDS, 0)
    kept = []
    for one in found:
        counts[one.kind] += 1
        if counts[one.kind] <= MOST:
            kept.append(one)
    return kept


class _ProcessFindings:
    """A process of a run, and its fullest moments."""

    def __init__(
        self, profile: Profile, timeline: Timeline, buffers: BufferTable, peaks: dict[str, Peak], last_state: int
    ) -> None:
        self.profile, self.timeline, self.buffers = profile, timeline, buffers
        self.peaks = {memory: peak for memory, peak in peaks.items() if peak.peak_bytes_per_bank}
        self.lasting = lasting_rows(profile, timeline)
        self.last_state = last_state
        self.last_read = _last_reads(profile, timeline)
        self.path_of = _call_paths(timeline)

    def all(self) -> Iterator[Finding]:
        for memory, peak in self.peaks.items():
            alive = self._alive(memory, peak.state)
            yield from self._find_unneeded(memory, peak, alive)
            yield from self._find_padded(memory, peak, alive)
            yield from self._find_wide(memory, peak, alive)
            yield from self._find_double_uploads(memory, peak, alive)
            yield from self._find_growing(memory, peak, alive)
        yield from self._find_unused_regions()

    def _alive(self, memory: str, state: int) -> list[int]:
        buffers = self.buffers
        here = (buffers.first_state <= state) & (state <= buffers.last_state)
        rows: list[int] = np.flatnonzero(here & (buffers.memory == MEMORIES.index(memory))).tolist()
        return rows

    def _name(self, row: int) -> str:
        return self.buffers.names[int(self.buffers.name[row])]

    def _group(self, rows: list[int]) -> dict[tuple[str, str], list[int]]:
        groups: dict[tuple[str, str], list[int]] = {}
        for row in rows:
            groups.setdefault((_drop_indices(self._name(row)), self._location(row)), []).append(row)
        return groups

    def _location(self, row: int) -> str:
        return operation_place(self.profile, self.timeline, int(self.buffers.producer[row]))[1]

    def _describe(
        self,
        kind: str,
        memory: str,
        peak: Peak,
        rows: list[int],
        message: str,
        *,
        held: int = 0,
        cost: int | None = None,
    ) -> Iterator[Finding]:
        size = int(self.buffers.bytes_per_bank[rows].sum()) if cost is None else cost
        bank = self._bank(memory)
        if size < max(_SMALLEST_SHARE * peak.peak_bytes_per_bank, negligible(bank)):
            return
        names = {self._name(row) for row in rows}
        name = names.pop() if len(names) == 1 else _drop_indices(names.pop())
        location = self._location(rows[0])
        yield Finding(kind, name, memory, location, size, held, len(rows), message)

    def _bank(self, memory: str) -> int:
        events = self.timeline.events
        assert events is not None
        return events.pools[MEMORIES.index(memory)][2] if events.pools else 0

    def _find_moment(self, peak: Peak) -> int:
        """The operation that was about to run, or running, when the memory was fullest."""
        state = peak.state
        operation = int(self.timeline.state_operation[state])
        return operation if operation >= 0 else int(self.timeline.state_cause[state]) + 1

    def _find_unneeded(self, memory: str, peak: Peak, alive: list[int]) -> Iterator[Finding]:
        """Tensors that were not needed any more when the memory was fullest."""
        buffers, moment = self.buffers, self._find_moment(peak)
        dead = [
            row
            for row in alive
            if buffers.tensor_type[row] >= 0
            and max(self.last_read.get(row, -1), int(buffers.producer[row])) < moment
            and row in self.last_read
            and row not in self.lasting
        ]
        for rows in self._group(dead).values():
            held = max(self._count_held_operations(row) for row in rows)
            if held < _LEAST_HELD:
                continue
            leaked = all(int(buffers.last_state[row]) >= self.last_state for row in rows)
            if leaked and not self._grows(rows):
                continue
            last = max(self.last_read[row] for row in rows)
            name, place = operation_place(self.profile, self.timeline, last)
            many = f"{len(rows)} tensors are" if len(rows) > 1 else "it is"
            end = "never freed" if leaked else f"freed {held} operations later"
            words = f"last read by {name} (operation {last}{f', {place}' if place else ''}); {many} {end}"
            yield from self._describe(LEAK if leaked else LATE_FREE, memory, peak, rows, words, held=held)

    def _grows(self, rows: list[int]) -> bool:
        """Return True if the same call, reached in the same way, left several of them."""
        paths = Counter(self.path_of.get(int(self.buffers.producer[row]), -1) for row in rows)
        return max(paths.values()) >= _LEAST_KEPT

    def _count_held_operations(self, row: int) -> int:
        last_state = min(int(self.buffers.last_state[row]), self.last_state)
        operation = int(self.timeline.state_operation[last_state])
        if operation < 0:
            operation = self.timeline.end_index
        elif self.timeline.state_kind[last_state] == WITHIN_OPERATION:
            operation += 1
        return operation - self.last_read[row] - 1

    def _find_padded(self, memory: str, peak: Peak, alive: list[int]) -> Iterator[Finding]:
        for rows in self._group([row for row in alive if self.buffers.tensor_type[row] >= 0]).values():
            type_ = self.profile.tensor_types[int(self.buffers.tensor_type[rows[0]])]
            if not type_.logical_bytes or type_.padding_bytes < _LEAST_PADDING * type_.logical_bytes:
                continue
            share = type_.padding_bytes / max(type_.padded_bytes, 1)
            cost = int(int(self.buffers.bytes_per_bank[rows].sum()) * share)
            if cost < _LEAST_PADDED_SHARE * peak.peak_bytes_per_bank:
                continue
            times = type_.padded_bytes / type_.logical_bytes
            words = f"{type_.describe()} in {type_.layout.replace('_', '-')} takes {times:.1f} times its elements"
            yield from self._describe(PADDING, memory, peak, rows, words, cost=cost)

    def _find_wide(self, memory: str, peak: Peak, alive: list[int]) -> Iterator[Finding]:
        for rows in self._group([row for row in alive if self.buffers.tensor_type[row] >= 0]).values():
            type_ = self.profile.tensor_types[int(self.buffers.tensor_type[rows[0]])]
            if type_.dtype in _WIDE:
                cost = int(self.buffers.bytes_per_bank[rows].sum()) // 2
                words = f"{type_.describe()}: bfloat16 would take half"
                yield from self._describe(WIDE_DTYPE, memory, peak, rows, words, cost=cost)

    def _find_double_uploads(self, memory: str, peak: Peak, alive: list[int]) -> Iterator[Finding]:
        origins = _origins(self.timeline)
        same: dict[tuple[int, int], list[int]] = {}
        for row in alive:
            producer = int(self.buffers.producer[row])
            if (origin := origins.get(producer, 0)) and self.buffers.tensor_type[row] >= 0:
                same.setdefault((origin, int(self.buffers.tensor_type[row])), []).append(row)
        for rows in same.values():
            if len(rows) > 1:
                again = rows[1:]
                words = f"the same host tensor is there as {self._name(rows[0])} already ({self._location(rows[0])})"
                yield from self._describe(DOUBLE_UPLOAD, memory, peak, again, words)

    def _find_growing(self, memory: str, peak: Peak, alive: list[int]) -> Iterator[Finding]:
        """Tables that operations keep for themselves: reshape maps, program caches."""
        own = [row for row in alive if self.buffers.tensor_type[row] < 0 and self._name(row).startswith("kept by ")]
        groups: dict[str, list[int]] = {}
        for row in own:
            groups.setdefault(self._name(row), []).append(row)
        for rows in groups.values():
            if len(rows) >= _LEAST_GROWTH:
                words = f"{len(rows)} tables are kept, one for each new shape or program"
                yield from self._describe(GROWTH, memory, peak, rows, words)

    def _find_unused_regions(self) -> Iterator[Finding]:
        """Regions that were set aside and never touched."""
        events = self.timeline.events
        assert events is not None
        sizes = dict(zip(MEMORIES, (pool[2] for pool in events.pools), strict=False))
        for region, option in REGIONS.items():
            size = sizes.get(region, 0)
            if (
                size < max(negligible(sizes.get(_TAKEN_FROM[region], 0)), 1)
                or region in self.peaks
                or (region == "TRACE" and captures_traces(self.profile))
            ):
                continue
            whole = "every core's L1" if region == "L1_SMALL" else "every bank of DRAM"
            words = f"{option} takes {size:,} B of {whole} and nothing was put there"
            yield Finding(UNUSED_REGION, "", region, "", size, 0, 0, words)


def negligible(bank_bytes: int) -> int:
    """Bytes per bank below which a change is not worth a line: less than 0.1 % of a bank and than 64 KiB."""
    return int(min(_NEGLIGIBLE_SHARE * bank_bytes, _NEGLIGIBLE_BYTES))


def captures_traces(profile: Profile) -> bool:
    """Return True if the program captured a trace; a mock does not report its size."""
    return any(note.startswith(_TRACED) for note in profile.source.warnings)


def _drop_indices(name: str) -> str:
    """``kept[]`` for ``kept[3]``: what a loop put into a list is one thing."""
    return re.sub(r"\[\d+\]", "[]", name)


def _origins(timeline: Timeline) -> dict[int, int]:
    """Operation -> which host tensor it uploaded, where the recorder knew it."""
    events = timeline.events
    if events is None:
        return {}
    rows = np.flatnonzero((events.kind == START) & (events.total_bytes > 0))
    return dict(zip(events.operation[rows].tolist(), events.total_bytes[rows].tolist(), strict=True))


def _call_paths(timeline: Timeline) -> dict[int, int]:
    """Operation -> a number for the chain of calls that led to it."""
    events = timeline.events
    if events is None:
        return {}
    rows = np.flatnonzero(events.kind == START)
    return dict(zip(events.operation[rows].tolist(), events.buffer[rows].tolist(), strict=True))


def _last_reads(profile: Profile, timeline: Timeline) -> dict[int, int]:
    """Row of a buffer -> the last operation that read it; those that only free it do not count."""
    events = timeline.events
    assert events is not None
    frees = freeing_operations(profile, timeline)
    row_of = dict(
        zip(events.buffer[events.kind == TAKE].tolist(), events.row[events.kind == TAKE].tolist(), strict=True)
    )
    uses = events.kind == USE
    last: dict[int, int] = {}
    for number, operation in zip(events.buffer[uses].tolist(), events.operation[uses].tolist(), strict=True):
        if operation not in frees:
            last[row_of[number]] = operation
    return last
