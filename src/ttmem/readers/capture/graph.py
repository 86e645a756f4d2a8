# SPDX-License-Identifier: Apache-2.0
"""ttnn graph captures: a bare list of nodes, or the report that full_graph_capture writes -> a Profile."""

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np

from ttmem.base.errors import BadInputError
from ttmem.engines.worker.graph_nodes import CoreRectangle, read_memory
from ttmem.profile.model import MEMORIES, FailureText, Profile, Source, Timeline
from ttmem.profile.tables import (
    BufferEntry,
    ProfileTables,
    States,
    build_buffer_table,
    build_programs_l1,
    build_timeline,
)
from ttmem.readers.byte_source import OpenedSource
from ttmem.readers.capture import KIND, list_capture_files
from ttmem.readers.capture.buffer_replay import BufferLife, BufferReplay, find_alive_at_start
from ttmem.readers.capture.device import CapturedDevice, infer_device, read_described_device
from ttmem.readers.capture.nodes import Node, PythonCall, Report
from ttmem.readers.capture.operations import (
    BUFFER_NODES,
    Allocated,
    CapturedBuffer,
    CapturedOperation,
    Freed,
    GraphWalk,
    Used,
    collect_interleaved_samples,
)
from ttmem.readers.registry import ReadOptions


def build_capture_timeline(
    operations: Sequence[CapturedOperation], replay: BufferReplay, tables: ProfileTables, *, rank: int = -1
) -> Timeline:
    """Build the timeline of one process of a capture."""
    executed = [operation for operation in operations if not operation.is_outside]
    shown = _shown_memories(replay)
    states = States()
    for state in replay.states:
        views = {memory: view for memory, view in state.views.items() if memory in shown}
        states.add(state.kind, state.operation, state.cause, tables.add_views(views))
    needs = [
        (need.tensors, *need.parts, operation.programs_known)
        for need, operation in zip(replay.needs, executed, strict=True)
    ]
    return build_timeline(
        [_form(operation, tables) for operation in executed],
        states,
        rank=rank,
        failures=tuple(_failures(operations)),
        needs=build_programs_l1(needs),
        buffers=build_buffer_table(_buffers(executed, replay, tables)),
    )


def _form(operation: CapturedOperation, tables: ProfileTables) -> int:
    """The distinct form of an operation: its name, the tensors it read and made, and where it was called."""
    operands, results = _collect_inputs(operation), _collect_results(operation)
    return tables.add_form(
        operation.name,
        location=operation.location,
        operand_types=[tables.add_type(buffer.tensor) for buffer in operands.values()],
        result_types=[tables.add_type(buffer.tensor) for buffer in results.values()],
        values=f"{' '.join(map(_value, results))}={' '.join(map(_value, operands))}",
    )


def _failures(operations: Sequence[CapturedOperation]) -> Iterator[FailureText]:
    started = 0
    for operation in operations:
        started += not operation.is_outside
        if operation.failure:
            text = operation.failure.partition("\nbacktrace:")[0]  # frames of the library, with paths of the machine
            running = -1 if operation.is_outside else started - 1
            yield FailureText(" ".join(text.split()), 0, running, started, is_exception=True)


def _collect_inputs(operation: CapturedOperation) -> dict[str, CapturedBuffer]:
    """The tensors that an operation took, by name; what it made itself in between is none of them."""
    kinds = (Used, Freed) if operation.name.endswith("deallocate") else (Used,)
    made = {event.buffer.key for event in operation.events if isinstance(event, Allocated)}
    return {
        event.buffer.tensor_name: event.buffer
        for event in operation.events
        if isinstance(event, kinds) and event.buffer.tensor is not None and event.buffer.key not in made
    }


def _collect_results(operation: CapturedOperation) -> dict[str, CapturedBuffer]:
    """The tensors that an operation left behind."""
    made: dict[Hashable, CapturedBuffer] = {}
    for event in operation.events:
        if isinstance(event, Allocated) and event.buffer.tensor is not None:
            made[event.buffer.key] = event.buffer
        elif isinstance(event, Freed):
            made.pop(event.buffer.key, None)
    return {buffer.tensor_name: buffer for buffer in made.values()}


def _shown_memories(replay: BufferReplay) -> set[int]:
    """A memory that was not configured and never used is left out; DRAM and L1 always are there."""
    used = {life.memory for life in replay.lives}
    configured = {MEMORIES.index(name) for name, span in replay.device.spans.items() if span.bytes_per_bank}
    return {0, 1} | used | configured


def _buffers(executed: Sequence[CapturedOperation], replay: BufferReplay, tables: ProfileTables) -> list[BufferEntry]:
    banks = [replay.device.spans[memory].banks for memory in MEMORIES]
    return [
        BufferEntry(
            life.buffer.address,
            life.memory,
            life.taken_bytes_per_bank,
            # A snapshot says what a bank holds and not what was asked for: then all banks together.
            life.buffer.total_bytes or life.taken_bytes_per_bank * banks[life.memory],
            first,
            last,
            life.producer,
            life.last_use,
            tables.add_type(life.buffer.tensor),
            _name(life, executed),
        )
        for life, first, last in zip(replay.lives, *_state_ranges(replay), strict=True)
        if first <= last
    ]


def _state_ranges(replay: BufferReplay) -> tuple[list[int], list[int]]:
    """Return per buffer the first and last state during its lifetime; first > last when no state shows it."""
    first, last = [0] * len(replay.lives), [-1] * len(replay.lives)
    for memory in range(len(MEMORIES)):
        numbers = [number for number, state in enumerate(replay.states) if memory in state.moments]
        moments = np.array([replay.states[number].moments[memory] for number in numbers], np.int64)
        mine = [row for row, life in enumerate(replay.lives) if life.memory == memory]
        starts = np.searchsorted(moments, [replay.lives[row].allocated_at for row in mine], side="left").tolist()
        ends = np.searchsorted(moments, [replay.lives[row].freed_at for row in mine], side="left").tolist()
        for row, start, end in zip(mine, starts, ends, strict=True):
            if start < end:
                first[row], last[row] = numbers[start], numbers[end - 1]
            else:
                first[row], last[row] = 1, 0
    return first, last


def _name(life: BufferLife, executed: Sequence[CapturedOperation]) -> str:
    """The tensor that owns it, else what is known of it."""
    if life.buffer.tensor_name:
        return life.buffer.tensor_name
    return f"buffer of {executed[life.producer].name}" if life.producer >= 0 else "buffer made outside operations"


def _value(tensor_name: str) -> str:
    """A tensor as a value name: names may hold blanks, value names may not."""
    return f"%{tensor_name.replace(' ', '_')}" if tensor_name else "%?"


_CORNERS = re.compile(r'"end":\{"x":(\d{1,6}),"y":(\d{1,6})\},"start":\{"x":(\d{1,6}),"y":(\d{1,6})\}')
_AGAIN = "capture again with ttnn.graph.end_graph_capture() or ttnn.graph.full_graph_capture(FILE)"


def read(source: str | Path, options: ReadOptions) -> Profile:
    """The memory history of a capture; of a folder, that of all processes that captured."""
    paths = list_capture_files(Path(source)) if Path(source).is_dir() else [source]
    tables = ProfileTables()
    timelines, sizes, warnings, facts = zip(*(_read_process(path, tables) for path in paths), strict=True)
    origin = Source(KIND, str(source), sum(sizes), warnings=tuple(dict.fromkeys(chain.from_iterable(warnings))))
    if len({timeline.rank for timeline in timelines}) < len(timelines):
        timelines = tuple(replace(timeline, rank=rank) for rank, timeline in enumerate(timelines))
    return tables.build(timelines, name=options.name, source=origin, facts=facts[0])


def _read_process(path: str | Path, tables: ProfileTables) -> tuple[Timeline, int, list[str], dict[str, str]]:
    """The history of one process, its file's bytes, what its figures leave out, and what is known of its device."""
    with OpenedSource(path) as opened:
        content = opened.json_content()
    report = _decode(content, str(path))
    if not report.graph:
        raise BadInputError("the captured graph is empty", where=str(path), hint=_AGAIN)
    version = str(report.metadata.get("version", ""))
    device, others = _devices(report.graph)
    dispatched = _was_dispatched(report.graph)
    captured_on = _find_captured_device(report, device, version)
    operations = GraphWalk(
        nodes=report.graph,
        device=device,
        dispatched=dispatched,
        circular_buffers_are_complete=captured_on.has_only_circular_buffers,
        snapshots=report.per_operation_buffers if dispatched else {},
        python_calls=report.python_io or _sidecar(path),
    ).run()
    if all(operation.is_outside for operation in operations):
        raise BadInputError("no operation in the captured graph", where=str(path), hint=_AGAIN)
    replay = BufferReplay(captured_on)
    replay.run(operations, older=find_alive_at_start(operations))
    warnings = [*captured_on.warnings, *_caveats(operations, replay, dispatched=dispatched)]
    if others:
        listed = ", ".join(map(str, others))
        warnings.append(
            f"the capture holds buffers of several devices; this is device {device}, the fullest; not shown: {listed}"
        )
    facts = {**captured_on.facts, **({"ttnn": version} if version else {})}
    return build_capture_timeline(operations, replay, tables, rank=_rank(report)), len(content), warnings, facts


def _rank(report: Report) -> int:
    """The process that captured, when there were several; -1 for the only one."""
    rank, world_size = report.metadata.get("rank"), report.metadata.get("world_size")
    return rank if isinstance(rank, int) and isinstance(world_size, int) and world_size > 1 else -1


def _decode(content: bytes, where: str) -> Report:
    try:
        if content.lstrip()[:1] == b"[":
            return Report(graph=msgspec.json.decode(content, type=list[Node]))
        return msgspec.json.decode(content, type=Report)
    except msgspec.ValidationError as error:
        raise BadInputError(f"not a graph capture: {error}", where=where, hint=_AGAIN) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadInputError(f"the JSON is damaged or cut: {error}", where=where, hint=_AGAIN) from None


def _sidecar(path: str | Path) -> list[PythonCall]:
    """Read the Python layer's file next to the report (stack frames, error texts), which may be missing or foreign."""
    if str(path) == "-":
        return []
    beside = Path(path).with_suffix(".python_io.json")
    try:
        with OpenedSource(beside) as opened:
            return msgspec.json.decode(opened.json_content(), type=list[PythonCall])
    except (BadInputError, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return []


def _devices(nodes: Sequence[Node]) -> tuple[int, list[int]]:
    """The device that most bytes were allocated on, and the others that the capture knows."""
    requested: Counter[int] = Counter()
    for node in nodes:
        if node.node_type in BUFFER_NODES:
            requested[node.number("device_id")] += node.number("size")
        elif node.node_type == "tensor" and node.stated.get("device_id") is not None:
            requested[node.number("device_id")] += 0
    ranked = [device for device, _ in requested.most_common()]
    return (ranked[0], ranked[1:]) if ranked else (0, [])


def _was_dispatched(nodes: Sequence[Node]) -> bool:
    """NO_DISPATCH captures allocate nothing: every address is 0."""
    if any(node.node_type == "program_execution" for node in nodes):
        return True
    allocations = [node for node in nodes if node.node_type == "buffer_allocate"]
    return not allocations or any(node.number("address") for node in allocations)


def _find_captured_device(report: Report, device: int, version: str) -> CapturedDevice:
    samples = collect_interleaved_samples(report.graph)
    described = next((entry for entry in report.devices if entry.get("device_id") == device), None)
    if described is not None:
        return read_described_device(
            described, version=version, cluster_descriptor=report.cluster_descriptor, samples=samples
        )
    circular = [node.number("address") for node in report.graph if node.node_type == "circular_buffer_allocate"]
    owned = [address for address in circular if address]
    ends = [
        node.number("address") + node.number("max_size_per_bank")
        for node in report.graph
        if node.node_type in BUFFER_NODES and node.number("address") and read_memory(node.stated) == "L1"
    ]
    return infer_device(
        samples,
        l1_base_address=min(owned, default=0),
        l1_end_address=max(ends, default=0),
        cores=_worker_cores(report.graph),
    )


def _worker_cores(nodes: Sequence[Node]) -> int:
    """The cores that programs may use, from the first node that lists them; 0 when none does."""
    for node in nodes:
        if node.node_type in ("sub_device_manager", "program_execution"):
            corners = _CORNERS.findall(node.text("sub_devices") or node.text("worker_core_ranges"))
            rectangles = (CoreRectangle(*map(int, (left, top, right, bottom))) for right, bottom, left, top in corners)
            if cores := sum(rectangle.cores for rectangle in rectangles):
                return cores
    return 0


def _caveats(operations: Sequence[CapturedOperation], replay: BufferReplay, *, dispatched: bool) -> list[str]:
    """List what the figures leave out."""
    caveats = []
    hidden = sum(not operation.programs_known for operation in operations)
    if not dispatched:
        caveats.append(
            "a NO_DISPATCH capture allocates nothing: addresses and fragmentation are not known, and nothing can fail"
        )
    if hidden:
        caveats.append(
            f"a NORMAL capture omits dataflow buffers, and circular buffers of cached programs: the L1 that programs "
            f"need is not fully known for {hidden} operations; capture with RunMode.NO_DISPATCH to see it"
        )
    if all(operation.snapshot is None for operation in operations):
        caveats.append(
            "what was allocated before the capture and not touched in it does not show: allocated bytes are a floor"
        )
    if replay.unsized:
        caveats.append(f"{replay.unsized} tensors from before the capture could not be sized and are not counted")
    if replay.corrections:
        caveats.append(f"{replay.corrections} buffers came or went without a record; the report's snapshots were used")
    if not any(isinstance(event, Allocated) for operation in operations for event in operation.events):
        caveats.append("no allocation was recorded")
    return caveats
