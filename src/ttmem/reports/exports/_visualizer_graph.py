# SPDX-License-Identifier: Apache-2.0
"""Captured graphs for ttnn-visualizer: what a profile knows of the inside of each operation, as graph nodes.

The visualizer reads peaks from these graphs. Where a profile knows no more than the states around an operation, the
graph holds the operation alone.
"""

from collections.abc import Iterator
from typing import Any

from ttmem.hardware import Grid
from ttmem.profile.model import BEFORE_OPERATION, MEMORIES, VIEW_ALLOCATED, Profile, Timeline
from ttmem.reports.exports._residency import Residency, Resident

_MAKE, _FREE = "buffer_allocate", "buffer_deallocate"
_PARTS = (
    ("circular_buffers", "circular_buffer_allocate", "globally_allocated"),
    ("dataflow_buffers", "dataflow_buffer_allocate", "borrows_memory"),
    ("scratchpads", "scratchpad_allocate", ""),
)

Node = dict[str, Any]


def captured_graph(profile: Profile, timeline: Timeline, found: Residency, grid: Grid | None) -> Iterator[list[Node]]:
    """One graph per operation; ``grid`` is that of the compute cores, if it is known."""
    steps: dict[int, list[tuple[int, str, Resident]]] = {}
    for item in found.residents:
        # Releases come first where the order is not known: then no moment is fuller than the states around it.
        if item.freed_in >= 0:
            steps.setdefault(item.freed_in, []).append((2 * item.freed_late, _FREE, item))
        if item.made_in >= 0:
            steps.setdefault(item.made_in, []).append((2 * item.made_late + 1, _MAKE, item))
    held = _held_before(profile, timeline)
    for position, form in enumerate(timeline.form.tolist()):
        ordered = sorted(steps.get(position, ()), key=lambda step: step[0])
        wanted = int(timeline.programs_l1.tensors[position]) if timeline.programs_l1 is not None else -1
        place = _program_place(ordered, held[position], wanted)
        inside = [(kind, _buffer(item)) for _, kind, item in ordered]
        inside[place:place] = _program(timeline, position, grid)
        yield _graph(profile.forms.name_of(form), inside)


def _program_place(ordered: list[tuple[int, str, Resident]], held: int, wanted: int) -> int:
    """Before which step the program ran: where L1 held most of what it held at the program's worst moment.

    Buffers that show in no state are not among the steps, so the very amount may never be reached.
    """
    best, place, now = (held if held <= wanted else -1), 0, held
    for number, (_, kind, item) in enumerate(ordered, start=1):
        if item.life.type.memory == "L1":
            now += item.life.bytes_per_bank if kind == _MAKE else -item.life.bytes_per_bank
        if best < now <= wanted:
            best, place = now, number
    return place


def _held_before(profile: Profile, timeline: Timeline) -> list[int]:
    """Per operation: what L1 held before it, -1 when no state tells."""
    views = timeline.state_view[:, MEMORIES.index("L1")]
    held = [-1] * len(timeline)
    for state, operation in enumerate(timeline.state_operation.tolist()):
        if operation >= 0 and views[state] >= 0 and timeline.state_kind[state] == BEFORE_OPERATION:
            position = operation - timeline.first_index
            if position < len(held):
                held[position] = int(profile.views[views[state], VIEW_ALLOCATED])
    return held


def _program(timeline: Timeline, position: int, grid: Grid | None) -> Iterator[tuple[str, Node]]:
    """What programs needed beside tensors: one node per kind, with the bytes of the fullest core on all cores."""
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


def _buffer(item: Resident) -> Node:
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


def _graph(operation: str, inside: list[tuple[str, Node]]) -> list[Node]:
    """A capture of one function, with what happened inside it: (kind, parameters) of nodes."""
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
