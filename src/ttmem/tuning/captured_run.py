# SPDX-License-Identifier: Apache-2.0
"""Read a captured run as operations, buffer lifetimes and program launches, for edits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from ttmem.analysis.failure import RunFailure, failure, failures, memory_failure
from ttmem.analysis.persistent_tensors import freeing_operations, lasting_rows
from ttmem.base.errors import BadInputError
from ttmem.hardware import BOARDS, MemoryMap, OpenSettings, open_board
from ttmem.profile.model import CLOSING, GIVE, LAUNCH, MEMORIES, START, TAKE, USE, EventTable, Profile, Timeline
from ttmem.profile.tensor_type import TensorType

_HINT = "capture the program itself: ttmem run SCRIPT, then ask about the stored report"


@dataclass(frozen=True, slots=True)
class RunOperation:
    """An operation of the run."""

    index: int
    name: str
    location: str
    path: tuple[str, ...]
    """``file:line``, outermost call first."""
    named_at: int
    """Number of calls further out where its results are named."""
    given: int
    """The sum of ``GIVEN`` for the options of the call."""
    inputs: tuple[int, ...]
    """Buffers that it reads, in the order of the arguments."""
    origin: int = 0
    """A number for its host tensor, 0 if there is none."""


@dataclass(frozen=True, slots=True)
class BufferLifetime:
    """A buffer, from its allocation to its deallocation."""

    number: int
    memory: int
    bytes_per_bank: int
    total_bytes: int
    address: int
    name: str
    """Empty for a temporary, which no memory state shows."""
    type: TensorType | None
    producer: int
    """The operation that allocated it, -1 outside any."""
    uses: tuple[int, ...]
    """Operations that read it."""
    taken_at: int
    given_at: int
    """Positions among the events; one past the last if it was never freed."""
    given_inside: int
    """The operation that freed it, -1 outside operations (a variable was dropped, the end)."""
    outlives: bool
    """It stayed until the device was closed."""
    is_lasting: bool
    """Objects keep it between calls: weights, caches."""

    @property
    def last_use(self) -> int:
        """The last operation that uses it."""
        return max(self.uses[-1] if self.uses else -1, self.producer)


@dataclass(frozen=True, slots=True)
class CapturedLaunch:
    """The launch of a program."""

    at: int
    operation: int
    static_bytes_per_core: int
    """-1 when unknown."""


@dataclass(frozen=True, slots=True)
class UnfinishedCall:
    """The call at which a run ran out of memory; the events continue as if it had succeeded."""

    operation: int
    number: int
    """The requested buffer."""
    banks: int
    """Number of banks for it; 0 if unknown."""
    is_known: bool
    """The events include all allocations of the call, not only the requested one."""
    are_programs_known: bool
    """Its programs are exact, too."""
    unwound: tuple[int, ...] = ()
    """Buffers of the call that the error freed, in that order."""


@dataclass(frozen=True, eq=False)
class CapturedRun:
    """A captured run. Positions count the events of ``timeline.events``."""

    profile: Profile
    timeline: Timeline
    operations: tuple[RunOperation, ...]
    lives: tuple[BufferLifetime, ...]
    launches: tuple[CapturedLaunch, ...]
    ends: tuple[int, ...]
    """Position of each operation's last event."""
    starts: tuple[int, ...]
    memory_map: MemoryMap
    pools: tuple[tuple[int, int, int], ...]
    """Of each memory: banks, first address, bytes per bank."""
    failure: RunFailure | None
    unfinished: UnfinishedCall | None = None
    made_by: dict[int, list[int]] = field(default_factory=dict)
    """Operation -> the buffers that it left behind."""
    cache: dict[object, Any] = field(default_factory=dict)
    """Results computed once per run, see ``remember``."""

    @cached_property
    def length(self) -> int:
        assert self.timeline.events is not None
        return len(self.timeline.events)

    @cached_property
    def is_short(self) -> bool:
        """True if the run ended because something did not fit."""
        return memory_failure(self.profile) is not None

    def results(self, operation: int) -> list[BufferLifetime]:
        """Return the buffers that an operation left behind."""
        return [self.lives[number] for number in self.made_by.get(operation, ())]

    def replace_events(self, events: EventTable, tensors: KnownTensors, unfinished: UnfinishedCall) -> CapturedRun:
        """Return the run with other events, and the tensors of buffers that no memory state shows."""
        return _build_run(self.profile, replace(self.timeline, events=events), tensors, unfinished)


_Rest = ParamSpec("_Rest")
_Result = TypeVar("_Result")


def remember(
    function: Callable[Concatenate[CapturedRun, _Rest], _Result],
) -> Callable[Concatenate[CapturedRun, _Rest], _Result]:
    """Compute a function of a run, and of hashable arguments by position, once per run."""

    @wraps(function)
    def look_up(run: CapturedRun, /, *rest: _Rest.args, **options: _Rest.kwargs) -> _Result:
        known: dict[object, _Result] = run.cache.setdefault(function, {})
        if rest not in known:
            known[rest] = function(run, *rest, **options)
        return known[rest]

    return look_up


KnownTensors = Mapping[int, tuple[str, TensorType | None]]
"""Number of a buffer -> the name and the type of the tensor in it."""


def read_captured_run(profile: Profile, rank: int | None = None) -> CapturedRun:
    """Read the run of a profile with events; raise an error for others.

    Of several devices, select a rank or the fullest one.
    """
    known = [one for one in profile.timelines if one.events is not None]
    if not known:
        raise BadInputError(
            f"'{profile.name}' has no events: the order of allocations and frees is unknown", hint=_HINT
        )
    opened = [one for one in known if one.events is not None and one.events.pools]
    if not opened:
        raise BadInputError(f"'{profile.name}' opened no device: there is nothing to change", hint=_HINT)
    meant = [one for one in opened if one.rank == rank] or opened
    found = _build_run(profile, meant[0] if len(meant) == 1 else max(meant, key=_fullness))
    ended = memory_failure(profile)
    if ended is None or ended.rank != found.timeline.rank:
        return found
    from ttmem.tuning.failed_call import complete_run  # it asks what histories are

    return complete_run(found, ended)


def _build_run(
    profile: Profile, timeline: Timeline, tensors: KnownTensors | None = None, unfinished: UnfinishedCall | None = None
) -> CapturedRun:
    rows = _EventRows(profile, timeline)
    operations, ends, starts = rows.operations()
    lives = tuple(rows.lives(tensors or {}))
    made: dict[int, list[int]] = {}
    for life in lives:
        if life.producer >= 0 and life.name:
            made.setdefault(life.producer, []).append(life.number)
    return CapturedRun(
        profile,
        timeline,
        operations,
        lives,
        tuple(rows.launches()),
        ends,
        starts,
        _open_memory_map(profile, rows.events.pools),
        rows.events.pools,
        failure(profile),
        unfinished,
        made,
    )


def _fullness(timeline: Timeline) -> tuple[bool, float]:
    """Rank devices: the one that failed first, then by the fullest bank."""
    events = timeline.events
    assert events is not None
    sizes = [int(pool[2]) for pool in events.pools]
    taken = dict(zip(events.buffer[events.kind == TAKE].tolist(), np.flatnonzero(events.kind == TAKE), strict=True))
    shares = []
    for memory, size in enumerate(sizes):
        steps = np.zeros(len(events), np.int64)
        own = np.flatnonzero((events.kind == TAKE) & (events.memory == memory))
        steps[own] = events.bytes_per_bank[own]
        for at in np.flatnonzero(events.kind == GIVE).tolist():
            start = taken[int(events.buffer[at])]
            steps[at] -= events.bytes_per_bank[start] if events.memory[start] == memory else 0
        shares.append(float(np.cumsum(steps).max(initial=0)) / size if size else 0.0)
    return bool(timeline.failures), max(shares)


class _EventRows:
    """The events of a timeline as plain lists, because reading single elements of columns is slow."""

    def __init__(self, profile: Profile, timeline: Timeline) -> None:
        events = timeline.events
        assert events is not None
        self.profile, self.timeline, self.events = profile, timeline, events
        self.kind = events.kind.tolist()
        self.operation = events.operation.tolist()
        self.inside = events.inside.tolist()
        self.buffer = events.buffer.tolist()
        self.uses: dict[int, list[int]] = {}
        self.inputs: dict[int, list[int]] = {}
        self.given: dict[int, int] = {}
        frees = freeing_operations(profile, timeline)
        for at, kind in enumerate(self.kind):
            if kind == USE and self.operation[at] in frees:
                self.inputs.setdefault(self.operation[at], []).append(self.buffer[at])
            elif kind == USE:
                self.uses.setdefault(self.buffer[at], []).append(self.operation[at])
                self.inputs.setdefault(self.operation[at], []).append(self.buffer[at])
            elif kind == GIVE:
                self.given[self.buffer[at]] = at

    def operations(self) -> tuple[tuple[RunOperation, ...], tuple[int, ...], tuple[int, ...]]:
        profile, timeline, events = self.profile, self.timeline, self.events
        names = {form: profile.forms.name_of(form) for form in set(timeline.form.tolist())}
        places = {form: profile.forms.location(form) for form in names}
        paths = [tuple(path.split("\n")) if path else () for path in events.call_paths]
        starts, ends = [-1] * len(timeline), [-1] * len(timeline)
        for at, kind in enumerate(self.kind):
            if self.inside[at] == 1 and self.operation[at] < len(timeline):
                ends[self.operation[at]] = at
                if kind == START:
                    starts[self.operation[at]] = at
        found = []
        for index, form in enumerate(timeline.form.tolist()):
            at = starts[index]
            path = paths[self.buffer[at]] if at >= 0 else ()
            columns = (events.address, events.bytes_per_bank, events.total_bytes)
            named_at, given, origin = (int(column[at]) for column in columns) if at >= 0 else (0, 0, 0)
            inputs = tuple(self.inputs.get(index, ()))
            found.append(RunOperation(index, names[form], places[form], path, named_at, given, inputs, origin))
        return tuple(found), tuple(ends), tuple(starts)

    def lives(self, tensors: KnownTensors) -> Iterator[BufferLifetime]:
        events, buffers, types = self.events, self.timeline.buffers, self.profile.tensor_types
        memory, address, row = events.memory.tolist(), events.address.tolist(), events.row.tolist()
        size, total = events.bytes_per_bank.tolist(), events.total_bytes.tolist()
        lasting = lasting_rows(self.profile, self.timeline)
        for at in np.flatnonzero(events.kind == TAKE).tolist():
            number = self.buffer[at]
            entry = row[at] if buffers is not None else -1
            type_number = int(buffers.tensor_type[entry]) if buffers is not None and entry >= 0 else -1
            name = buffers.names[int(buffers.name[entry])] if buffers is not None and entry >= 0 else ""
            type_ = types[type_number] if type_number >= 0 else None
            given = self.given.get(number, len(self.kind))
            place = self.inside[given] if given < len(self.kind) else CLOSING
            yield BufferLifetime(
                number,
                memory[at],
                size[at],
                total[at],
                address[at],
                *tensors.get(number, (name, type_)),
                self.operation[at] if self.inside[at] == 1 else -1,
                tuple(self.uses.get(number, ())),
                at,
                given,
                self.operation[given] if place == 1 else -1,
                place == CLOSING,
                entry in lasting,
            )

    def launches(self) -> Iterator[CapturedLaunch]:
        """Yield launches, except of programs that failed and that the script survived."""
        refused = {
            one.operation_index
            for one in failures(self.profile)
            if one.survived and one.rank == self.timeline.rank and one.failure_class.startswith("buffers/")
        }
        found = np.flatnonzero(self.events.kind == LAUNCH).tolist()
        for at, behind in zip(found, [*found[1:], len(self.kind)], strict=False):
            index = self.operation[at]
            is_last = behind == len(self.kind) or self.operation[behind] != index
            if not (is_last and index in refused):
                yield CapturedLaunch(at, index, int(self.events.bytes_per_bank[at]))


def _open_memory_map(profile: Profile, pools: Sequence[tuple[int, int, int]]) -> MemoryMap:
    """Open the memory map of the board with its regions, which gives the size of a changed tensor."""
    board = profile.facts.get("board") or next(
        (one.name for one in BOARDS if one.architecture.name == profile.facts.get("system")), ""
    )
    if not board:
        raise BadInputError(f"'{profile.name}' does not say on which board it ran", hint=_HINT)
    sizes = dict(zip(MEMORIES, pools, strict=True))
    return open_board(
        board,
        OpenSettings(l1_small_bytes=sizes["L1_SMALL"][2], trace_region_bytes=sizes["TRACE"][0] * sizes["TRACE"][2]),
    )
