# SPDX-License-Identifier: Apache-2.0
"""A report folder that ttnn-visualizer opens: ``db.sqlite`` and ``config.json``.

What the profile does not know is left empty, never made up; the one exception are addresses of tensors that a log
names, which the twin lays out, and ``report_metadata`` says so under ``ttmem_provenance``.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ttmem._errors import BadInputError
from ttmem._version import __version__
from ttmem.analysis.failure import failures
from ttmem.exports._place import new_folder
from ttmem.exports._residency import Residency, Resident, residency
from ttmem.exports._visualizer_device import device_row
from ttmem.exports._visualizer_graph import captured_graph
from ttmem.exports._visualizer_schema import BUFFER_TYPES, VERSION, create_indexes, create_tables
from ttmem.profile import Profile, TensorType, Timeline

MOST_BUFFER_ROWS = 20_000_000
"""One row per buffer and operation that it survives: beyond this the visualizer itself cannot open the report."""

_LAYOUTS = {"interleaved": 0, "height_sharded": 2, "width_sharded": 3, "block_sharded": 4, "nd_sharded": 5}
_PLACE = re.compile(r"(?P<file>.+?\.\w+):(?P<line>\d+)(?::\d+)?")
_LARGEST_SOURCE_BYTES = 4 << 20

Row = tuple[Any, ...]


def write(profile: Profile, out: Path, *, with_source: bool = False) -> Path:
    """Write the folder; ``with_source`` embeds the user's files that operations point to."""
    found = [residency(profile, timeline) for timeline in profile.timelines]
    rows = sum(item.rows for item in found)
    if rows > MOST_BUFFER_ROWS:
        raise BadInputError(
            f"ttnn-visualizer wants a row per buffer and operation: {rows:,} rows are more than it can open",
            where=profile.source.name,
            hint="export one run: --run last",
        )
    with new_folder(out) as folder:
        with closing(sqlite3.connect(folder / "db.sqlite")) as database:
            database.execute("PRAGMA synchronous = OFF")  # the folder gets its name only when all is written
            create_tables(database)
            writer = _Writer(profile, database, with_source=with_source)
            for timeline, item in zip(profile.timelines, found, strict=True):
                writer.process(timeline, item)
            writer.about(simulated=any(item.simulated for item in found))
            create_indexes(database)
            database.commit()
        config = {"report_name": profile.name, "enable_detailed_buffer_report": False, "written_by": "ttmem"}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return out


class _Writer:
    """Fills the tables, process by process."""

    def __init__(self, profile: Profile, database: sqlite3.Connection, *, with_source: bool) -> None:
        self._profile = profile
        self._database = database
        self._with_source = with_source
        self._sources: dict[str, int | None] = {}

    def insert(self, table: str, columns: str, rows: Iterator[Row] | list[Row]) -> None:
        marks = ", ".join("?" for _ in columns.split(","))
        self._database.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)

    def process(self, timeline: Timeline, found: Residency) -> None:
        rank = max(timeline.rank, 0)
        columns, values = device_row(self._profile, timeline)
        self.insert("devices", f"{columns}, rank", [(*values, rank)])
        self._operations(timeline, rank)
        self._tensors(timeline, found, rank)
        self.insert(
            "buffers",
            "operation_id, device_id, address, max_size_per_bank, buffer_type, buffer_layout, rank",
            _buffer_rows(found, rank),
        )
        self.insert(
            "captured_graph",
            "operation_id, captured_graph, rank",
            (
                (position + 1, json.dumps(graph), rank)
                for position, graph in enumerate(captured_graph(self._profile, timeline, found))
            ),
        )
        self._errors(timeline, rank)

    def about(self, *, simulated: bool) -> None:
        """Where the report comes from, so that nobody takes a reconstruction for a measurement."""
        source = self._profile.source
        provenance = f"{source.kind}; addresses {'simulated' if simulated else 'as recorded'}"
        rows = [
            ("schema_version", VERSION),
            ("ttmem_version", __version__),
            ("ttmem_provenance", provenance),
            ("ttmem_state_error_bytes", str(source.state_error_bytes)),
            *((f"ttmem_warning_{number}", text) for number, text in enumerate(source.warnings, start=1)),
        ]
        if version := self._profile.facts.get("ttnn"):
            rows.append(("version", str(version)))
        self.insert("report_metadata", "key, value", [(key, _text(value)) for key, value in rows])

    def _operations(self, timeline: Timeline, rank: int) -> None:
        forms = self._profile.forms
        numbers = timeline.form.tolist()
        named = [(position + 1, _text(forms.name_of(form)), 0.0, rank) for position, form in enumerate(numbers)]
        self.insert("operations", "operation_id, name, duration, rank", named)
        self.insert(
            "nodes",
            "operation_id, unique_id, node_operation_id, name, rank",
            [(number, number, number, name, rank) for number, name, _, _ in named],
        )
        traces = []
        for position, form in enumerate(numbers):
            location = _text(forms.location(form))
            if place := _PLACE.fullmatch(location):
                text = f'  File "{place["file"]}", line {place["line"]}\n'
                traces.append((position + 1, text, self._source_id(place["file"]), rank))
            elif location:
                traces.append((position + 1, f"  {location}\n", None, rank))
        self.insert("stack_traces", "operation_id, stack_trace, source_file_id, rank", traces)

    def _source_id(self, file: str) -> int | None:
        """The embedded file's number; None when sources are not wanted, or the file is not there (any more)."""
        if not self._with_source:
            return None
        if file not in self._sources:
            self._sources[file] = None
            path = Path(file)
            try:
                contents = path.read_text("utf-8", "replace") if path.stat().st_size <= _LARGEST_SOURCE_BYTES else None
            except OSError:
                contents = None
            if contents is not None:
                number = 1 + sum(known is not None for known in self._sources.values())
                self.insert("source_files", "id, path, contents", [(number, file, contents)])
                self._sources[file] = number
        return self._sources[file]

    def _tensors(self, timeline: Timeline, found: Residency, rank: int) -> None:
        known = [item for item in found.residents if item.life.type.layout]
        numbers = {id(item): number for number, item in enumerate(known, start=1)}
        self.insert(
            "tensors",
            "tensor_id, shape, dtype, layout, memory_config, device_id, address, buffer_type, rank",
            [(numbers[id(item)], *_spec(item.life.type), 0, item.address, _buffer_type(item), rank) for item in known],
        )
        self.insert(
            "device_tensors",
            "tensor_id, device_id, address, rank",
            [(numbers[id(item)], 0, item.address, rank) for item in known],
        )
        produced = list(_produced(timeline, known, numbers))
        consumed = list(_consumed(self._profile, timeline, known, numbers))
        self.insert("output_tensors", "operation_id, output_index, tensor_id, rank", [(*row, rank) for row in produced])
        self.insert("input_tensors", "operation_id, input_index, tensor_id, rank", [(*row, rank) for row in consumed])
        for table, rows in (("tensor_producers", produced), ("tensor_consumers", consumed)):
            index = "output_index" if table == "tensor_producers" else "input_index"
            self.insert(
                table,
                f"tensor_id, operation_id, {index}, rank",
                [(tensor, operation, position, rank) for operation, position, tensor in rows],
            )
        self.insert(
            "tensor_lifetime",
            "tensor_id, producer_operation_id, last_use_operation_id, deallocate_operation_id, rank",
            [
                (
                    numbers[id(item)],
                    _operation_id(timeline, item.life.producer_index),
                    _operation_id(timeline, item.life.last_use_index),
                    item.last_after + 2 if -1 <= item.last_after < len(timeline) - 1 else None,
                    rank,
                )
                for item in known
            ],
        )

    def _errors(self, timeline: Timeline, rank: int) -> None:
        rows = []
        for item in failures(self._profile):
            if max(item.rank, 0) == rank:
                number = _operation_id(timeline, item.operation_index) or 0
                name = item.operation_name or "outside any operation"
                rows.append((number, _text(name), item.failure_class, _text(item.message), "", "", rank))
        columns = "operation_id, operation_name, error_type, error_message, stack_trace, timestamp, rank"
        self.insert("errors", columns, rows)


def _operation_id(timeline: Timeline, index: int | None) -> int | None:
    """The visualizer counts from 1."""
    return None if index is None else index - timeline.first_index + 1


def _buffer_rows(found: Residency, rank: int) -> Iterator[Row]:
    """In the order of operations, as the library writes them."""
    coming: dict[int, list[Resident]] = {}
    last = -1
    for item in found.residents:
        if item.last_after >= max(item.first_after, 0) and item.life.bytes_per_bank:
            coming.setdefault(max(item.first_after, 0), []).append(item)
            last = max(last, item.last_after)
    alive: list[Resident] = []
    for position in range(last + 1):
        alive = [item for item in alive if item.last_after >= position] + coming.get(position, [])
        for item in alive:
            type_ = item.life.type
            layout = _LAYOUTS.get(type_.placement, 0)
            yield position + 1, 0, item.address, item.life.bytes_per_bank, _buffer_type(item), layout, rank


def _buffer_type(item: Resident) -> int:
    return BUFFER_TYPES.get(item.life.type.memory, 0)


def _spec(type_: TensorType) -> tuple[str, str, str, str]:
    """Shape, data type, layout and memory config as ttnn's importer writes them."""
    sharded = type_.placement.endswith("sharded")
    config = (
        f"MemoryConfig(memory_layout=TensorMemoryLayout::{type_.placement.upper() or 'INTERLEAVED'},"
        f"buffer_type=BufferType::{type_.memory},shard_spec={'unknown' if sharded else 'std::nullopt'})"
    )
    return (
        f"Shape([{', '.join(map(str, type_.shape))}])",
        f"DataType.{type_.dtype.upper()}",
        f"Layout.{type_.layout.upper()}",
        config,
    )


def _produced(timeline: Timeline, known: list[Resident], numbers: dict[int, int]) -> Iterator[tuple[int, int, int]]:
    count: dict[int, int] = {}
    for item in known:
        operation = _operation_id(timeline, item.life.producer_index)
        if operation is not None and item.last_after >= operation - 1:
            yield operation, count.setdefault(operation, 0), numbers[id(item)]
            count[operation] += 1


def _consumed(
    profile: Profile, timeline: Timeline, known: list[Resident], numbers: dict[int, int]
) -> Iterator[tuple[int, int, int]]:
    """Operands by their value names; a name that comes back means the newest tensor that has it."""
    by_name: dict[str, list[Resident]] = {}
    for item in sorted(known, key=lambda item: item.first_after):
        by_name.setdefault(_value_name(item.life.name), []).append(item)
    operands: dict[int, tuple[str, ...]] = {}
    for position, form in enumerate(timeline.form.tolist()):
        if form not in operands:
            operands[form] = profile.forms[form].operands
        taken = 0
        for name in operands[form]:
            alive = [
                item
                for item in by_name.get(name, ())
                if item.first_after < position and item.last_after >= position - 1
            ]
            if alive:
                yield position + 1, taken, numbers[id(alive[-1])]
                taken += 1


def _value_name(name: str) -> str:
    return name if name.startswith("%") else f"%{name.replace(' ', '_')}"


def _text(text: str) -> str:
    """A file name that is not UTF-8 holds lone surrogates, which the database cannot."""
    return text.encode("utf-8", "backslashreplace").decode()
