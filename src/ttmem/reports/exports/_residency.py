# SPDX-License-Identifier: Apache-2.0
"""Which buffer lies where, and after which operations it is there, for formats that want addresses.

Sources that hold the buffers themselves tell it. A log tells only which tensors lived when, and a capture without
dispatch has no addresses: those are laid out by the twin's own allocator, in the order in which they came and went, and
the result says that its addresses are simulated.
"""

from dataclasses import dataclass

import numpy as np

from ttmem.analysis.architecture import architecture_of
from ttmem.analysis.lifetimes import TensorLife, all_lifetimes
from ttmem.analysis.states import bank_size
from ttmem.engines.worker.graph_nodes.parameters import BUFFER_TYPES
from ttmem.hardware import MEMORIES as HARDWARE_MEMORIES
from ttmem.profile.model import MEMORIES, SNAPSHOT, WITHIN_OPERATION, Profile, Timeline
from ttmem.twin.free_list import FreeList

_BUFFER_TYPES = {name: number for number, name in BUFFER_TYPES.items()}


@dataclass(frozen=True, slots=True)
class Resident:
    """One buffer: positions count the timeline's operations from 0."""

    life: TensorLife
    address: int
    total_bytes: int
    first_after: int
    """The first operation after which it is there; -1 when it was there before the first."""
    last_after: int
    """The last operation after which it is there; before ``first_after`` when it lived inside one operation only."""
    made_in: int = -1
    """The operation that made it, -1 when none did."""
    freed_in: int = -1
    """The operation that freed it, -1 when none did."""
    made_late: bool = False
    """It came after the fullest moment of the operation that made it."""
    freed_late: bool = False
    """It went after the fullest moment of the operation that freed it."""

    @property
    def buffer_type(self) -> int:
        """The library's number of its memory."""
        return _BUFFER_TYPES.get(self.life.type.memory, 0)


@dataclass(frozen=True, slots=True)
class Residency:
    """The buffers of one process."""

    residents: tuple[Resident, ...]
    simulated: bool

    @property
    def rows(self) -> int:
        """How many (operation, buffer) pairs there are."""
        return sum(max(0, item.last_after - max(item.first_after, 0) + 1) for item in self.residents)


def residency(profile: Profile, timeline: Timeline) -> Residency:
    """Every buffer of a process with its address."""
    lives = all_lifetimes(profile, timeline)
    if timeline.buffers is None:
        return Residency(tuple(_laid_out(profile, timeline, lives)), simulated=True)
    buffers = timeline.buffers
    addresses = {row: life.address for row, life in enumerate(lives) if life.address is not None}
    simulated = len(addresses) < len(lives)  # a capture without dispatch allocates nothing, so it has no addresses
    if simulated:
        spans = list(zip(buffers.first_state.tolist(), (buffers.last_state + 1).tolist(), strict=True))
        addresses = _simulated(profile, timeline, lives, spans)
    after = _after_states(timeline)
    peaks = _fullest_moments(timeline)
    kinds = timeline.state_kind.tolist()
    first_state = next((state for state, kind in enumerate(kinds) if kind not in (WITHIN_OPERATION, SNAPSHOT)), 0)
    last_state = len(kinds) - 1
    found = []
    for row, life in enumerate(lives):
        first, last = int(buffers.first_state[row]), int(buffers.last_state[row])
        # Alive after operation i when the state that follows it lies between the two.
        start, end = (int(position) for position in np.searchsorted(after, (first, last + 1)))
        made_in = -1 if life.producer_index is None else life.producer_index - timeline.first_index
        freed_in = int(timeline.state_operation[last]) - timeline.first_index if last < last_state else -1
        memory = int(buffers.memory[row])
        found.append(
            Resident(
                life=life,
                address=addresses.get(row, 0),
                total_bytes=int(buffers.total_bytes[row]),
                first_after=-1 if first <= first_state else start,
                last_after=end - 1,
                made_in=made_in,
                freed_in=max(freed_in, -1),
                made_late=first > peaks.get((made_in, memory), first),
                freed_late=last == peaks.get((freed_in, memory), -1),
            )
        )
    return Residency(tuple(found), simulated=simulated)


def _fullest_moments(timeline: Timeline) -> dict[tuple[int, int], int]:
    """(operation, memory) -> the state that shows its fullest moment, where it has one inside."""
    inside = np.flatnonzero(timeline.state_kind == WITHIN_OPERATION)
    state_numbers, memories = np.nonzero(timeline.state_view[inside] >= 0)
    return {
        (int(timeline.state_operation[inside[state]]) - timeline.first_index, memory): int(inside[state])
        for state, memory in zip(state_numbers.tolist(), memories.tolist(), strict=True)
    }


def _after_states(timeline: Timeline) -> list[int]:
    """Per operation: the state that shows what it left. That is the next one outside it."""
    outside = [state for state, kind in enumerate(timeline.state_kind.tolist()) if kind != WITHIN_OPERATION]
    own = {int(operation): state for state, operation in enumerate(timeline.state_operation.tolist()) if operation >= 0}
    after = []
    latest = -1
    for index in range(timeline.first_index, timeline.end_index):
        latest = max(latest, own.get(index, latest))
        position = int(np.searchsorted(outside, latest, side="right"))
        after.append(outside[position] if position < len(outside) else len(timeline.state_kind))
    return after


def _laid_out(profile: Profile, timeline: Timeline, lives: list[TensorLife]) -> list[Resident]:
    """The tensors of a log, given addresses; a tensor is freed by an operation before that makes anything itself."""
    first, end = timeline.first_index, len(timeline) - 1
    spans = []
    for life in lives:
        start = -1 if life.producer_index is None else life.first_index - first
        stop = life.last_index - first
        spans.append((start, stop if stop < end else end + 1))  # what reaches the end stays
    addresses = _simulated(profile, timeline, lives, spans)
    return [
        Resident(
            life=life,
            address=addresses[row],
            total_bytes=life.type.padded_bytes,
            first_after=start,
            last_after=stop - 1,
            made_in=-1 if life.producer_index is None else life.producer_index - first,
            freed_in=stop if stop < end else -1,
        )
        for row, (life, (start, stop)) in enumerate(zip(lives, spans, strict=True))
        if row in addresses
    ]


def _simulated(
    profile: Profile, timeline: Timeline, lives: list[TensorLife], spans: list[tuple[int, int]]
) -> dict[int, int]:
    """Addresses by the allocator's own rule: first fit, DRAM upwards, L1 downwards. What ends makes room at once."""
    pools = _pools(profile, timeline)
    events: list[tuple[int, int, int]] = []
    for row, (start, end) in enumerate(spans):
        if lives[row].type.memory in pools and lives[row].bytes_per_bank and start < end:
            events += [(start, 1, row), (end, 0, row)]
    addresses: dict[int, int] = {}
    for _, comes, row in sorted(events):
        pool = pools[lives[row].type.memory]
        if comes:
            addresses[row] = pool.allocate(lives[row].bytes_per_bank) or 0
        elif addresses[row]:
            pool.free(addresses[row])
    return addresses


def _pools(profile: Profile, timeline: Timeline) -> dict[str, FreeList]:
    chip = architecture_of(profile)
    totals = {memory: bank_size(profile, timeline, memory)[1] for memory in MEMORIES}
    l1_base = max(0, chip.l1_bytes_per_core - totals["L1"] - totals["L1_SMALL"])
    dram_base = max(chip.dram_alignment_bytes, chip.dram_bytes_per_bank - totals["DRAM"] - totals["TRACE"])
    bases = {"DRAM": dram_base, "TRACE": dram_base + totals["DRAM"], "L1": l1_base, "L1_SMALL": l1_base + totals["L1"]}
    return {
        memory.name: FreeList(bases[memory.name], totals[memory.name], grows_down=memory.grows_down)
        for memory in HARDWARE_MEMORIES
        if totals.get(memory.name)
    }
