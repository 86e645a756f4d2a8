# SPDX-License-Identifier: Apache-2.0
"""A profile as flat tables, for people who bring their own tools: one row per operation, state, tensor, ...

Column names carry unit and scope. CSV, Parquet and the methods of ``Profile`` give the same tables.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from typing import Any, TypeVar

import numpy as np

from ttmem.analysis.failure import failures
from ttmem.analysis.lifetimes import all_lifetimes
from ttmem.analysis.weights import weights
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


def printable(text: str) -> str:
    """A file name that is not UTF-8 holds lone surrogates, which no format of the exports can."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its values (None where there is none) and what they are."""

    kind: str
    values: Values


@dataclass(frozen=True, slots=True)
class Table:
    """A table by its name."""

    name: str
    columns: dict[str, Column]


def tables(profile: Profile) -> Iterator[Table]:
    """All tables of a profile, one at a time: a long run makes large ones."""
    yield operations(profile)
    yield states(profile)
    yield tensors(profile)
    yield _weights(profile)
    yield _failures(profile)
    yield _source(profile)


def _rank(timeline: Timeline) -> int | None:
    return timeline.rank if timeline.rank >= 0 else None


def operations(profile: Profile) -> Table:
    """One row per executed operation."""
    forms = profile.forms
    location = cache(forms.location)
    names = ("rank", "index", "name", "location", "program", "run", "line")
    needs = (*(f"l1_{part}_bytes_per_core" for part in L1_PARTS), "l1_programs_measured")
    columns: dict[str, Values] = {name: [] for name in (*names, *needs)}
    for timeline in profile.timelines:
        count = len(timeline)
        numbers = timeline.form.tolist()
        programs = [timeline.programs[number] if number >= 0 else None for number in timeline.program.tolist()]
        columns["rank"] += [_rank(timeline)] * count
        columns["index"] += range(timeline.first_index, timeline.end_index)
        columns["name"] += map(forms.name_of, numbers)
        columns["location"] += map(location, numbers)
        columns["program"] += [program.name if program else None for program in programs]
        columns["run"] += [program.run if program else None for program in programs]
        columns["line"] += [line or None for line in timeline.line.tolist()]
        for name, values in zip(needs, _needs(timeline), strict=True):
            columns[name] += values
    kinds = {"name": TEXT, "location": TEXT, "program": TEXT, "l1_programs_measured": TRUTH}
    return Table("operations", {name: Column(kinds.get(name, INTEGER), values) for name, values in columns.items()})


def _needs(timeline: Timeline) -> Iterator[Values]:
    """What programs needed in L1, part by part, and whether it was measured; for sources that know it."""
    needs = timeline.programs_l1
    if needs is None:
        yield from repeat([None] * len(timeline), len(L1_PARTS) + 1)
        return
    known = (needs.tensors >= 0).tolist()
    for part in L1_PARTS:
        yield [value if here else None for value, here in zip(getattr(needs, part).tolist(), known, strict=True)]
    yield needs.measured.astype(bool).tolist()


def states(profile: Profile) -> Table:
    """One row per state and memory that it shows."""
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
        columns["rank"] += [_rank(timeline)] * len(state_numbers)
        columns["state"] += state_numbers.tolist()
        columns["kind"] += [STATE_NAMES[kind] for kind in timeline.state_kind[state_numbers].tolist()]
        columns["operation_index"] += [n if n >= 0 else None for n in timeline.state_operation[state_numbers].tolist()]
        columns["caused_by_index"] += [n if n >= 0 else None for n in timeline.state_cause[state_numbers].tolist()]
        columns["memory"] += [MEMORIES[memory] for memory in memories.tolist()]
        for name, position in figures.items():
            columns[name] += views[:, position].tolist()
    kinds = {"kind": TEXT, "memory": TEXT}
    return Table("states", {name: Column(kinds.get(name, INTEGER), values) for name, values in columns.items()})


def tensors(profile: Profile) -> Table:
    """One row per tensor and the part of the run in which it lived."""
    lives = [(timeline, life) for timeline in profile.timelines for life in all_lifetimes(profile, timeline)]
    return _table(
        "tensors",
        lives,
        {
            "rank": (INTEGER, lambda row: _rank(row[0])),
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


def _weights(profile: Profile) -> Table:
    return _table(
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


def _failures(profile: Profile) -> Table:
    return _table(
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


def _source(profile: Profile) -> Table:
    """Where it all comes from: caveats travel with the figures."""
    rows: list[tuple[str, str]] = [
        ("name", profile.name),
        ("kind", profile.source.kind),
        ("state_error_bytes", str(profile.source.state_error_bytes)),
        *((f"fact: {key}", str(value)) for key, value in profile.facts.items()),
        *(("warning", warning) for warning in profile.source.warnings),
    ]
    return _table("source", rows, {"key": (TEXT, lambda row: row[0]), "value": (TEXT, lambda row: row[1])})


def _table(name: str, rows: Sequence[_Item], columns: Mapping[str, tuple[str, Callable[[_Item], Any]]]) -> Table:
    return Table(name, {head: Column(kind, [value(row) for row in rows]) for head, (kind, value) in columns.items()})
