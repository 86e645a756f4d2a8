# SPDX-License-Identifier: Apache-2.0
"""The replay against the allocator itself: whatever happens, no peak is lost and every state is the truth."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ttmem.hardware import WORMHOLE
from ttmem.profile.model import BEFORE_OPERATION, MEMORIES, SNAPSHOT, WITHIN_OPERATION
from ttmem.readers.capture.buffer_replay import BufferReplay, before, find_alive_at_start
from ttmem.readers.capture.device import CapturedDevice, MemorySpan
from ttmem.readers.capture.operations import Allocated, CapturedBuffer, CapturedOperation, Event, Freed
from ttmem.twin.free_list import FreeList

TOTALS = {"DRAM": 10_000 * 32, "L1": 3_000 * 32}
BASES = {"DRAM": 1024, "L1": 4096}
DEVICE = CapturedDevice(
    WORMHOLE,
    {memory: MemorySpan(12, BASES.get(memory, 0), TOTALS.get(memory, 0)) for memory in MEMORIES},
)


class World:
    """An allocator, the events it causes and what it says meanwhile."""

    def __init__(self) -> None:
        self.pools = {
            memory: FreeList(BASES[memory], TOTALS[memory], grows_down=memory == "L1") for memory in ("DRAM", "L1")
        }
        self.alive: list[CapturedBuffer] = []
        self.highest = dict.fromkeys(self.pools, 0)

    def allocate(self, memory: str, size: int) -> Event | None:
        address = self.pools[memory].allocate(-(-size // 32) * 32)
        if address is None:
            return None
        buffer = CapturedBuffer((memory, address), memory, address, size, size * 12)
        self.alive.append(buffer)
        self.highest[memory] = max(self.highest[memory], self.pools[memory].allocated_bytes)
        return Allocated(buffer)

    def free(self, choice: int) -> Event | None:
        if not self.alive:
            return None
        buffer = self.alive.pop(choice % len(self.alive))
        self.pools[buffer.memory].free(buffer.address)
        return Freed(buffer)

    def view(self) -> dict[str, tuple[int, int, int]]:
        return {
            memory: (pool.allocated_bytes, pool.free_bytes, pool.largest_free_bytes)
            for memory, pool in self.pools.items()
        }


STEPS = st.lists(
    st.tuples(st.sampled_from(["DRAM", "L1", "free", "free"]), st.integers(1, 40_000)), min_size=0, max_size=8
)
"""(memory or release, bytes per bank or which buffer) of one operation, or of a pause between two."""


@given(STEPS, st.lists(st.tuples(st.booleans(), STEPS), max_size=12), st.booleans())
def test_states_are_the_allocators_and_no_peak_is_lost(
    older: list[tuple[str, int]], parts: list[tuple[bool, list[tuple[str, int]]]], with_snapshots: bool
) -> None:
    # GIVEN what was there before the capture began: it is known where there are snapshots
    world = World()
    for what, amount in older if with_snapshots and any(is_operation for is_operation, _ in parts) else ():
        _ = world.free(amount) if what == "free" else world.allocate(what, amount)
    world.highest = {memory: pool.allocated_bytes for memory, pool in world.pools.items()}
    operations: list[CapturedOperation] = []
    views_before = []
    for is_operation, steps in parts:
        operation = CapturedOperation("ttnn.op" if is_operation else "")
        if is_operation:
            views_before.append(world.view())
        for what, amount in steps:
            event = world.free(amount) if what == "free" else world.allocate(what, amount)
            if event is not None:
                operation.events.append(event)
        if with_snapshots and is_operation:
            operation.snapshot = list(world.alive)
        operations.append(operation)

    replay = BufferReplay(DEVICE)
    replay.run(operations, older=find_alive_at_start(operations))

    # THEN every state before an operation, and the last one, is what the allocator said
    shown = [block.views for block in replay.states if block.kind == BEFORE_OPERATION]
    wanted = [*views_before, world.view()]
    for views, truth in zip([*shown, replay.states[-1].views], wanted, strict=True):
        found = {MEMORIES[memory]: view[2:] for memory, view in views.items() if MEMORIES[memory] in truth}
        assert found == truth
    # and the fullest state of each memory is its fullest moment
    for memory, highest in world.highest.items():
        number = MEMORIES.index(memory)
        seen = [block.views[number][2] for block in replay.states if number in block.views]
        assert max(seen) == highest
    # and moments inside are fuller than the states around them, never a repetition
    for block, last in zip(replay.states[1:], replay.states, strict=False):
        if block.kind in (WITHIN_OPERATION, SNAPSHOT) and block is not replay.states[-1]:
            assert all(view[2] > last.views[memory][2] for memory, view in block.views.items() if memory in last.views)
    assert replay.corrections == 0


@given(STEPS, STEPS)
def test_what_was_alive_before_follows_from_what_is_alive_after(
    earlier: list[tuple[str, int]], steps: list[tuple[str, int]]
) -> None:
    world = World()
    for what, amount in earlier:
        _ = world.free(amount) if what == "free" else world.allocate(what, amount)
    alive = {buffer.key: buffer for buffer in world.alive}
    events = [world.free(amount) if what == "free" else world.allocate(what, amount) for what, amount in steps]
    operation = CapturedOperation("ttnn.op", events=[event for event in events if event], snapshot=list(world.alive))
    assert before(operation) == alive
