# SPDX-License-Identifier: Apache-2.0
"""Replay an edited run on the twin's allocator: addresses, the first failure, and its Profile.

The Profile is built like a captured one, from the messages that a recorder would send.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from ttmem.engines.worker.device_monitor import build_state
from ttmem.engines.worker.ledger import GIVE, LAUNCH, TAKE, AllocationLedger, LedgerBuffer, Move
from ttmem.engines.worker.library import BankView, MemoryRegion
from ttmem.engines.worker.recorder import encode_end, encode_state
from ttmem.hardware import MEMORIES as MEMORY_RECORDS
from ttmem.profile.builder import ProfileBuilder
from ttmem.profile.model import CLOSING, L1_PARTS, MEMORIES, Profile
from ttmem.tuning.captured_run import RunOperation
from ttmem.tuning.edited_run import L1_NUMBER, EditedBuffer, EditedRun
from ttmem.twin import error_messages
from ttmem.twin.free_list import FreeList


class L1AtLaunch(NamedTuple):
    """L1 before an operation and at its first launch, which program sizes depend on."""

    lowest_before: int | None
    """The address of its lowest tensor."""
    allocated_before: int
    lowest_address: int | None
    """The same at the launch, results included."""


class ReplayEntry(NamedTuple):
    """An allocation, a free or a launch in a run."""

    at: int
    order: int
    """Order at the same position: frees come first."""
    kind: str
    operation: int
    inside: int
    number: int
    """Number of the buffer, or static bytes of a launch."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The first thing that does not fit, in the library's words."""

    operation: int
    memory: str
    message: str
    needed_bytes_per_bank: int
    allocated_bytes_per_bank: int
    free_bytes_per_bank: int
    largest_free_bytes_per_bank: int
    at: int
    """Its place among the events."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay."""

    addresses: dict[int, int]
    """Of every buffer, in each bank."""
    shortfall: Shortfall | None
    peaks: tuple[int, ...]
    """Of each memory, bytes per bank, as far as it got."""
    peak_at: tuple[int, ...]
    """The operations inside or before which they were."""
    programs_peak: int
    """Tensors and static buffers in L1 together, bytes per core."""
    programs_peak_at: int
    l1_at_launch: dict[int, L1AtLaunch]
    """By operation."""

    @property
    def fits(self) -> bool:
        return self.shortfall is None


def list_entries(draft: EditedRun) -> list[ReplayEntry]:
    run = draft.history
    events = run.timeline.events
    assert events is not None
    operation, inside = events.operation.tolist(), events.inside.tolist()
    count, length = len(run.operations), run.length
    found: list[ReplayEntry] = []
    for number in draft.numbers():
        piece = draft.buffer(number)
        if not piece.is_there:
            continue
        life = run.lives[number] if number < len(run.lives) else None
        for kind, order, at, own in (
            (TAKE, 1, piece.take_at, life.taken_at if life else -1),
            (GIVE, 0, piece.give_at, life.given_at if life else -1),
        ):
            if at < length:  # a moved action comes just before the event at its position
                belongs = inside[at] if at == own or kind == TAKE else 0
                found.append(ReplayEntry(at, order, kind, operation[at], belongs, number))
            elif kind == GIVE and at == own:
                continue  # it was never given back
            else:
                found.append(ReplayEntry(at, order, kind, count, 0, number))
    launched: dict[int, int] = {}
    for launch in run.launches:
        changed = draft.static_bytes.get(launch.operation)
        place = launched[launch.operation] = launched.get(launch.operation, -1) + 1
        static = launch.static_bytes_per_core if changed is None else changed[place]
        found.append(ReplayEntry(launch.at, 2, LAUNCH, launch.operation, 1, static))
    found.sort(key=itemgetter(0, 1))
    return found


class _MemorySimulation:
    """Free lists, peaks and failures during a replay."""

    def __init__(self, draft: EditedRun) -> None:
        self.draft = draft
        self.lists = [
            FreeList(base, size, grows_down=MEMORY_RECORDS.find(name).grows_down)
            for name, (_, base, size) in zip(MEMORIES, draft.pools, strict=True)
        ]
        self.addresses: dict[int, int] = {}
        self.there: set[int] = set()
        """Buffers that are allocated."""
        self.peaks, self.peak_at = [0] * len(MEMORIES), [-1] * len(MEMORIES)
        self.programs_peak, self.programs_peak_at = 0, -1
        self.shortfalls: list[Shortfall] = []
        self.l1_at_launch: dict[int, L1AtLaunch] = {}
        self._l1_before: dict[int, tuple[int | None, int]] = {}

    def play_entry(self, action: ReplayEntry) -> bool:
        """Run an entry; return False if it does not fit."""
        if action.inside == 1 and action.operation not in self._l1_before:
            l1 = self.lists[L1_NUMBER]
            self._l1_before[action.operation] = (l1.lowest_taken_address, l1.allocated_bytes)
        if action.kind == TAKE:
            piece = self.draft.buffer(action.number)
            address = self.lists[piece.memory].allocate(piece.bytes_per_bank)
            if address is None:
                return self._add_shortfall(action, piece)
            self.addresses[action.number] = address
            self.there.add(action.number)
            allocated = self.lists[piece.memory].allocated_bytes
            if allocated > self.peaks[piece.memory]:
                self.peaks[piece.memory], self.peak_at[piece.memory] = allocated, action.operation
            if piece.memory == L1_NUMBER:
                self._update_programs_peak(allocated, action.operation)
        elif action.kind == GIVE:
            if action.number in self.there:
                self.there.discard(action.number)
                self.lists[self.draft.buffer(action.number).memory].free(self.addresses[action.number])
        else:
            return self._launch(action)
        return True

    def _update_programs_peak(self, size: int, operation: int) -> None:
        if size > self.programs_peak:
            self.programs_peak, self.programs_peak_at = size, operation

    def _launch(self, action: ReplayEntry) -> bool:
        """Check a launch: static buffers grow from the base of L1 and must end below the lowest tensor."""
        lowest = self.lists[L1_NUMBER].lowest_taken_address
        self._record_room(action)
        self._update_programs_peak(self.lists[L1_NUMBER].allocated_bytes + max(action.number, 0), action.operation)
        base, size = self.draft.pools[L1_NUMBER][1:]
        end = base + action.number
        if action.number <= 0 or (end <= base + size and (lowest is None or end <= lowest)):
            return True
        text = (
            error_messages.describe_clash("circular", lowest, end)
            if lowest is not None and end > lowest
            else error_messages.describe_overflow("circular", end, base + size)
        )
        pool = self.lists[L1_NUMBER]
        largest, allocated = pool.largest_free_bytes, pool.allocated_bytes
        self.shortfalls.append(
            Shortfall(action.operation, "L1", text, action.number, allocated, pool.free_bytes, largest, action.at)
        )
        return False

    def _add_shortfall(self, action: ReplayEntry, piece: EditedBuffer) -> bool:
        memory, unfinished = piece.memory, self.draft.history.unfinished
        pool, name = self.lists[memory], MEMORIES[memory]
        banks, _, size = self.draft.pools[memory]
        if unfinished is not None and unfinished.number == action.number and action.number not in self.draft.changed:
            banks = unfinished.banks or banks
        amounts = (pool.allocated_bytes, pool.free_bytes, pool.largest_free_bytes)
        text = error_messages.describe_out_of_memory(
            piece.total_bytes, name, banks, piece.bytes_per_bank, size, *amounts
        )
        self.shortfalls.append(Shortfall(action.operation, name, text, piece.bytes_per_bank, *amounts, action.at))
        self._record_room(action)
        return False

    def _record_room(self, action: ReplayEntry) -> None:
        if action.operation not in self.l1_at_launch and action.operation in self._l1_before:
            room = L1AtLaunch(*self._l1_before[action.operation], self.lists[L1_NUMBER].lowest_taken_address)
            self.l1_at_launch[action.operation] = room


def replay(draft: EditedRun) -> ReplayResult:
    """Replay a run up to the first failure; return addresses and peaks."""
    memories = _MemorySimulation(draft)
    for action in list_entries(draft):
        if not memories.play_entry(action):
            break
    return ReplayResult(
        memories.addresses,
        next(iter(memories.shortfalls), None),
        tuple(memories.peaks),
        tuple(memories.peak_at),
        memories.programs_peak,
        memories.programs_peak_at,
        memories.l1_at_launch,
    )


def build_profile(draft: EditedRun, name: str) -> Profile:
    run, player = draft.history, _EditedRunRecorder(draft)
    capture = ProfileBuilder()
    for message in player.messages():
        capture.add(message)
    made = capture.build(name=name, script=run.profile.source.name, engine="", board="")
    captured, (timeline,) = run.timeline, made.timelines
    timeline = replace(timeline, line=captured.line[: len(timeline)], rank=captured.rank)
    same = run.profile
    return replace(made, timelines=(timeline,), source=same.source, facts=same.facts, arguments=same.arguments)


class _EditedRunRecorder:
    """Sends the messages that a recorder would send for an edited run."""

    def __init__(self, draft: EditedRun) -> None:
        self.draft, self.history = draft, draft.history
        self.memories = _MemorySimulation(draft)
        pools = {name: MemoryRegion(*pool) for name, pool in zip(MEMORIES, draft.pools, strict=True)}
        self.account = AllocationLedger(pools, draft.history.memory_map.quantum_bytes)
        self.told: dict[int, int] = {}
        """The run's number of a buffer -> the ledger's."""

    def messages(self) -> Iterator[dict[str, Any]]:
        pools = {name: list(pool) for name, pool in zip(MEMORIES, self.draft.pools, strict=True)}
        yield {"device": {"arch": "", "grid": [], "mesh": [], "chips": 1, "pools": pools}}
        segments: dict[int, list[tuple[int, list[ReplayEntry]]]] = {}
        for (index, place), together in groupby(list_entries(self.draft), key=itemgetter(3, 4)):
            segments.setdefault(index, []).append((place, list(together)))
        count = len(self.history.operations)
        for operation in self.history.operations:
            todo = segments.get(operation.index, [])
            before: list[ReplayEntry] = []
            for inside, group in todo:
                if inside == CLOSING:
                    yield from self._close(before, group)
                    before = []
                elif not inside:
                    before += group
            yield self._start(operation, before)
            if not self.memories.shortfalls:
                yield self._record_inside(
                    operation.index, [action for inside, group in todo if inside == 1 for action in group]
                )
            else:
                yield {"end": operation.index, "error": self.memories.shortfalls[0].message}
            if self.memories.shortfalls and operation.index < count - 1:
                yield from self._close([], [])
                return
        last = segments.get(count, [])
        before = [action for inside, group in last if not inside for action in group]
        yield from self._close(before, [action for inside, group in last if inside == CLOSING for action in group])
        failure = self.history.failure
        if self.memories.shortfalls:
            yield {"exit": 1, "error": self.memories.shortfalls[0].message}
        elif failure is not None and not self.history.is_short:
            yield {"end": count - 1, "error": failure.message}

    def _start(self, operation: RunOperation, before: list[ReplayEntry]) -> dict[str, Any]:
        file, _, line = operation.location.rpartition(":")
        between = self._record_between(before)
        return {
            "start": operation.index,
            "name": operation.name,
            "file": file,
            "line": int(line) if line.isdigit() else 0,
            "path": operation.path,
            "named_at": operation.named_at,
            "given": operation.given,
            "origin": operation.origin,
            **between,
            "uses": [self.told[number] for number in operation.inputs if number in self.told],
        }

    def _close(self, before: list[ReplayEntry], gone: list[ReplayEntry]) -> Iterator[dict[str, Any]]:
        """Close the device, which frees the rest."""
        yield {"closed": True, **self._record_between(before)}
        self._record_between(gone)

    def _moves(self, todo: Sequence[ReplayEntry]) -> tuple[list[Move], list[int]]:
        """Return the moves up to the first failure, and the numbers of the allocated buffers."""
        moves: list[Move] = []
        taken: list[int] = []
        for action in todo:
            if action.kind == GIVE and action.number not in self.memories.there:
                continue
            if not self.memories.play_entry(action):
                break
            if action.kind == LAUNCH:
                moves.append(Move(LAUNCH))
                continue
            if action.kind not in (TAKE, GIVE):
                continue
            piece = self.draft.buffer(action.number)
            address = self.memories.addresses[action.number]
            moves.append(Move(action.kind, MEMORIES[piece.memory], address, piece.bytes_per_bank, piece.total_bytes))
            if action.kind == TAKE:
                taken.append(action.number)
        return moves, taken

    def _unwind(self, taken: Sequence[int]) -> list[Move]:
        """Free what a failed operation allocated."""
        unfinished = self.history.unfinished
        in_order = [number for number in (unfinished.unwound if unfinished is not None else ()) if number in taken]
        return self._moves(
            [ReplayEntry(0, 0, GIVE, 0, 1, number) for number in dict.fromkeys((*in_order, *taken))],
        )[0]

    def _record_between(self, todo: Sequence[ReplayEntry]) -> dict[str, Any]:
        moves, taken = self._moves(todo)
        effect = self.account.apply(moves)
        self._number_buffers(taken, effect.born)
        views = [
            BankView(banks, size, pool.allocated_bytes, pool.free_bytes, pool.largest_free_bytes)
            for (banks, _, size), pool in zip(self.draft.pools, self.memories.lists, strict=True)
        ]
        return {**encode_state(build_state(views, effect)), **self._describe_tensors(taken)}

    def _record_inside(self, index: int, todo: Sequence[ReplayEntry]) -> dict[str, Any]:
        moves, taken = self._moves(todo)
        if self.memories.shortfalls:
            moves += self._unwind(taken)
        effect = self.account.apply(moves)
        self._number_buffers(taken, effect.born)
        launches = [action for action in todo if action.kind == LAUNCH]
        l1_at_launch = list(effect.l1_at_launch)
        refused = launches[len(l1_at_launch) :][:1]
        if refused and any(short.at == refused[0].at for short in self.memories.shortfalls):
            l1_at_launch.append(effect.highest_l1)  # a capture also measures the refused program
        needs = [action.number for action in launches[: len(l1_at_launch)]]
        l1 = self._l1(index, effect.highest_l1, list(zip(l1_at_launch, needs, strict=True)))
        message = encode_end(index, effect, l1, needs)
        if self.memories.shortfalls:
            return {**message, "error": self.memories.shortfalls[0].message}
        return {**message, **self._describe_tensors(taken)}

    def _number_buffers(self, taken: Sequence[int], born: Sequence[LedgerBuffer]) -> None:
        self.told |= dict(zip(taken, (buffer.number for buffer in born), strict=True))

    def _describe_tensors(self, taken: Sequence[int]) -> dict[str, Any]:
        lives = self.history.lives
        names = [[self.told[n], lives[n].name] for n in taken if n < len(lives) and lives[n].name]
        types = [[self.told[n], type_] for n in taken if (type_ := self.draft.buffer(n).type) is not None]
        return {"names": names, "tensors": types}

    def _l1(self, index: int, highest: int, launches: list[tuple[int, int]]) -> list[int]:
        """Return the parts of L1 at the peak; static buffers are split as captured if their sum is the same."""
        known = self.history.timeline.programs_l1
        parts = [int(getattr(known, part)[index]) for part in L1_PARTS[1:]] if known is not None else [0, 0, 0]
        measured = int(known.measured[index]) if known is not None else 0
        if known is not None and int(known.tensors[index]) < 0:
            return [-1, 0, 0, 0, 0]
        tensors, static = max([(highest, 0), *((at, max(need, 0)) for at, need in launches)], key=sum)
        if not static:
            parts = [0, 0, 0]
        elif static != sum(parts):
            parts = [static, 0, 0]
        return [tensors, *parts, measured]
