# SPDX-License-Identifier: Apache-2.0
"""The tables of the page: what each one shows, in which order, and how much of it."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass

from ttmem.analysis.consumers import LiveSet
from ttmem.analysis.lifetimes import TensorLife
from ttmem.analysis.movers import movers
from ttmem.analysis.peaks import peaks_of
from ttmem.profile import Profile, TensorType
from ttmem.reports.kit.units import counted, megabytes, mib, operation_label, percent, shape_text, short, thousands
from ttmem.reports.profile.answers import Answers
from ttmem.reports.profile.notes import growth_text, moment_text, unattributed_text

_MOST_ROWS = {"consumers": 300, "operations": 200, "padding": 100, "weights": 500, "distribution": 200, "runs": 100}
_LONGEST_NAME = 160
_MOST_REPLAYED_AGAIN = 100_000


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column: ``number`` is set right and sorts as one, ``name`` may wrap, ``text`` stays on its line."""

    title: str
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class Section:
    """A table with its heading, the sentence that says what it shows, and what it leaves out."""

    key: str
    title: str
    about: str
    columns: list[Column]
    rows: list[list[str]]
    left_out: str = ""
    bars: int | None = None
    """The column whose figure is also drawn as a bar."""


def tables(profile: Profile, known: Answers) -> list[Section]:
    """All tables that have something to show."""
    sections = [
        _peak_section(known),
        _consumer_section(known.dram),
        _consumer_section(_l1_live_set(known)),
        _operation_section(profile),
        _padding_section(known),
        _weight_section(known),
        _distribution_section(known),
        _run_section(known),
        _rank_section(profile),
    ]
    return [section for section in sections if section is not None]


def cell_text(text: str) -> str:
    """A name of any length, fit for a cell."""
    return short(text, _LONGEST_NAME)


def _peak_section(known: Answers) -> Section | None:
    rows = [
        [
            memory,
            mib(peak.peak_bytes_per_bank),
            percent(peak.peak_percent),
            mib(peak.bytes_per_bank),
            thousands(peak.banks),
            _operation(peak.caused_by_index, peak.caused_by_name),
            cell_text(peak.caused_by_location),
            cell_text(moment_text(peak)),
            mib(peak.free_bytes_at_peak),
            mib(peak.largest_free_bytes_at_peak),
            mib(peak.end_bytes_per_bank),
        ]
        for memory, peak in known.peaks.items()
    ]
    columns = _columns("Memory", "Peak#", "Of bank#", "Bank#", "Banks#", "Caused by~", "Location~", "State~", "Free#")
    columns += _columns("Largest free#", "End#")
    about = "MB per bank. A state is printed before its operation, so the operation before it caused it."
    return _section("peaks", "Peaks", about, columns, rows)


def _consumer_section(live: LiveSet | None) -> Section | None:
    if live is None:
        return None
    total = live.total_bytes_per_bank
    rows = [
        [
            *_tensor(life),
            mib(life.bytes_per_bank),
            percent(100 * life.bytes_per_bank / total if total else None),
            mib(life.type.padded_bytes),
            _operation(life.producer_index, life.producer_name) or "resident before the run",
            cell_text(life.location),
            f"#{life.first_index} to #{life.last_index}",
            "" if life.last_use_index is None else f"#{life.last_use_index}",
            "weight" if life.weight else "",
        ]
        for life in live.tensors[: _MOST_ROWS["consumers"]]
    ]
    rest = live.tensors[len(rows) :]
    left = [f"{counted(len(rest), 'smaller tensor')}: {megabytes(sum(life.bytes_per_bank for life in rest))}/bank"]
    return _section(
        "consumers" if live.memory == "DRAM" else f"consumers-{live.memory.lower()}",
        f"Alive at the {live.memory} peak",
        f"The tensors that make up {megabytes(total)}/bank, largest first.",
        _columns("Tensor~", "Shape", "MB/bank#", "Of peak#", "MB device#", "Producer~", "Location~")
        + _columns("Alive", "Last use", "Kind"),
        rows,
        left_out=". ".join([*(left if rest else []), unattributed_text(live)]),
        bars=3,
    )


def _l1_live_set(known: Answers) -> LiveSet | None:
    """The tensors in L1 at its peak; a run of very many operations is not replayed a second time for them."""
    peak = known.peaks.get("L1")
    if peak is None or not peak.peak_bytes_per_bank:
        return None
    around = [
        run for run in known.runs if run.timeline == peak.timeline and run.first_block <= peak.block < run.end_block
    ]
    if any(run.end_index - run.first_index > _MOST_REPLAYED_AGAIN for run in around):
        return None
    return known.l1


def _operation_section(profile: Profile) -> Section | None:
    rows = [
        [
            _operation(mover.index, mover.name),
            cell_text(mover.location),
            _shape(mover.result),
            mib(mover.change_bytes_per_bank["DRAM"], signed=True),
            mib(mover.change_bytes_per_bank["L1"], signed=True),
            thousands(mover.executions),
        ]
        for mover in movers(profile, most=_MOST_ROWS["operations"])
    ]
    about = "Distinct operations that added most to DRAM in one execution: state after minus state before, MB per bank."
    columns = _columns("Operation~", "Location~", "Result", "DRAM#", "L1#", "Executions#")
    return _section("operations", "Operations that fill DRAM", about, columns, rows, bars=3)


def _padding_section(known: Answers) -> Section | None:
    padding = known.padding
    rows = [
        [
            *_tensor(life),
            mib(life.type.logical_bytes),
            mib(life.type.padded_bytes),
            mib(life.type.padding_bytes),
            percent(100 * life.type.padding_bytes / life.type.logical_bytes if life.type.logical_bytes else None),
            _operation(life.producer_index, life.producer_name),
        ]
        for life in padding.top[: _MOST_ROWS["padding"]]
    ]
    about = (
        f"{megabytes(padding.logical_bytes)} of elements take {megabytes(padding.padded_bytes)} on the device because "
        "shapes are rounded up to tiles of 32 x 32 (or to shards)."
    )
    columns = _columns("Tensor~", "Shape", "Logical MB#", "Padded MB#", "Wasted MB#", "Overhead#", "Producer~")
    return _section("padding", "Padding at the DRAM peak", about, columns, rows, _more(padding.top, rows), bars=4)


def _weight_section(known: Answers) -> Section | None:
    found = known.weights
    rows = [
        [cell_text(weight.name), shape_text(weight.shape, weight.dtype), mib(weight.bytes), weight.where, weight.kind]
        for weight in found.entries[: _MOST_ROWS["weights"]]
    ]
    about = "Logical bytes on one chip, each weight once over all graphs. Host: it only feeds const-eval."
    columns = _columns("Weight~", "Shape", "MB#", "Where", "Kind")
    return _section("weights", "Weights", about, columns, rows, _more(found.entries, rows), bars=2)


def _distribution_section(known: Answers) -> Section | None:
    counts = known.distribution
    rows = [
        [cell_text(name), thousands(count), percent(100 * count / counts.executed)]
        for name, count in list(counts.by_name.items())[: _MOST_ROWS["distribution"]]
    ]
    about = f"{thousands(counts.executed)} executed, {thousands(counts.compute)} of them compute."
    columns = _columns("Operation~", "Count#", "Share#")
    return _section("distribution", "Operation distribution", about, columns, rows, _more(counts.by_name, rows), bars=1)


def _run_section(known: Answers) -> Section | None:
    if len(known.runs) < 2:
        return None
    rows = [
        [
            f"{run.number}" + (f" (rank {run.rank})" if run.rank >= 0 else ""),
            cell_text(run.program),
            f"#{run.first_index} to #{run.end_index - 1}" if run.end_index > run.first_index else "-",
            thousands(run.end_index - run.first_index),
            "yes" if run.finished else "no",
        ]
        for run in known.runs[: _MOST_ROWS["runs"]]
    ]
    growth = growth_text(known)
    about = f"A run is one top-level execution. {growth[:1].upper()}{growth[1:]}"
    columns = _columns("Run", "Program~", "Operations", "Count#", "Finished")
    return _section("runs", "Runs", about, columns, rows, _more(known.runs, rows))


def _rank_section(profile: Profile) -> Section | None:
    if len(profile.timelines) < 2:
        return None
    rows = []
    for number, timeline in enumerate(profile.timelines):
        found = peaks_of(profile, number)
        figures = [mib(found[memory].peak_bytes_per_bank) if memory in found else "-" for memory in ("DRAM", "L1")]
        rows.append([str(timeline.rank), thousands(len(timeline)), *figures])
    columns = _columns("Rank", "Operations#", "Peak DRAM#", "Peak L1#")
    return _section("ranks", "Ranks", "Each process's own figures, MB per bank.", columns, rows)


def _tensor(life: TensorLife) -> list[str]:
    return [cell_text(life.name), _shape(life.type)]


def _shape(found: TensorType | None) -> str:
    return shape_text(found.shape, found.dtype) if found else ""


def _operation(index: int | None, name: str) -> str:
    return operation_label(index, cell_text(name))


def _columns(*titles: str) -> list[Column]:
    """``Peak#`` is a column of numbers, ``Location~`` one of names of any length."""
    kinds = {"#": "number", "~": "name"}
    return [Column(title.rstrip("#~"), kinds.get(title[-1], "text")) for title in titles]


def _more(entries: Sized, rows: list[list[str]]) -> str:
    left = len(entries) - len(rows)
    return f"{thousands(left)} more are left out here; the JSON document has them." if left > 0 else ""


def _section(
    key: str,
    title: str,
    about: str,
    columns: list[Column],
    rows: list[list[str]],
    left_out: str = "",
    bars: int | None = None,
) -> Section | None:
    return Section(key, title, about, columns, rows, left_out, bars) if rows else None
