# SPDX-License-Identifier: Apache-2.0
"""ttnn-visualizer reports: a folder with a ``db.sqlite``, or the database itself.

The table ``buffers`` lists what was alive *after* each operation; that is a floor. What an operation held in between,
and what its programs took, is in its captured graph, which is replayed where it exists.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ttmem.base.errors import BadInputError
from ttmem.base.text_files import read_bytes
from ttmem.engines.worker.graph_nodes import parse_memory, parse_number
from ttmem.profile.model import Profile, Source, Timeline
from ttmem.profile.tables import ProfileTables
from ttmem.profile.tensor_type import HOST
from ttmem.readers.capture.buffer_replay import BufferReplay
from ttmem.readers.capture.device import CapturedDevice, InterleavedSample, read_described_device
from ttmem.readers.capture.graph import build_capture_timeline
from ttmem.readers.capture.nodes import Node, find_innermost_frame, normalize_operation, parse_tensor_spec
from ttmem.readers.capture.operations import (
    Allocated,
    CapturedBuffer,
    CapturedOperation,
    Event,
    Freed,
    GraphWalk,
    Used,
    collect_interleaved_samples,
)
from ttmem.readers.registry import ReadOptions
from ttmem.readers.sqlite_tables import Database, Row, open_database
from ttmem.readers.visualizer import DATABASE_NAME, KIND

_DEVICE_COLUMNS = dict.fromkeys(
    ("device_id", "worker_l1_size", "l1_num_banks", "l1_bank_size", "address_at_first_l1_cb_buffer", "cb_limit"), 0
)
_Group = TypeVar("_Group")
_SAMPLED_GRAPHS = 50
"""Operations whose buffers are enough to infer the number of banks."""


def read(source: str | Path, options: ReadOptions) -> Profile:
    """The memory history in a report folder or its database."""
    path = Path(source)
    database_path = path / DATABASE_NAME if path.is_dir() else path
    descriptor = _cluster_descriptor(database_path.parent)
    with open_database(database_path) as database:
        metadata = database.metadata()
        tables = ProfileTables()
        ranks = database.ranks()
        processes = [_Process(database, rank, metadata, descriptor) for rank in ranks]
        timelines = [process.timeline(tables, named=len(ranks) > 1) for process in processes]
        others = database.warnings
    if not any(map(len, timelines)):
        raise BadInputError(
            "the report holds no operation",
            where=str(database_path),
            hint="an importer that ran on a failed capture writes an empty database: capture again",
        )
    warnings = list(dict.fromkeys([*others, *(warning for process in processes for warning in process.warnings)]))
    facts = dict(processes[0].captured_on.facts)
    if version := metadata.get("version"):
        facts["ttnn"] = version
    facts["schema"] = metadata.get("schema_version", "unversioned")
    origin = Source(kind=KIND, name=str(path), bytes=database_path.stat().st_size, lines=0, warnings=tuple(warnings))
    return tables.build(timelines, name=options.name, source=origin, facts=facts)


def _cluster_descriptor(folder: Path) -> str:
    for file in sorted(folder.glob("cluster_descriptor*.yaml")):
        try:
            return read_bytes(file).decode("utf-8", "replace")
        except BadInputError:
            continue
    return ""


class _UnsortedError(Exception):
    """The table of buffers is not in the order of operations."""


@dataclass(slots=True)
class _Process:
    """A rank of the report, read in the order of its operations."""

    database: Database
    rank: int
    metadata: dict[str, str]
    cluster_descriptor: str
    warnings: list[str] = field(default_factory=list)
    captured_on: CapturedDevice = field(init=False)
    _device: int = 0
    _floors: int = 0
    """Operations without a captured graph: only the state after them is known."""
    _unsorted: bool = False
    _known: dict[tuple[Any, ...], CapturedBuffer | None] = field(default_factory=dict)
    """Row of the table of buffers -> what it describes; None for what is not on the device."""
    _tensors: dict[int, CapturedBuffer] = field(default_factory=dict)
    """Tensor id -> what it says of its buffer."""

    def timeline(self, tables: ProfileTables, *, named: bool) -> Timeline:
        """The process as a timeline; ``named``: there are several, so its rank matters."""
        self._device, others = self._devices()
        self.captured_on = self._find_captured_device()
        self._read_tensors()
        try:
            executed, replay = self._replay()
        except _UnsortedError:  # rows are written in order of operations; sorting millions is only for others
            self._unsorted, self._floors = True, 0
            self.warnings.clear()
            executed, replay = self._replay()
        self._note_caveats(executed, replay, others)
        return build_capture_timeline(executed, replay, tables, rank=self.rank if named else -1)

    def _replay(self) -> tuple[list[CapturedOperation], BufferReplay]:
        replay = BufferReplay(self.captured_on)
        executed: list[CapturedOperation] = []
        replay.run(self._operations(executed))
        return executed, replay

    # --- the device -----------------------------------------------------------------------------------------------

    def _devices(self) -> tuple[int, list[int]]:
        """The device that holds most bytes, and the others that hold any."""
        held = self.database.sums("buffers", "device_id", "max_size_per_bank", rank=self.rank)
        ranked = sorted(held, key=lambda device: -held[device])
        if ranked:
            return ranked[0], ranked[1:]
        described = [parse_number(row[0]) for row in self.database.select("devices", {"device_id": 0}, rank=self.rank)]
        return (described[-1] if described else 0), []

    def _find_captured_device(self) -> CapturedDevice:
        rows = self.database.select("devices", _DEVICE_COLUMNS, rank=self.rank)
        devices = [dict(zip(_DEVICE_COLUMNS, row, strict=True)) for row in rows]
        described: dict[str, Any] = next(
            (device for device in devices if parse_number(device["device_id"]) == self._device),
            devices[0] if devices else {},
        )
        return read_described_device(
            described,
            version=self.metadata.get("version", ""),
            cluster_descriptor=self.cluster_descriptor,
            samples=self._samples(),
        )

    def _samples(self) -> list[InterleavedSample]:
        graphs = self.database.select("captured_graph", {"captured_graph": ""}, rank=self.rank)
        sampled = enumerate(islice(graphs, _SAMPLED_GRAPHS))
        return collect_interleaved_samples(node for number, (text,) in sampled for node in self._decode(text, number))

    # --- operations -----------------------------------------------------------------------------------------------

    def _operations(self, executed: list[CapturedOperation]) -> Iterator[CapturedOperation]:
        """The operations with their events; ``executed`` collects them without their snapshots, which are large."""
        columns = {"operation_id": 0, "name": ""}
        rows = self.database.select("operations", columns, rank=self.rank, order="operation_id")
        operations = [(parse_number(number), str(name or "unknown")) for number, name in rows]
        places, errors = self._locations(), self._errors()
        inputs, outputs = (self._arguments(table) for table in ("input_tensors", "output_tensors"))
        snapshots = self._snapshots(outputs)
        snapshot_after, graphs_of = _look_up_by_operation(snapshots), _look_up_by_operation(self._graphs())
        alive: dict[Hashable, CapturedBuffer] | None = None
        for number, name in operations:
            after = snapshot_after(number)
            operation = CapturedOperation(
                normalize_operation(name), number, places.get(number, ""), failure=errors.pop(number, "")
            )
            used = (self._tensors[tensor] for tensor in inputs.get(number, ()) if tensor in self._tensors)
            operation.events = [Used(buffer) for buffer in used if buffer.address]
            nodes = [node for text in graphs_of(number) or () for node in self._decode(text, number)]
            if nodes:
                self._replay_graph(operation, nodes)
                operation.snapshot = after
            else:
                self._floors += 1
                if after is not None:
                    if alive is None:  # before the first operation: everything that it leaves, but for its results
                        made = self._results(outputs.get(number, ()))
                        alive = {buffer.key: buffer for buffer in after if buffer.key not in made}
                        yield CapturedOperation("", events=[Allocated(buffer) for buffer in alive.values()])
                    operation.events += _difference(alive, after)
            if after is not None:
                alive = {buffer.key: buffer for buffer in after}
            yield operation
            operation.snapshot = None
            executed.append(operation)
        for _ in snapshots:  # rows beyond the last operation say nothing, but they may be out of order
            continue
        executed += [CapturedOperation("", failure=text) for text in errors.values()]

    def _replay_graph(self, operation: CapturedOperation, nodes: list[Node]) -> None:
        walk = GraphWalk(
            nodes,
            self._device,
            dispatched=True,
            # Our own exports list what a program needs, or a program that lists nothing.
            circular_buffers_are_complete=self.captured_on.has_only_circular_buffers
            or "ttmem_provenance" in self.metadata,
        )
        for part in walk.run():
            operation.events += part.events
            operation.programs_known = operation.programs_known and part.programs_known

    def _results(self, tensors: Sequence[int]) -> dict[Hashable, CapturedBuffer]:
        known = (self._tensors[tensor] for tensor in tensors if tensor in self._tensors)
        return {buffer.key: buffer for buffer in known}

    # --- tables ---------------------------------------------------------------------------------------------------

    def _snapshots(self, outputs: dict[int, list[int]]) -> Iterator[tuple[int, list[CapturedBuffer]]]:
        """Yield the buffers alive after each operation; a buffer has a row per operation that it survives."""
        columns = {"operation_id": 0, "address": 0, "max_size_per_bank": 0, "buffer_type": 0, "device_id": 0}
        order = "operation_id" if self._unsorted else ""
        rows: Iterable[Row] = self.database.select("buffers", columns, rank=self.rank, order=order)
        if self._unsorted:  # numbers written as text or not at all are sorted otherwise by SQLite
            rows = sorted(rows, key=lambda row: parse_number(row[0]))
        known = self._known
        latest: int | None = None
        for key, group in groupby(rows, key=itemgetter(0)):
            number = parse_number(key)
            if latest is not None and number < latest:
                raise _UnsortedError
            latest = number
            alive = []
            for row in group:
                stated = row[1:]
                if stated not in known:
                    known[stated] = self._buffer(*stated)
                if (buffer := known[stated]) is not None:
                    alive.append(buffer)
            yield number, self._describe_results(alive, outputs.get(number, ()))

    def _buffer(self, address: object, size: object, buffer_type: object, device: object) -> CapturedBuffer | None:
        memory = parse_memory(buffer_type)
        if memory in ("", HOST) or parse_number(device) != self._device:
            return None
        return CapturedBuffer((memory, parse_number(address)), memory, parse_number(address), parse_number(size), 0)

    def _describe_results(self, alive: list[CapturedBuffer], outputs: Sequence[int]) -> list[CapturedBuffer]:
        """The operation's results described as the tensors that they are."""
        results = self._results(outputs)
        if not results:
            return alive
        return [
            replace(result, stored_bytes_per_bank=buffer.stored_bytes_per_bank)
            if (result := results.get(buffer.key))
            else buffer
            for buffer in alive
        ]

    def _read_tensors(self) -> None:
        described = ("shape", "dtype", "layout", "memory_config")
        columns = {**dict.fromkeys(described, ""), "buffer_type": None, "tensor_id": 0, "address": None}
        for *texts, buffer_type, tensor, address in self.database.select("tensors", columns, rank=self.rank):
            type_ = parse_tensor_spec(*(str(text or "") for text in texts), buffer_type)
            if type_ is not None and address is not None and type_.on_device:
                number, at, memory = parse_number(tensor), parse_number(address), type_.memory
                name = f"tensor {number}"
                self._tensors[number] = CapturedBuffer((memory, at), memory, at, -1, type_.padded_bytes, type_, name)

    def _arguments(self, table: str) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number, tensor in self.database.select(table, {"operation_id": 0, "tensor_id": 0}, rank=self.rank):
            found.setdefault(parse_number(number), []).append(parse_number(tensor))
        return found

    def _locations(self) -> dict[int, str]:
        rows = self.database.select("stack_traces", {"operation_id": 0, "stack_trace": ""}, rank=self.rank)
        return {parse_number(number): find_innermost_frame(str(trace or "")) for number, trace in rows}

    def _errors(self) -> dict[int, str]:
        columns = {"operation_id": 0, "operation_name": "", "error_type": "", "error_message": ""}
        found: dict[int, str] = {}
        for number, name, kind, message in self.database.select("errors", columns, rank=self.rank):
            key = parse_number(number)
            # An error without an operation of its own gets a key of its own, so that none is lost.
            found[key if key > 0 and key not in found else -1 - len(found)] = f"{kind or 'Error'}: {message or name}"
        return found

    def _graphs(self) -> Iterator[tuple[int, list[object]]]:
        columns = {"operation_id": 0, "captured_graph": ""}
        rows = self.database.select("captured_graph", columns, rank=self.rank, order="operation_id")
        for number, group in groupby(rows, key=lambda row: parse_number(row[0])):
            yield number, [text for _, text in group]

    def _decode(self, text: object, number: int) -> list[Node]:
        try:
            return msgspec.json.decode(str(text or "[]"), type=list[Node])
        except (msgspec.DecodeError, RecursionError) as error:
            self.warnings.append(f"the captured graph of operation {number} cannot be read: {error}")
            return []

    def _note_caveats(self, executed: list[CapturedOperation], replay: BufferReplay, others: list[int]) -> None:
        count = sum(not operation.is_outside for operation in executed)
        self.warnings += self.captured_on.warnings
        if self._floors:
            self.warnings.append(
                f"{self._floors} of {count} operations have no captured graph: for them the table of buffers is a "
                "floor, not the peak; temporaries and the programs' own L1 are not in it"
            )
        hidden = sum(not operation.programs_known for operation in executed)
        if hidden:
            self.warnings.append(
                "the captured graphs omit dataflow buffers, and circular buffers of cached programs: the L1 that "
                f"programs need is not fully known for {hidden} operations"
            )
        if replay.unsized:
            self.warnings.append(f"{replay.unsized} tensors have an unknown size and are not counted")
        if others:
            listed = ", ".join(map(str, others))
            self.warnings.append(f"buffers of device {self._device} are shown, the fullest; not shown: device {listed}")


def _look_up_by_operation(groups: Iterator[tuple[int, _Group]]) -> Callable[[int], _Group | None]:
    """A look-up in groups that come in the order of operations, read one after the other because they are large."""
    waiting = next(groups, None)

    def group_of(number: int) -> _Group | None:
        nonlocal waiting
        while waiting is not None and waiting[0] < number:
            waiting = next(groups, None)  # rows of an operation that is not listed
        return waiting[1] if waiting is not None and waiting[0] == number else None

    return group_of


def _difference(before: dict[Hashable, CapturedBuffer], after: list[CapturedBuffer]) -> list[Event]:
    """Return the changes between two states; releases first, so that no byte is counted twice."""
    kept = {buffer.key: buffer for buffer in after}
    gone = [buffer for key, buffer in before.items() if not _is_same(buffer, kept.get(key))]
    new = [buffer for key, buffer in kept.items() if not _is_same(before.get(key), buffer)]
    return [*(Freed(buffer) for buffer in gone), *(Allocated(buffer) for buffer in new)]


def _is_same(before: CapturedBuffer | None, after: CapturedBuffer | None) -> bool:
    """A buffer keeps its address and size; a result at an address that was taken before is a new one."""
    if before is None or after is None:
        return False
    return before is after or (before.stored_bytes_per_bank == after.stored_bytes_per_bank and not after.tensor_name)
