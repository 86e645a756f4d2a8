# SPDX-License-Identifier: Apache-2.0
"""Addresses and captured graphs for ttnn-visualizer.

Sources that hold the buffers themselves have addresses. A log lists only which tensors lived when, and a capture
without dispatch has no addresses: the twin's own allocator computes those, in the order in which buffers came and
went, and the result is marked as simulated.

The visualizer reads peaks from the graphs. Where a profile knows no more than the states around an operation, the
graph holds the operation alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ttmem.analysis.architecture import guess_architecture
from ttmem.analysis.lifetimes import TensorLife, all_lifetimes
from ttmem.analysis.states import bank_size
from ttmem.engines.worker.graph_nodes import BUFFER_TYPES
from ttmem.hardware import MEMORIES as HARDWARE_MEMORIES
from ttmem.hardware import Grid
from ttmem.profile.model import (
    BEFORE_OPERATION,
    MEMORIES,
    SNAPSHOT,
    VIEW_ALLOCATED,
    WITHIN_OPERATION,
    Profile,
    Timeline,
)
from ttmem.twin.free_list import FreeList

_BUFFER_TYPES = {name: number for number, name in BUFFER_TYPES.items()}


@dataclass(frozen=True, slots=True)
class ExportedBuffer:
    """A buffer with its address; positions count the timeline's operations from 0."""

    life: TensorLife
    address: int
    total_bytes: int
    first_after: int
    """The first operation after which it exists; -1 when it existed before the first."""
    last_after: int
    """The last operation after which it exists; less than ``first_after`` when it lived inside one operation only."""
    made_in: int = -1
    """The operation that made it, -1 when none did."""
    freed_in: int = -1
    """The operation that freed it, -1 when none did."""
    made_late: bool = False
    """It was allocated after the fullest moment of the operation that made it."""
    freed_late: bool = False
    """It was freed after the fullest moment of the operation that freed it."""

    @property
    def buffer_type(self) -> int:
        """The library's number of its memory."""
        return _BUFFER_TYPES.get(self.life.type.memory, 0)


@dataclass(frozen=True, slots=True)
class Residency:
    """The buffers of one process."""

    residents: tuple[ExportedBuffer, ...]
    simulated: bool

    @property
    def rows(self) -> int:
        """The number of (operation, buffer) pairs."""
        return sum(max(0, item.last_after - max(item.first_after, 0) + 1) for item in self.residents)


def find_residency(profile: Profile, timeline: Timeline) -> Residency:
    """Find all buffers of a process with their addresses."""
    lives = all_lifetimes(profile, timeline)
    if timeline.buffers is None:
        return Residency(tuple(_lay_out(profile, timeline, lives)), simulated=True)
    buffers = timeline.buffers
    addresses = {row: life.address for row, life in enumerate(lives) if life.address is not None}
    simulated = len(addresses) < len(lives)  # a capture without dispatch allocates nothing, so it has no addresses
    if simulated:
        spans = list(zip(buffers.first_state.tolist(), (buffers.last_state + 1).tolist(), strict=True))
        addresses = _simulate_addresses(profile, timeline, lives, spans)
    after = _find_states_after(timeline)
    peaks = _find_fullest_moments(timeline)
    kinds = timeline.state_kind.tolist()
    first_state = next((state for state, kind in enumerate(kinds) if kind not in (WITHIN_OPERATION, SNAPSHOT)), 0)
    last_state = len(kinds) - 1
    found = []
    for row, life in enumerate(lives):
        first, last = int(buffers.first_state[row]), int(buffers.last_state[row])
        # A buffer is alive after operation i when the state that follows it is between the two.
        start, end = (int(position) for position in np.searchsorted(after, (first, last + 1)))
        made_in = -1 if life.producer_index is None else life.producer_index - timeline.first_index
        freed_in = int(timeline.state_operation[last]) - timeline.first_index if last < last_state else -1
        memory = int(buffers.memory[row])
        found.append(
            ExportedBuffer(
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


def _find_fullest_moments(timeline: Timeline) -> dict[tuple[int, int], int]:
    """Map (operation, memory) to the state of its fullest moment, where it has one inside."""
    inside = np.flatnonzero(timeline.state_kind == WITHIN_OPERATION)
    state_numbers, memories = np.nonzero(timeline.state_view[inside] >= 0)
    return {
        (int(timeline.state_operation[inside[state]]) - timeline.first_index, memory): int(inside[state])
        for state, memory in zip(state_numbers.tolist(), memories.tolist(), strict=True)
    }


def _find_states_after(timeline: Timeline) -> list[int]:
    """Return per operation the state after it: the next one outside it."""
    outside = [state for state, kind in enumerate(timeline.state_kind.tolist()) if kind != WITHIN_OPERATION]
    own = {int(operation): state for state, operation in enumerate(timeline.state_operation.tolist()) if operation >= 0}
    after = []
    latest = -1
    for index in range(timeline.first_index, timeline.end_index):
        latest = max(latest, own.get(index, latest))
        position = int(np.searchsorted(outside, latest, side="right"))
        after.append(outside[position] if position < len(outside) else len(timeline.state_kind))
    return after


def _lay_out(profile: Profile, timeline: Timeline, lives: list[TensorLife]) -> list[ExportedBuffer]:
    """Assign addresses to the tensors of a log; an operation frees tensors before it makes new ones."""
    first, end = timeline.first_index, len(timeline) - 1
    spans = []
    for life in lives:
        start = -1 if life.producer_index is None else life.first_index - first
        stop = life.last_index - first
        spans.append((start, stop if stop < end else end + 1))  # what reaches the end stays
    addresses = _simulate_addresses(profile, timeline, lives, spans)
    return [
        ExportedBuffer(
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


def _simulate_addresses(
    profile: Profile, timeline: Timeline, lives: list[TensorLife], spans: list[tuple[int, int]]
) -> dict[int, int]:
    """Compute addresses by the allocator's rule: first fit, DRAM upwards, L1 downwards."""
    pools = _create_pools(profile, timeline)
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


def _create_pools(profile: Profile, timeline: Timeline) -> dict[str, FreeList]:
    chip = guess_architecture(profile)
    totals = {memory: bank_size(profile, timeline, memory)[1] for memory in MEMORIES}
    l1_base = max(0, chip.l1_bytes_per_core - totals["L1"] - totals["L1_SMALL"])
    dram_base = max(chip.dram_alignment_bytes, chip.dram_bytes_per_bank - totals["DRAM"] - totals["TRACE"])
    bases = {"DRAM": dram_base, "TRACE": dram_base + totals["DRAM"], "L1": l1_base, "L1_SMALL": l1_base + totals["L1"]}
    return {
        memory.name: FreeList(bases[memory.name], totals[memory.name], grows_down=memory.grows_down)
        for memory in HARDWARE_MEMORIES
        if totals.get(memory.name)
    }


_MAKE, _FREE = "buffer_allocate", "buffer_deallocate"
_PARTS = (
    ("circular_buffers", "circular_buffer_allocate", "globally_allocated"),
    ("dataflow_buffers", "dataflow_buffer_allocate", "borrows_memory"),
    ("scratchpads", "scratchpad_allocate", ""),
)

Node = dict[str, Any]


def build_graphs(profile: Profile, timeline: Timeline, found: Residency, grid: Grid | None) -> Iterator[list[Node]]:
    """Yield one graph per operation; ``grid`` is that of the compute cores, if it is known."""
    steps: dict[int, list[tuple[int, str, ExportedBuffer]]] = {}
    for item in found.residents:
        # Releases come first where the order is not known: then no moment is fuller than the states around it.
        if item.freed_in >= 0:
            steps.setdefault(item.freed_in, []).append((2 * item.freed_late, _FREE, item))
        if item.made_in >= 0:
            steps.setdefault(item.made_in, []).append((2 * item.made_late + 1, _MAKE, item))
    held = _read_l1_before(profile, timeline)
    for position, form in enumerate(timeline.form.tolist()):
        ordered = sorted(steps.get(position, ()), key=lambda step: step[0])
        wanted = int(timeline.programs_l1.tensors[position]) if timeline.programs_l1 is not None else -1
        place = _find_program_position(ordered, held[position], wanted)
        inside = [(kind, _describe_buffer(item)) for _, kind, item in ordered]
        inside[place:place] = _build_program_nodes(timeline, position, grid)
        yield _build_graph(profile.forms.name_of(form), inside)


def _find_program_position(ordered: list[tuple[int, str, ExportedBuffer]], held: int, wanted: int) -> int:
    """Return the step before which the program ran: where L1 held most of its amount at the program's fullest moment.

    Buffers that show in no state are not among the steps, so the very amount may never be reached.
    """
    best, place, now = (held if held <= wanted else -1), 0, held
    for number, (_, kind, item) in enumerate(ordered, start=1):
        if item.life.type.memory == "L1":
            now += item.life.bytes_per_bank if kind == _MAKE else -item.life.bytes_per_bank
        if best < now <= wanted:
            best, place = now, number
    return place


def _read_l1_before(profile: Profile, timeline: Timeline) -> list[int]:
    """Return per operation the L1 bytes before it, -1 where no state shows them."""
    views = timeline.state_view[:, MEMORIES.index("L1")]
    held = [-1] * len(timeline)
    for state, operation in enumerate(timeline.state_operation.tolist()):
        if operation >= 0 and views[state] >= 0 and timeline.state_kind[state] == BEFORE_OPERATION:
            position = operation - timeline.first_index
            if position < len(held):
                held[position] = int(profile.views[views[state], VIEW_ALLOCATED])
    return held


def _build_program_nodes(timeline: Timeline, position: int, grid: Grid | None) -> Iterator[tuple[str, Node]]:
    """Yield one node per kind of program buffer, with the bytes of the fullest core on all cores."""
    needs = timeline.programs_l1
    if needs is None or grid is None or (parts := needs.parts(position)) is None:
        return
    cores = f"{{[0-0 - {grid.columns - 1}-{grid.rows - 1}]}}"
    sizes = [(parts[part], kind, shared) for part, kind, shared in _PARTS]
    start = ("circular_buffer_deallocate_all", {"device_id": 0})
    if any(size for size, _, _ in sizes):
        yield start
    for size, kind, shared in sizes:
        if size:
            params = {"address": 0, "size": size, "core_range_set": cores, "device_id": 0}
            yield kind, {**params, **({shared: "0"} if shared else {})}
    if not needs.measured[position]:
        yield start  # a program that lists nothing: what it needs is not known


def _describe_buffer(item: ExportedBuffer) -> Node:
    memory = item.life.type.memory
    return {
        "address": item.address,
        "buffer_type": item.buffer_type,
        "device_id": 0,
        "layout": item.life.type.placement.upper() or "INTERLEAVED",
        "max_size_per_bank": item.life.bytes_per_bank,
        "num_cores": 0,
        "page_size": item.life.type.page_bytes,
        "size": item.total_bytes,
        "type": "DRAM" if memory in ("DRAM", "TRACE") else "L1",
    }


def _build_graph(operation: str, inside: list[tuple[str, Node]]) -> list[Node]:
    """Build the graph of one function from the (kind, parameters) of the nodes inside it."""
    listed = [
        (0, "capture_start", {}),
        (1, "function_start", {"name": operation, "inputs": "0"}),
        *((2, kind, params) for kind, params in inside),
        (1, "function_end", {"name": operation}),
        (0, "capture_end", {}),
    ]
    nodes: list[Node] = [
        {
            "counter": number,
            "id": number,
            "node_type": kind,
            "params": params,
            "connections": [],
            "arguments": [],
            "input_tensors": [],
            "stacking_level": level,
        }
        for number, (level, kind, params) in enumerate(listed)
    ]
    end = len(nodes) - 2
    nodes[0]["connections"] = [1]
    nodes[1]["connections"] = list(range(2, end + 1))
    nodes[end]["connections"] = [end + 1]
    return nodes
