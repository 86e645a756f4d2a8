# SPDX-License-Identifier: Apache-2.0
"""A profile as flat tables, as CSV and Parquet: one row per operation, state, tensor, ...

Column names carry unit and scope. The methods of ``Profile`` return the same tables.
"""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import repeat
from pathlib import Path
from typing import Any, TextIO, TypeVar

import numpy as np

from ttmem.analysis.failure import failures
from ttmem.analysis.lifetimes import all_lifetimes
from ttmem.analysis.weights import weights
from ttmem.base.atomic_folders import export_folder
from ttmem.base.errors import MissingPartError
from ttmem.base.extras import install_command
from ttmem.base.text_safety import escape_control_characters
from ttmem.profile.model import (
    L1_PARTS,
    MEMORIES,
    STATE_NAMES,
    VIEW_ALLOCATED,
    VIEW_BANKS,
    VIEW_FREE,
    VIEW_LARGEST_FREE,
    VIEW_TOTAL,
    Profile,
    Timeline,
)

Values = list[Any]
_Item = TypeVar("_Item")
INTEGER, TEXT, TRUTH = "integer", "text", "truth"


def make_printable(text: str) -> str:
    """Replace the lone surrogates of a file name that is not UTF-8: no export format can hold them."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class ExportColumn:
    """A column: the kind of its values, and the values (None where there is none)."""

    kind: str
    values: Values


@dataclass(frozen=True, slots=True)
class ExportTable:
    """A table with a name."""

    name: str
    columns: dict[str, ExportColumn]


def build_tables(profile: Profile) -> Iterator[ExportTable]:
    """Yield all tables, one at a time: a long run makes large ones."""
    yield build_operations(profile)
    yield build_states(profile)
    yield build_tensors(profile)
    yield _build_weights(profile)
    yield _build_failures(profile)
    yield _build_source(profile)


def _find_rank(timeline: Timeline) -> int | None:
    return timeline.rank if timeline.rank >= 0 else None


def build_operations(profile: Profile) -> ExportTable:
    """Build a table with one row per executed operation."""
    forms = profile.forms
    location = cache(forms.location)
    names = ("rank", "index", "name", "location", "program", "run", "line")
    needs = (*(f"l1_{part}_bytes_per_core" for part in L1_PARTS), "l1_programs_measured")
    columns: dict[str, Values] = {name: [] for name in (*names, *needs)}
    for timeline in profile.timelines:
        count = len(timeline)
        numbers = timeline.form.tolist()
        programs = [timeline.programs[number] if number >= 0 else None for number in timeline.program.tolist()]
        columns["rank"] += [_find_rank(timeline)] * count
        columns["index"] += range(timeline.first_index, timeline.end_index)
        columns["name"] += map(forms.name_of, numbers)
        columns["location"] += map(location, numbers)
        columns["program"] += [program.name if program else None for program in programs]
        columns["run"] += [program.run if program else None for program in programs]
        columns["line"] += [line or None for line in timeline.line.tolist()]
        for name, values in zip(needs, _list_program_needs(timeline), strict=True):
            columns[name] += values
    kinds = {"name": TEXT, "location": TEXT, "program": TEXT, "l1_programs_measured": TRUTH}
    return ExportTable(
        "operations", {name: ExportColumn(kinds.get(name, INTEGER), values) for name, values in columns.items()}
    )


def _list_program_needs(timeline: Timeline) -> Iterator[Values]:
    """Yield the columns of L1 bytes that programs needed, and whether they were measured."""
    needs = timeline.programs_l1
    if needs is None:
        yield from repeat([None] * len(timeline), len(L1_PARTS) + 1)
        return
    known = (needs.tensors >= 0).tolist()
    for part in L1_PARTS:
        yield [value if here else None for value, here in zip(getattr(needs, part).tolist(), known, strict=True)]
    yield needs.measured.astype(bool).tolist()


def build_states(profile: Profile) -> ExportTable:
    """Build a table with one row per state and memory."""
    figures = {
        "banks": VIEW_BANKS,
        "bank_bytes": VIEW_TOTAL,
        "allocated_bytes_per_bank": VIEW_ALLOCATED,
        "free_bytes_per_bank": VIEW_FREE,
        "largest_free_bytes_per_bank": VIEW_LARGEST_FREE,
    }
    names = ("rank", "state", "kind", "operation_index", "caused_by_index", "memory")
    columns: dict[str, Values] = {name: [] for name in (*names, *figures)}
    for timeline in profile.timelines:
        state_numbers, memories = np.nonzero(timeline.state_view >= 0)
        views = profile.views[timeline.state_view[state_numbers, memories]]
        columns["rank"] += [_find_rank(timeline)] * len(state_numbers)
        columns["state"] += state_numbers.tolist()
        columns["kind"] += [STATE_NAMES[kind] for kind in timeline.state_kind[state_numbers].tolist()]
        columns["operation_index"] += [n if n >= 0 else None for n in timeline.state_operation[state_numbers].tolist()]
        columns["caused_by_index"] += [n if n >= 0 else None for n in timeline.state_cause[state_numbers].tolist()]
        columns["memory"] += [MEMORIES[memory] for memory in memories.tolist()]
        for name, position in figures.items():
            columns[name] += views[:, position].tolist()
    kinds = {"kind": TEXT, "memory": TEXT}
    return ExportTable(
        "states", {name: ExportColumn(kinds.get(name, INTEGER), values) for name, values in columns.items()}
    )


def build_tensors(profile: Profile) -> ExportTable:
    """Build a table with one row per tensor and its lifetime."""
    lives = [(timeline, life) for timeline in profile.timelines for life in all_lifetimes(profile, timeline)]
    return _build_table(
        "tensors",
        lives,
        {
            "rank": (INTEGER, lambda row: _find_rank(row[0])),
            "name": (TEXT, lambda row: row[1].name),
            "shape": (TEXT, lambda row: "x".join(map(str, row[1].type.shape))),
            "dtype": (TEXT, lambda row: row[1].type.dtype),
            "layout": (TEXT, lambda row: row[1].type.layout),
            "memory": (TEXT, lambda row: row[1].type.memory),
            "placement": (TEXT, lambda row: row[1].type.placement),
            "address": (INTEGER, lambda row: row[1].address),
            "bytes_per_bank": (INTEGER, lambda row: row[1].bytes_per_bank),
            "logical_bytes": (INTEGER, lambda row: row[1].type.logical_bytes),
            "padded_bytes": (INTEGER, lambda row: row[1].type.padded_bytes),
            "producer_index": (INTEGER, lambda row: row[1].producer_index),
            "producer": (TEXT, lambda row: row[1].producer_name),
            "location": (TEXT, lambda row: row[1].location),
            "first_index": (INTEGER, lambda row: row[1].first_index),
            "last_index": (INTEGER, lambda row: row[1].last_index),
            "last_use_index": (INTEGER, lambda row: row[1].last_use_index),
            "weight": (TRUTH, lambda row: row[1].weight),
        },
    )


def _build_weights(profile: Profile) -> ExportTable:
    return _build_table(
        "weights",
        weights(profile).entries,
        {
            "name": (TEXT, lambda weight: weight.name),
            "shape": (TEXT, lambda weight: "x".join(map(str, weight.shape))),
            "dtype": (TEXT, lambda weight: weight.dtype),
            "logical_bytes": (INTEGER, lambda weight: weight.bytes),
            "kind": (TEXT, lambda weight: weight.kind),
            "where": (TEXT, lambda weight: weight.where),
        },
    )


def _build_failures(profile: Profile) -> ExportTable:
    return _build_table(
        "failures",
        failures(profile),
        {
            "rank": (INTEGER, lambda failure: failure.rank if failure.rank >= 0 else None),
            "class": (TEXT, lambda failure: failure.failure_class),
            "memory": (TEXT, lambda failure: failure.memory),
            "operation_index": (INTEGER, lambda failure: failure.operation_index),
            "operation": (TEXT, lambda failure: failure.operation_name),
            "message": (TEXT, lambda failure: failure.message),
            "survived": (TRUTH, lambda failure: failure.survived),
        },
    )


def _build_source(profile: Profile) -> ExportTable:
    """Build the table of the source, its facts and warnings."""
    rows: list[tuple[str, str]] = [
        ("name", profile.name),
        ("kind", profile.source.kind),
        ("state_error_bytes", str(profile.source.state_error_bytes)),
        *((f"fact: {key}", str(value)) for key, value in profile.facts.items()),
        *(("warning", warning) for warning in profile.source.warnings),
    ]
    return _build_table("source", rows, {"key": (TEXT, lambda row: row[0]), "value": (TEXT, lambda row: row[1])})


def _build_table(
    name: str, rows: Sequence[_Item], columns: Mapping[str, tuple[str, Callable[[_Item], Any]]]
) -> ExportTable:
    return ExportTable(
        name, {head: ExportColumn(kind, [value(row) for row in rows]) for head, (kind, value) in columns.items()}
    )


def write_csv(profile: Profile, out: Path, *, with_source: bool = False) -> Path:
    """Write the folder; tables have no place for source files, so ``with_source`` changes nothing."""
    with export_folder(out) as folder:
        for table in build_tables(profile):
            path = folder / f"{table.name}.csv"
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(_EscapedFile(file), lineterminator="\n")
                writer.writerow(table.columns)
                writer.writerows(zip(*map(_format_cells, table.columns.values()), strict=True))
    return out


class _EscapedFile:
    """A file without control characters, for spreadsheets and pagers."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        return self._file.write(escape_control_characters(text))


def _format_cells(column: ExportColumn) -> list[Any]:
    if column.kind != TRUTH:
        return column.values  # the writer leaves None empty
    return [None if value is None else str(value).lower() for value in column.values]


def write_parquet(profile: Profile, out: Path, *, with_source: bool = False) -> Path:
    """Write the folder; tables have no place for source files, so ``with_source`` changes nothing."""
    parquet = _import_pyarrow("pyarrow.parquet", extra="parquet")
    with export_folder(out) as folder:
        for table in build_tables(profile):
            content = build_arrow_table(table, extra="parquet")
            parquet.write_table(content, folder / f"{table.name}.parquet", compression="zstd")
    return out


def build_arrow_table(table: ExportTable, *, extra: str) -> Any:
    """Convert a table for pyarrow; ``extra`` is the optional part of ttmem that installs it."""
    arrow = _import_pyarrow(extra=extra)
    types = {INTEGER: arrow.int64(), TRUTH: arrow.bool_()}
    return arrow.table(
        {
            name: arrow.array(
                [make_printable(value) if isinstance(value, str) else value for value in column.values],
                types.get(column.kind, arrow.string()),
            )
            for name, column in table.columns.items()
        }
    )


def _import_pyarrow(name: str = "pyarrow", *, extra: str) -> Any:
    """Import the module; the error names the command that installs it."""
    try:
        return import_module(name)
    except ImportError:
        needs = "Parquet needs pyarrow" if extra == "parquet" else "tables in Python need pyarrow"
        raise MissingPartError(f"{needs}, which is not installed", hint=install_command(extra)) from None
