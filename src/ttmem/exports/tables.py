# SPDX-License-Identifier: Apache-2.0
"""A profile as flat tables, for people who bring their own tools: one row per operation, state, tensor, ...

Column names carry unit and scope. CSV, Parquet and the methods of ``Profile`` give the same tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ttmem.analysis.failure import failures
from ttmem.analysis.lifetimes import all_lifetimes
from ttmem.analysis.weights import weights
from ttmem.profile import (
    BLOCK_NAMES,
    L1_PARTS,
    MEMORIES,
    VIEW_ALLOCATED,
    VIEW_BANKS,
    VIEW_FREE,
    VIEW_LARGEST_FREE,
    VIEW_TOTAL,
    Profile,
    Timeline,
)

Values = list[Any]
INTEGER, TEXT, TRUTH = "integer", "text", "truth"


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
    locations: dict[int, str] = {}
    columns: dict[str, Values] = {
        name: []
        for name in (
            "rank",
            "index",
            "name",
            "location",
            "program",
            "run",
            "line",
            *(f"l1_{part}_bytes_per_core" for part in L1_PARTS),
            "l1_programs_measured",
        )
    }
    for timeline in profile.timelines:
        count = len(timeline)
        numbers = timeline.form.tolist()
        programs = [timeline.programs[number] if number >= 0 else None for number in timeline.program.tolist()]
        columns["rank"] += [_rank(timeline)] * count
        columns["index"] += range(timeline.first_index, timeline.end_index)
        columns["name"] += map(forms.name_of, numbers)
        for number in numbers:
            if number not in locations:
                locations[number] = forms.location(number)
            columns["location"].append(locations[number])
        columns["program"] += [program.name if program else None for program in programs]
        columns["run"] += [program.run if program else None for program in programs]
        columns["line"] += [line or None for line in timeline.line.tolist()]
        for name, values in _needs(timeline):
            columns[name] += values
    kinds = {"name": TEXT, "location": TEXT, "program": TEXT, "l1_programs_measured": TRUTH}
    return Table("operations", {name: Column(kinds.get(name, INTEGER), values) for name, values in columns.items()})


def _needs(timeline: Timeline) -> Iterator[tuple[str, Values]]:
    """What programs needed in L1, for sources that know it."""
    needs = timeline.programs_l1
    nothing = [None] * len(timeline)
    known = needs.tensors >= 0 if needs is not None else None
    for part in L1_PARTS:
        values = getattr(needs, part).tolist() if needs is not None else nothing
        if known is not None and not known.all():
            values = [value if here else None for value, here in zip(values, known.tolist(), strict=True)]
        yield f"l1_{part}_bytes_per_core", values
    yield "l1_programs_measured", [bool(value) for value in needs.measured.tolist()] if needs is not None else nothing


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
        blocks, memories = np.nonzero(timeline.block_view >= 0)
        views = profile.views[timeline.block_view[blocks, memories]]
        columns["rank"] += [_rank(timeline)] * len(blocks)
        columns["state"] += blocks.tolist()
        columns["kind"] += [BLOCK_NAMES[kind] for kind in timeline.block_kind[blocks].tolist()]
        columns["operation_index"] += [n if n >= 0 else None for n in timeline.block_operation[blocks].tolist()]
        columns["caused_by_index"] += [n if n >= 0 else None for n in timeline.block_cause[blocks].tolist()]
        columns["memory"] += [MEMORIES[memory] for memory in memories.tolist()]
        for name, position in figures.items():
            columns[name] += views[:, position].tolist()
    kinds = {"kind": TEXT, "memory": TEXT}
    return Table("states", {name: Column(kinds.get(name, INTEGER), values) for name, values in columns.items()})


def tensors(profile: Profile) -> Table:
    """One row per tensor and the part of the run in which it lived."""
    lives = [(timeline, life) for timeline in profile.timelines for life in all_lifetimes(profile, timeline)]

    def integers(of: Any) -> Column:
        return Column(INTEGER, [of(life) for _, life in lives])

    def texts(of: Any) -> Column:
        return Column(TEXT, [of(life) for _, life in lives])

    return Table(
        "tensors",
        {
            "rank": Column(INTEGER, [_rank(timeline) for timeline, _ in lives]),
            "name": texts(lambda life: life.name),
            "shape": texts(lambda life: "x".join(map(str, life.type.shape))),
            "dtype": texts(lambda life: life.type.dtype),
            "layout": texts(lambda life: life.type.layout),
            "memory": texts(lambda life: life.type.memory),
            "placement": texts(lambda life: life.type.placement),
            "address": integers(lambda life: life.address),
            "bytes_per_bank": integers(lambda life: life.bytes_per_bank),
            "logical_bytes": integers(lambda life: life.type.logical_bytes),
            "padded_bytes": integers(lambda life: life.type.padded_bytes),
            "producer_index": integers(lambda life: life.producer_index),
            "producer": texts(lambda life: life.producer_name),
            "location": texts(lambda life: life.location),
            "first_index": integers(lambda life: life.first_index),
            "last_index": integers(lambda life: life.last_index),
            "last_use_index": integers(lambda life: life.last_use_index),
            "weight": Column(TRUTH, [life.weight for _, life in lives]),
        },
    )


def _weights(profile: Profile) -> Table:
    found = weights(profile).entries
    return Table(
        "weights",
        {
            "name": Column(TEXT, [weight.name for weight in found]),
            "shape": Column(TEXT, ["x".join(map(str, weight.shape)) for weight in found]),
            "dtype": Column(TEXT, [weight.dtype for weight in found]),
            "logical_bytes": Column(INTEGER, [weight.bytes for weight in found]),
            "kind": Column(TEXT, [weight.kind for weight in found]),
            "where": Column(TEXT, [weight.where for weight in found]),
        },
    )


def _failures(profile: Profile) -> Table:
    found = failures(profile)
    return Table(
        "failures",
        {
            "rank": Column(INTEGER, [item.rank if item.rank >= 0 else None for item in found]),
            "class": Column(TEXT, [item.failure_class for item in found]),
            "memory": Column(TEXT, [item.memory for item in found]),
            "operation_index": Column(INTEGER, [item.operation_index for item in found]),
            "operation": Column(TEXT, [item.operation_name for item in found]),
            "message": Column(TEXT, [item.message for item in found]),
            "survived": Column(TRUTH, [item.survived for item in found]),
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
    return Table(
        "source", {"key": Column(TEXT, [key for key, _ in rows]), "value": Column(TEXT, [value for _, value in rows])}
    )
