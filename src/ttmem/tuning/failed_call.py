# SPDX-License-Identifier: Apache-2.0
"""Complete the call at which a run ran out of memory, because a promise has to cover it.

The error freed what the call had allocated, and the failed request is no event. Both are corrected here: the
events continue as if the call had succeeded, so that a replay ends where the run did, and with edits later.
The rest of the call comes from the twin's records; if none matches the captured part, only the requested buffer
is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ttmem.analysis.failure import RunFailure
from ttmem.hardware import MemoryMap
from ttmem.profile.model import GIVE, LAUNCH, MEMORIES, TAKE, USE, EventTable
from ttmem.profile.tensor_type import TensorType
from ttmem.tuning.captured_run import CapturedRun, UnfinishedCall
from ttmem.tuning.edited_run import L1_NUMBER, start_edits
from ttmem.tuning.groups import find_targets
from ttmem.tuning.programs import list_possible_calls, list_static_bytes, plan_exactly
from ttmem.tuning.replay import replay
from ttmem.tuning.source import open_source, parse_place
from ttmem.twin.operations import Allocate, Launch, Plan
from ttmem.twin.operations.plan import Free
from ttmem.twin.placement import place
from ttmem.twin.tensor_spec import TensorSpec


class CallMove(NamedTuple):
    """An allocation, a free or a launch of a call."""

    kind: int
    """``TAKE``, ``GIVE`` or ``LAUNCH``."""
    number: int = -1
    """Number of the buffer; those of the call count from 0."""
    memory: int = 0
    size: int = 0
    """Bytes per bank, or static bytes per core."""
    total: int = 0


@dataclass(frozen=True, slots=True)
class CallRest:
    """The moves of a call after the captured ones."""

    moves: tuple[CallMove, ...]
    results: dict[int, TensorType | None] = field(default_factory=dict)
    """Number of a buffer -> the result that the call would have returned in it."""
    is_known: bool = False
    are_programs_known: bool = False
    """Otherwise they have the largest size of the possible calls."""

    @property
    def buffers(self) -> tuple[CallMove, ...]:
        return tuple(move for move in self.moves if move.kind != LAUNCH)


def complete_run(run: CapturedRun, ended: RunFailure) -> CapturedRun:
    """Return the run with its last call completed, or unchanged if the failure has no place among its events."""
    is_clash = ended.failure_class.startswith("buffers/")
    wanted = None if is_clash else _find_request(run, ended)
    if ended.operation_index is None or ended.operation_index != len(run.operations) - 1:
        return _complete_outside(run, ended, wanted)
    call = _FailedCall(run, ended, wanted)
    if wanted is None and not call.failed.size:
        return run  # the library failed before it made a program, without a size
    plain = call.rebuild_run(call.describe_captured())
    return call.rebuild_run(call.find_rest(plain))


def _find_request(run: CapturedRun, ended: RunFailure) -> CallMove | None:
    needed = ended.numbers.get("bytes_per_bank", 0)
    if ended.memory not in MEMORIES or not needed:
        return None
    quantum = run.memory_map.quantum_bytes
    memory = MEMORIES.index(ended.memory)
    return CallMove(TAKE, -1, memory, -(-needed // quantum) * quantum, ended.numbers.get("requested_bytes", needed))


def _complete_outside(run: CapturedRun, ended: RunFailure, wanted: CallMove | None) -> CapturedRun:
    """Complete an upload between operations: it is requested when as much is allocated as the failure reports."""
    if wanted is None:
        return run
    after = max([-1, *run.ends])
    at = next(_find_full_positions(run, ended, wanted.memory, after + 1, run.length), after + 1)
    ended_there = _describe_unfinished(run, ended, at, CallRest((), is_known=True, are_programs_known=True))
    row = (TAKE, len(run.operations), 0, ended_there.number, wanted.memory, wanted.size, wanted.total, 0, -1)
    return run.replace_events(_splice(_events(run), at, at, [row]), {}, ended_there)


def _describe_unfinished(
    run: CapturedRun, ended: RunFailure, at: int, rest: CallRest, unwound: Sequence[int] = ()
) -> UnfinishedCall:
    number = int(np.count_nonzero(_events(run).kind[:at] == TAKE))
    known = {"is_known": rest.is_known, "are_programs_known": rest.are_programs_known}
    return UnfinishedCall(
        len(run.operations) - 1, number, ended.numbers.get("banks", 0), unwound=tuple(unwound), **known
    )


def _events(run: CapturedRun) -> EventTable:
    assert run.timeline.events is not None
    return run.timeline.events


def _find_full_positions(run: CapturedRun, ended: RunFailure, memory: int, first: int, last: int) -> Iterator[int]:
    """Yield positions before which a memory was as full as the failure reports."""
    events = _events(run)
    told = ended.numbers.get("allocated")
    sizes = {life.number: life.bytes_per_bank for life in run.lives if life.memory == memory}
    taken = sum(
        life.bytes_per_bank for life in run.lives if life.memory == memory and life.taken_at < first <= life.given_at
    )
    for at in range(first, last + 1):
        if told is None or taken == told:
            yield at
        if at < last and events.kind[at] in (TAKE, GIVE):
            size = sizes.get(int(events.buffer[at]), 0)
            taken += size if events.kind[at] == TAKE else -size


class _FailedCall:
    """The events of the failed operation in three parts: done, freed by the error, and the rest."""

    def __init__(self, run: CapturedRun, ended: RunFailure, wanted: CallMove | None) -> None:
        self.history, self.ended, self.wanted = run, ended, wanted
        self.index = len(run.operations) - 1
        self.first, self.end = run.starts[self.index], run.ends[self.index] + 1
        events = _events(run)
        self.kinds = events.kind.tolist()
        self.own = [life.number for life in run.lives if self.first < life.taken_at < self.end]
        self.refused = max((at for at in range(self.first, self.end) if self.kinds[at] == LAUNCH), default=-1)
        self.was_launched = wanted is None and self.refused == self.end - 1
        """A refused program is the last event of its operation."""
        last = self.refused if self.was_launched else self.end
        unwinding = last
        while unwinding > self.first and self.kinds[unwinding - 1] == GIVE:
            unwinding -= 1
        self.places = list(range(unwinding, last + 1))
        """Possible positions of the failure; earlier frees are the operation's own."""
        if wanted is not None:
            self.places = list(_find_full_positions(run, ended, wanted.memory, unwinding, last)) or self.places[:1]
        self.last = last
        self.failed = self._describe_failed_move()

    def describe_captured(self) -> tuple[int, CallRest]:
        """Return only the failed request or program."""
        return self.places[0], CallRest((self.failed,))

    def _describe_failed_move(self) -> CallMove:
        if self.wanted is not None:
            return self.wanted._replace(number=len(self.own))
        size = int(_events(self.history).bytes_per_bank[self.refused]) if self.was_launched else -1
        if size < 0:  # programs were not measured, or this one was not made
            end, numbers = self.history.pools[L1_NUMBER][1], self.ended.numbers
            size = max(numbers.get("region_end", end) - end, numbers.get("required_bytes", 0))
        return CallMove(LAUNCH, size=size)

    def find_rest(self, plain: CapturedRun) -> tuple[int, CallRest]:
        """Complete the call with the first record that matches its captured part, if all matches agree on the rest."""
        was_asked = self.wanted is not None or self.was_launched
        room = replay(start_edits(plain)).l1_at_launch.get(self.index) if was_asked else None
        for at in self.places:
            done = [*self._list_done(at), *([self.failed] if was_asked else [])]
            found: list[CallRest] = []
            for call in list_possible_calls(start_edits(self.history), self.index, None):
                plan = plan_exactly(call, self.history.memory_map, room)
                rest = match_plan(plan, done, self.history.memory_map) if plan is not None else None
                if rest is not None and rest.moves not in [one.moves for one in found]:
                    found.append(rest)
            if len({one.buffers for one in found}) == 1:  # else they are of different calls
                most = max(found, key=lambda one: sum(move.size for move in one.moves if move.kind == LAUNCH))
                behind = most.moves if was_asked else _skip_first_program(most.moves)
                is_exact = was_asked and len(found) == 1
                return at, replace(most, moves=(self.failed, *behind), are_programs_known=is_exact)
        return self.describe_captured()

    def _list_done(self, at: int) -> list[CallMove]:
        found = []
        for place_ in range(self.first, at):
            kind, life = self.kinds[place_], int(_events(self.history).buffer[place_])
            if kind == TAKE:
                one = self.history.lives[life]
                found.append(CallMove(TAKE, self.own.index(life), one.memory, one.bytes_per_bank))
            elif kind == GIVE:
                found.append(CallMove(GIVE, self.own.index(life) if life in self.own else -1))
            elif kind == LAUNCH:
                found.append(CallMove(LAUNCH, size=int(_events(self.history).bytes_per_bank[place_])))
        return found

    def rebuild_run(self, how: tuple[int, CallRest]) -> CapturedRun:
        """Return the run with these events instead of those of the error."""
        at, rest = how
        taken = len(self.own)
        base = int(np.count_nonzero(_events(self.history).kind[: self.end] == TAKE)) - taken
        rows = []
        for move in rest.moves:
            buffer = base + move.number if move.kind in (TAKE, GIVE) else 0
            total = move.total if move.kind == TAKE else 0
            rows.append((move.kind, self.index, 1, buffer, move.memory, move.size, total, 0, -1))
        unwound = [int(_events(self.history).buffer[place_]) for place_ in range(at, self.last)]
        tensors = {base + number: (self._name_result(rest, number), type_) for number, type_ in rest.results.items()}
        ended = _describe_unfinished(self.history, self.ended, at, rest, unwound)
        return self.history.replace_events(_splice(_events(self.history), at, self.end, rows), tensors, ended)

    def _name_result(self, rest: CallRest, number: int) -> str:
        """Return the name of a result: from an earlier turn of a loop, else from the source."""
        run, operation = self.history, self.history.operations[self.index]
        position = sorted(rest.results).index(number)
        for other in reversed(run.operations[: self.index]):
            if (other.path, other.name) == (operation.path, operation.name):
                names = [life.name for life in run.results(other.index)]
                if position < len(names):
                    return names[position]
        depth = len(operation.path) - 1 - operation.named_at
        site = (
            parse_place(operation.path[depth]) if 0 <= depth < len(operation.path) else parse_place(operation.location)
        )
        source = open_source(site.file) if site.file else None
        targets = find_targets(source, site) if source is not None else ()
        if len(targets) == len(rest.results):
            return targets[position]
        return f"{targets[0]}[{position}]" if len(targets) == 1 else f"result of {operation.name}"


def match_plan(plan: Plan, done: Sequence[CallMove], memory_map: MemoryMap) -> CallRest | None:
    """Return the steps of a plan after the captured ones; None if the plan does not match."""
    needs = iter(list_static_bytes(plan, memory_map))
    slots: dict[int, int] = {}
    moves: list[CallMove] = []
    captured = list(done)
    for step in plan.steps:
        if isinstance(step, Launch):
            move = CallMove(LAUNCH, size=next(needs))
        elif isinstance(step, Allocate):
            placed = place(step.spec, memory_map)
            memory = MEMORIES.index(step.spec.memory.name)
            move = CallMove(TAKE, len(slots), memory, placed.taken_bytes_per_bank, placed.total_bytes)
            if step.cache_key is not None and captured and not _is_same(move, captured[0]):
                continue  # cached already
            slots[step.slot] = move.number
        elif isinstance(step, Free):
            move = CallMove(GIVE, slots.get(step.slot, -1))
            if move.number < 0 and not captured:
                continue  # an input: the caller's
        else:
            return None
        if captured:
            if not _is_same(move, captured.pop(0)):
                return None
        else:
            moves.append(move)
    if captured:
        return None
    results = {slots[slot]: _describe_type(spec, memory_map) for slot, spec in plan.results if slot in slots}
    return CallRest(tuple(moves), results, is_known=True)


def _skip_first_program(moves: Sequence[CallMove]) -> Iterator[CallMove]:
    """Skip the program that the library refused to make."""
    is_first = True
    for move in moves:
        if move.kind == LAUNCH and is_first:
            is_first = False
        else:
            yield move


def _is_same(planned_: CallMove, captured: CallMove) -> bool:
    if captured.kind == LAUNCH and captured.size < 0:  # programs were not measured
        return planned_.kind == LAUNCH
    return planned_[:4] == captured[:4]


def _describe_type(spec: TensorSpec, memory_map: MemoryMap) -> TensorType | None:
    """Describe a tensor type as in a capture; None for shards, which are not fully known."""
    if spec.shard is not None:
        return None
    placement = place(spec, memory_map)
    return TensorType(
        shape=spec.shape,
        dtype=spec.dtype.name,
        layout=spec.layout.name,
        memory=spec.memory.name,
        placement="interleaved",
        logical_bytes=spec.logical_bytes,
        padded_bytes=placement.padded_bytes,
        page_bytes=placement.paging.page_bytes,
        shard_bytes=0,
    )


_Row = tuple[int, ...]


def _splice(events: EventTable, at: int, end: int, rows: Sequence[_Row]) -> EventTable:
    """Replace the rows from ``at`` to ``end``; number buffers in the order of the events."""
    columns = dict(events.columns)
    added = np.array(rows, np.int64).reshape(-1, len(columns)).T
    kinds, taken = columns["kind"], int(np.count_nonzero(columns["kind"][:at] == TAKE))
    behind = {name: column[end:].copy() for name, column in columns.items()}
    later = np.isin(kinds[end:], (TAKE, GIVE, USE)) & (behind["buffer"] >= taken)
    behind["buffer"][later] += int(np.count_nonzero(added[0] == TAKE))
    made: dict[str, Any] = {
        name: np.concatenate([column[:at], new.astype(column.dtype), behind[name]])
        for (name, column), new in zip(columns.items(), added, strict=True)
    }
    return replace(events, **made)
