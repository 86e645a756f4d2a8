# SPDX-License-Identifier: Apache-2.0
"""Replay of the buffers of a capture: how full each memory was, and what programs needed in addition.

Where a snapshot of all live buffers exists, it is the truth and the replay is corrected to it. What was alive before an
operation then follows backwards: the snapshot without what the operation allocated, with what it freed.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ttmem.engines.worker.graph_nodes import CapturedStaticBuffer, sum_worst_core
from ttmem.profile.model import BEFORE_OPERATION, MEMORIES, SNAPSHOT, WITHIN_OPERATION
from ttmem.profile.tables import View, find_largest_free_block
from ttmem.readers.capture.device import CapturedDevice
from ttmem.readers.capture.operations import Allocated, CapturedBuffer, CapturedOperation, Event, Freed, Used
from ttmem.twin.placement import compute_taken_bytes_per_bank

_L1 = MEMORIES.index("L1")
_NEVER = np.iinfo(np.int64).max


@dataclass(slots=True)
class BufferLife:
    """A buffer of the replay; moments count the allocations and releases of the whole capture."""

    buffer: CapturedBuffer
    memory: int
    taken_bytes_per_bank: int
    producer: int
    allocated_at: int
    freed_at: int = _NEVER
    last_use: int = -1


@dataclass(slots=True)
class ReplayedState:
    """A memory state: views of some memories, each with the moment it shows."""

    kind: int
    operation: int
    cause: int
    views: dict[int, View]
    moments: dict[int, int]


@dataclass(slots=True)
class L1Needs:
    """The worst moment of one operation in L1, bytes per core."""

    tensors: int
    parts: tuple[int, int, int] = (0, 0, 0)

    @property
    def total(self) -> int:
        return self.tensors + sum(self.parts)


@dataclass(slots=True)
class BufferReplay:
    """The state while operations are replayed in order, and what they left behind."""

    device: CapturedDevice
    lives: list[BufferLife] = field(default_factory=list)
    states: list[ReplayedState] = field(default_factory=list)
    needs: list[L1Needs] = field(default_factory=list)
    corrections: int = 0
    """How often a snapshot disagreed with the recorded events."""
    unsized: int = 0
    """Buffers that were used but never described: their bytes are missing from every figure."""
    moment: int = 0
    _live: dict[Hashable, BufferLife] = field(default_factory=dict)
    _allocated: list[int] = field(default_factory=lambda: [0] * len(MEMORIES))
    _shown: list[int] = field(default_factory=lambda: [0] * len(MEMORIES))
    """Per memory: what the last state of it shows."""
    _highest: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)] * len(MEMORIES))
    """Per memory since the last state, or since an operation ended: (allocated, moment)."""
    _freed_since: list[BufferLife] = field(default_factory=list)
    _program: list[CapturedStaticBuffer] = field(default_factory=list)
    _operation: int = -1
    _ended: int = -1
    """The operation that ended since the last state."""
    _known_free: dict[int, int] = field(default_factory=dict)
    """Per memory that was not touched since: its largest free block; most operations touch one memory."""

    def run(self, operations: Iterable[CapturedOperation], *, older: Iterable[CapturedBuffer] = ()) -> None:
        """Replay all operations; ``older`` was alive before the capture (``find_alive_at_start``)."""
        for buffer in older:
            self._allocate(buffer)
        self._settle()
        number = -1
        for operation in operations:
            expected = before(operation)
            if expected is not None:
                self._correct(expected)
            if operation.is_outside:
                self._apply(operation.events)
                continue
            number += 1
            self._program.clear()
            self._state(BEFORE_OPERATION, number)
            self._operation = number
            self.needs.append(L1Needs(self._allocated[_L1]))
            self._apply(operation.events)
            self._highs(WITHIN_OPERATION, number, cause=number)
            self._settle()
            self._operation, self._ended = -1, number
        self._state(SNAPSHOT, -1)

    # --- states ---------------------------------------------------------------------------------------------------

    def _highs(self, kind: int, operation: int, *, cause: int) -> None:
        """A state for the fullest moment, of those memories that were fuller than the states around it show."""
        views: dict[int, View] = {}
        moments: dict[int, int] = {}
        for memory, (highest, moment) in enumerate(self._highest):
            if highest > max(self._shown[memory], self._allocated[memory]):
                views[memory] = self._view(memory, highest, moment)
                moments[memory] = moment
                self._shown[memory] = highest
        if views:
            self.states.append(ReplayedState(kind, operation, cause, views, moments))
            if kind == SNAPSHOT:
                self._ended = -1

    def _state(self, kind: int, operation: int) -> None:
        # What an operation left, or what came and went after it, shows in a state of its own if it was the most.
        self._highs(SNAPSHOT, -1, cause=self._ended)
        views = {memory: self._view(memory, held, self.moment) for memory, held in enumerate(self._allocated)}
        self.states.append(ReplayedState(kind, operation, self._ended, views, dict.fromkeys(views, self.moment)))
        self._ended = -1
        self._shown = list(self._allocated)
        self._settle()

    def _settle(self) -> None:
        self._highest = [(held, self.moment) for held in self._allocated]
        self._freed_since.clear()

    def _view(self, memory: int, allocated: int, moment: int) -> View:
        span = self.device.spans[MEMORIES[memory]]
        free = max(0, span.bytes_per_bank - allocated)
        return span.banks, span.bytes_per_bank, allocated, free, self._largest_free(memory, moment, free)

    def _largest_free(self, memory: int, moment: int, free: int) -> int:
        """The widest gap between the buffers alive then; all that is free where addresses are not known."""
        if moment == self.moment and memory in self._known_free:
            return min(self._known_free[memory], free)
        span = self.device.spans[MEMORIES[memory]]
        alive = [
            (life.buffer.address, life.taken_bytes_per_bank)
            for life in (*self._live.values(), *self._freed_since)
            if life.memory == memory and life.allocated_at <= moment < life.freed_at
        ]
        if not span.bytes_per_bank or any(not address for address, _ in alive):
            return free
        largest = find_largest_free_block(span.base_address, span.bytes_per_bank, alive)
        if moment == self.moment:
            self._known_free[memory] = largest
        return min(largest, free)

    # --- events ---------------------------------------------------------------------------------------------------

    def _apply(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, CapturedStaticBuffer):
                self._program.append(event)
            elif isinstance(event, Used):
                self._use(event.buffer)
            elif isinstance(event, Freed):
                self._evaluate_program()
                self._free(event.buffer)
            else:
                self._evaluate_program()
                self._program.clear()
                if isinstance(event, Allocated):
                    self._allocate(event.buffer)
        self._evaluate_program()

    def _use(self, buffer: CapturedBuffer) -> None:
        life = self._live.get(buffer.key)
        if life is None:
            return
        if self._operation >= 0:
            life.last_use = self._operation
        if life.buffer.tensor is None:  # a snapshot lists buffers; only their use tells which tensor they are
            total = life.buffer.total_bytes or buffer.total_bytes
            life.buffer = replace(life.buffer, tensor=buffer.tensor, tensor_name=buffer.tensor_name, total_bytes=total)

    def _allocate(self, buffer: CapturedBuffer) -> None:
        if buffer.memory not in MEMORIES:
            return
        if buffer.key in self._live:  # its release was not recorded
            self.corrections += 1
            self._free(buffer)
        taken = self._calculate_taken(buffer)
        if taken is None:
            self.unsized += 1
            return
        memory = MEMORIES.index(buffer.memory)
        self.moment += 1
        life = BufferLife(buffer, memory, taken, self._operation, self.moment)
        self.lives.append(life)
        self._live[buffer.key] = life
        self._allocated[memory] += taken
        self._known_free.pop(memory, None)
        if self._allocated[memory] > self._highest[memory][0]:
            self._highest[memory] = (self._allocated[memory], self.moment)
        if memory == _L1 and self._operation >= 0 and self._allocated[_L1] > self.needs[-1].total:
            self.needs[-1] = L1Needs(self._allocated[_L1])

    def _free(self, buffer: CapturedBuffer) -> None:
        life = self._live.pop(buffer.key, None)
        if life is None:
            return
        self.moment += 1
        life.freed_at = self.moment
        self._allocated[life.memory] -= life.taken_bytes_per_bank
        self._known_free.pop(life.memory, None)
        self._freed_since.append(life)

    def _calculate_taken(self, buffer: CapturedBuffer) -> int | None:
        """Return the bytes that the allocator takes; None when the capture does not allow to calculate them."""
        stored = buffer.stored_bytes_per_bank
        chip = self.device.architecture
        if stored < 0:
            banks = self.device.spans[buffer.memory].banks
            if chip is None or buffer.tensor is None or not banks:
                return None
            stored = buffer.tensor.bytes_per_bank(banks, chip.page_alignment_bytes(in_dram=buffer.memory == "DRAM"))
        if not stored:
            return 0
        return compute_taken_bytes_per_bank(stored, quantum_bytes=chip.quantum_bytes) if chip else stored

    def _correct(self, expected: dict[Hashable, CapturedBuffer]) -> None:
        """Make the live buffers those that a snapshot proves."""
        untouched = not self.moment
        stale = [
            life
            for key, life in self._live.items()
            if key not in expected or self._calculate_taken(expected[key]) != life.taken_bytes_per_bank
        ]
        for life in stale:
            self._free(life.buffer)
        missing = [buffer for key, buffer in expected.items() if key not in self._live]
        for buffer in missing:
            self._allocate(buffer)
        if untouched:  # nothing had happened yet, so this is where the capture begins
            self._settle()
        else:
            self.corrections += len(stale) + len(missing)

    def _evaluate_program(self) -> None:
        """Compare the program's moment with the operation's worst one; the core with most program bytes counts."""
        if not self._program or self._operation < 0:
            return
        needs = L1Needs(self._allocated[_L1], sum_worst_core(self._program))
        if needs.total > self.needs[-1].total:
            self.needs[-1] = needs


def before(operation: CapturedOperation) -> dict[Hashable, CapturedBuffer] | None:
    """Return the buffers alive when the operation began, reconstructed from the snapshot after it."""
    if operation.snapshot is None:
        return None
    alive = {buffer.key: buffer for buffer in operation.snapshot}
    for event in reversed(operation.events):
        if isinstance(event, Allocated):
            alive.pop(event.buffer.key, None)
        elif isinstance(event, Freed):
            alive[event.buffer.key] = event.buffer
    return alive


def find_alive_at_start(operations: Sequence[CapturedOperation]) -> list[CapturedBuffer]:
    """Return the buffers alive before the capture, from its first snapshot, else from those touched in it."""
    first = next((number for number, operation in enumerate(operations) if operation.snapshot is not None), None)
    if first is None:
        return _find_older_buffers(operations)
    events = [event for operation in operations[: first + 1] for event in operation.events]
    earlier = CapturedOperation("", events=events, snapshot=operations[first].snapshot)
    return list((before(earlier) or {}).values())


def _find_older_buffers(operations: Iterable[CapturedOperation]) -> list[CapturedBuffer]:
    """It was freed or read in the capture, but never allocated in it."""
    seen: set[Hashable] = set()
    older: dict[Hashable, CapturedBuffer] = {}
    for operation in operations:
        for event in operation.events:
            if isinstance(event, Allocated):
                seen.add(event.buffer.key)
            elif isinstance(event, Freed | Used):
                key = event.buffer.key
                # A release describes the buffer better than a use does: it has the bytes per bank.
                if key not in seen and (key not in older or isinstance(event, Freed)):
                    older[key] = event.buffer
                if isinstance(event, Freed):
                    seen.add(key)
    return list(older.values())
