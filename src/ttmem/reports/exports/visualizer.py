# SPDX-License-Identifier: Apache-2.0
"""A report folder that ttnn-visualizer opens: ``db.sqlite`` and ``config.json``.

Unknown values are left empty, never invented; the one exception are addresses of tensors that a log
names, which the twin computes, and ``report_metadata`` says so under ``ttmem_provenance``.
"""

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from ttmem._version import __version__
from ttmem.analysis.architecture import guess_architecture
from ttmem.analysis.failure import failures
from ttmem.analysis.states import bank_size
from ttmem.base.atomic_folders import export_folder
from ttmem.base.errors import BadInputError
from ttmem.hardware import BOARDS, Grid
from ttmem.profile.model import Profile, Timeline
from ttmem.profile.tensor_type import TensorType
from ttmem.reports.exports.tables import make_printable
from ttmem.reports.exports.visualizer_graph import ExportedBuffer, Residency, build_graphs, find_residency

MOST_BUFFER_ROWS = 20_000_000
"""One row per buffer and operation that it survives: beyond this the visualizer itself cannot open the report."""

_LAYOUTS = {"interleaved": 0, "height_sharded": 2, "width_sharded": 3, "block_sharded": 4, "nd_sharded": 5}
_PLACE = re.compile(r"(?P<file>.+?\.\w+):(?P<line>\d+)(?::\d+)?")
_LARGEST_SOURCE_BYTES = 4 << 20

Row = tuple[Any, ...]

VERSION = "3.3"
_INDEXED = (
    ("buffers", "operation_id"),
    ("buffers", "address"),
    ("input_tensors", "tensor_id"),
    ("output_tensors", "tensor_id"),
    ("stack_traces", "source_file_id"),
)


def write_report(profile: Profile, out: Path, *, with_source: bool = False) -> Path:
    """Write the folder; ``with_source`` embeds the user's files that operations point to."""
    found = [find_residency(profile, timeline) for timeline in profile.timelines]
    rows = sum(item.rows for item in found)
    if rows > MOST_BUFFER_ROWS:
        raise BadInputError(
            f"ttnn-visualizer wants a row per buffer and operation: {rows:,} rows are more than it can open",
            where=profile.source.name,
            hint="export one run: --run last",
        )
    with export_folder(out) as folder:
        try:
            with closing(sqlite3.connect(folder / "db.sqlite")) as database:
                _fill_database(database, profile, found, with_source=with_source)
        except sqlite3.OperationalError as error:  # as SQLite reports a full disk
            raise BadInputError(f"cannot be written: {error}", where=str(out), hint="make room there") from error
        config = {"report_name": profile.name, "enable_detailed_buffer_report": False, "written_by": "ttmem"}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return out


def _fill_database(
    database: sqlite3.Connection, profile: Profile, found: list[Residency], *, with_source: bool
) -> None:
    database.execute("PRAGMA synchronous = OFF")  # the folder gets its name only when all is written
    database.executescript((files("ttmem.reports.exports") / "visualizer_tables.sql").read_text())
    writer = _Writer(profile, database, with_source=with_source)
    for timeline, item in zip(profile.timelines, found, strict=True):
        writer.write_process(timeline, item)
    writer.write_metadata(simulated=any(item.simulated for item in found))
    for table, column in _INDEXED:  # after the rows: quicker than keeping indexes up to date
        database.execute(f"CREATE INDEX idx_{table}_{column} ON {table} ({column})")
    database.commit()


class _Writer:
    """Writes the tables, process by process."""

    def __init__(self, profile: Profile, database: sqlite3.Connection, *, with_source: bool) -> None:
        self._profile = profile
        self._database = database
        self._with_source = with_source
        self._sources: dict[str, int | None] = {}
        self._rank = 0

    def write_process(self, timeline: Timeline, found: Residency) -> None:
        self._rank = max(timeline.rank, 0)
        grid = _find_grid(self._profile, timeline)
        self._insert("devices", [tuple(_build_device_row(self._profile, timeline, grid).values())])
        self._write_operations(timeline)
        self._write_tensors(timeline, found)
        self._insert("buffers", _build_buffer_rows(found))
        graphs = build_graphs(self._profile, timeline, found, grid)
        self._insert("captured_graph", ((number, json.dumps(graph)) for number, graph in enumerate(graphs, start=1)))
        self._write_errors(timeline)

    def write_metadata(self, *, simulated: bool) -> None:
        """Write the origin of the report, so that a reconstruction is not mistaken for a measurement."""
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
        self._write("report_metadata", ((key, make_printable(value)) for key, value in rows))

    def _insert(self, table: str, rows: Iterable[Row]) -> None:
        """Write rows of the process; ``rank`` is the last column of all its tables."""
        self._write(table, ((*row, self._rank) for row in rows))

    def _write(self, table: str, rows: Iterable[Row]) -> None:
        """Write rows with all columns, in the order of the schema."""
        columns = self._database.execute(f"PRAGMA table_info({table})").fetchall()
        self._database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' for _ in columns)})", rows)

    def _write_operations(self, timeline: Timeline) -> None:
        forms = self._profile.forms
        traces: list[Row] = []
        named = []
        for number, form in enumerate(timeline.form.tolist(), start=1):
            named.append((number, make_printable(forms.name_of(form))))
            location = make_printable(forms.location(form))
            if place := _PLACE.fullmatch(location):
                text = f'  File "{place["file"]}", line {place["line"]}\n'
                traces.append((number, text, self._embed_source(place["file"])))
            elif location:
                traces.append((number, f"  {location}\n", None))
        self._insert("operations", ((number, name, 0.0) for number, name in named))
        self._insert("nodes", ((number, number, number, name) for number, name in named))
        self._insert("stack_traces", traces)

    def _embed_source(self, file: str) -> int | None:
        """Return the embedded file's number; None when sources are not embedded or the file is missing."""
        if self._with_source and file not in self._sources:
            self._sources[file] = None
            with suppress(OSError):
                if Path(file).stat().st_size <= _LARGEST_SOURCE_BYTES:
                    contents = Path(file).read_text("utf-8", "replace")
                    number = 1 + sum(known is not None for known in self._sources.values())
                    self._write("source_files", [(number, file, contents)])
                    self._sources[file] = number
        return self._sources.get(file)

    def _write_tensors(self, timeline: Timeline, found: Residency) -> None:
        known = [item for item in found.residents if item.life.type.layout]
        numbers = {id(item): number for number, item in enumerate(known, start=1)}
        numbered = list(enumerate(known, start=1))
        self._insert(
            "tensors",
            ((number, *_describe_type(item.life.type), 0, item.address, item.buffer_type) for number, item in numbered),
        )
        self._insert("device_tensors", ((number, 0, item.address) for number, item in numbered))
        produced = list(_list_produced(timeline, known, numbers))
        consumed = list(_list_consumed(self._profile, timeline, known, numbers))
        for listed, indexed, rows in (
            ("output_tensors", "tensor_producers", produced),
            ("input_tensors", "tensor_consumers", consumed),
        ):
            self._insert(listed, rows)
            self._insert(indexed, ((tensor, operation, position) for operation, position, tensor in rows))
        lifetimes: list[Row] = []
        nowhere = (None,) * 4  # in which file and line it was made and used last
        for number, item in numbered:
            made, used = (
                _number_operation(timeline, at) for at in (item.life.producer_index, item.life.last_use_index)
            )
            freed = item.last_after + 2 if -1 <= item.last_after < len(timeline) - 1 else None
            lifetimes.append((number, made, used, freed, *nowhere))
        self._insert("tensor_lifetime", lifetimes)

    def _write_errors(self, timeline: Timeline) -> None:
        rows = []
        for item in failures(self._profile):
            if max(item.rank, 0) == self._rank:
                number = _number_operation(timeline, item.operation_index) or 0
                name = item.operation_name or "outside any operation"
                rows.append((number, make_printable(name), item.failure_class, make_printable(item.message), "", ""))
        self._insert("errors", rows)


def _build_device_row(profile: Profile, timeline: Timeline, grid: Grid | None) -> dict[str, int]:
    """Return the columns of the table ``devices``; 0 where unknown.

    Totals are those that the library itself computes: all compute cores, no storage cores.
    """
    banks, l1_bank = bank_size(profile, timeline, "L1")
    _, small = bank_size(profile, timeline, "L1_SMALL")
    rows, columns, cores = (grid.rows, grid.columns, grid.cores) if grid else (0, 0, banks)
    whole = guess_architecture(profile).l1_bytes_per_core
    base = max(0, whole - l1_bank - small) if l1_bank else 0
    return {
        "device_id": 0,
        "num_y_cores": rows,
        "num_x_cores": columns,
        "num_y_compute_cores": rows,
        "num_x_compute_cores": columns,
        "worker_l1_size": whole,
        "l1_num_banks": banks,
        "l1_bank_size": l1_bank,
        "address_at_first_l1_bank": 0,
        "address_at_first_l1_cb_buffer": base,
        "num_banks_per_storage_core": 1 if l1_bank else 0,
        "num_compute_cores": cores,
        "num_storage_cores": 0,
        "total_l1_memory": cores * whole,
        "total_l1_for_tensors": 0,
        "total_l1_for_interleaved_buffers": cores * l1_bank,
        "total_l1_for_sharded_buffers": cores * l1_bank,
        "cb_limit": whole - base,
    }


def _find_grid(profile: Profile, timeline: Timeline) -> Grid | None:
    """Return the grid of the first board with as many L1 banks; boards with as many have the same grid."""
    chip, cores = guess_architecture(profile), bank_size(profile, timeline, "L1")[0]
    grids = (grid for board in BOARDS if board.architecture is chip for _, grid in board.grids)
    return next((grid for grid in grids if grid.cores == cores), None)


def _number_operation(timeline: Timeline, index: int | None) -> int | None:
    """Return the visualizer's number, which counts from 1."""
    return None if index is None else index - timeline.first_index + 1


def _build_buffer_rows(found: Residency) -> Iterator[Row]:
    """Yield the rows in the order of operations, as the library writes them."""
    coming: dict[int, list[ExportedBuffer]] = {}
    last = -1
    for item in found.residents:
        if item.last_after >= max(item.first_after, 0) and item.life.bytes_per_bank:
            coming.setdefault(max(item.first_after, 0), []).append(item)
            last = max(last, item.last_after)
    alive: list[ExportedBuffer] = []
    for position in range(last + 1):
        alive = [item for item in alive if item.last_after >= position] + coming.get(position, [])
        for item in alive:
            layout = _LAYOUTS.get(item.life.type.placement, 0)
            yield position + 1, 0, item.address, item.life.bytes_per_bank, item.buffer_type, layout


def _describe_type(type_: TensorType) -> tuple[str, str, str, str]:
    """Return shape, data type, layout and memory config as ttnn's importer writes them."""
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


def _list_produced(
    timeline: Timeline, known: list[ExportedBuffer], numbers: dict[int, int]
) -> Iterator[tuple[int, int, int]]:
    count: dict[int, int] = {}
    for item in known:
        operation = _number_operation(timeline, item.life.producer_index)
        if operation is not None and item.last_after >= operation - 1:
            yield operation, count.setdefault(operation, 0), numbers[id(item)]
            count[operation] += 1


def _list_consumed(
    profile: Profile, timeline: Timeline, known: list[ExportedBuffer], numbers: dict[int, int]
) -> Iterator[tuple[int, int, int]]:
    """Yield operands by value name; a repeated name means the newest tensor that has it."""
    by_name: dict[str, list[ExportedBuffer]] = {}
    for item in sorted(known, key=lambda item: item.first_after):
        by_name.setdefault(_format_value_name(item.life.name), []).append(item)
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


def _format_value_name(name: str) -> str:
    return name if name.startswith("%") else f"%{name.replace(' ', '_')}"
