# SPDX-License-Identifier: Apache-2.0
"""The tables of a profile's reports: terminal, Markdown and page pick columns and rows from the same ones."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from ttmem.analysis.consumers import LiveSet
from ttmem.analysis.largest_changes import movers
from ttmem.analysis.lifetimes import TensorLife
from ttmem.analysis.peaks import peaks_of
from ttmem.profile.model import Profile
from ttmem.reports.kit.tables import Column, Table, mib_column, name_column, number_column, percent_column, text_column
from ttmem.reports.kit.units import counted, megabytes, operation_label, shape_text, thousands
from ttmem.reports.profile.analyses import Analyses
from ttmem.reports.profile.sentences import moment_text

Columns = Sequence[tuple[Column, Callable[[Any], object]]]
"""Each with how its value is taken from an entry."""


def table_of(entries: Iterable[Any], columns: Columns, **more: Any) -> Table:
    """One row per entry."""
    return Table([column for column, _ in columns], [[get(entry) for _, get in columns] for entry in entries], **more)


def peaks(known: Analyses) -> Table:
    """One row per memory, MiB per bank."""
    columns: Columns = [
        (text_column("Memory", write=attrgetter("memory")), lambda peak: peak),
        (mib_column("Peak"), attrgetter("peak_bytes_per_bank")),
        (percent_column("% of bank"), attrgetter("peak_percent")),
        (mib_column("Bank"), attrgetter("bytes_per_bank")),
        (number_column("Banks"), attrgetter("banks")),
        (name_column("Caused by"), lambda peak: operation_label(peak.caused_by_index, peak.caused_by_name) or None),
        (name_column("Location"), lambda peak: peak.caused_by_location or None),
        (name_column("State"), moment_text),
        (mib_column("Free"), attrgetter("free_bytes_at_peak")),
        (mib_column("Largest free"), attrgetter("largest_free_bytes_at_peak")),
        (mib_column("End"), attrgetter("end_bytes_per_bank")),
    ]
    return table_of(known.peaks.values(), columns)


def consumers(live: LiveSet, most: int) -> Table:
    """The largest tensors that were alive at a peak."""
    total = live.total_bytes_per_bank
    columns: Columns = [
        (name_column("Tensor"), attrgetter("name")),
        (text_column("Shape"), _shape),
        (mib_column("MiB/bank"), attrgetter("bytes_per_bank")),
        (percent_column("Of peak"), lambda life: 100 * life.bytes_per_bank / total if total else None),
        (mib_column("MiB device"), attrgetter("type.padded_bytes")),
        (name_column("Producer", unknown="resident before the run"), _producer),
        (name_column("Location"), lambda life: life.location or None),
        (text_column("Alive", whole=True), lambda life: f"#{life.first_index}-#{life.last_index}"),
        (text_column("Last use", whole=True), _last_use),
        (text_column("Kind"), lambda life: "weight" if life.weight else ""),
    ]
    rest = live.tensors[most:]
    rest_bytes = megabytes(sum(life.bytes_per_bank for life in rest))
    left_out = f"{counted(len(rest), 'smaller tensor')}: {rest_bytes}/bank" if rest else ""
    return table_of(live.tensors[:most], columns, left_out=left_out, bars="Of peak")


def padding(known: Analyses, most: int) -> Table:
    """The tensors at the DRAM peak that waste most on padding; device bytes."""
    columns: Columns = [
        (name_column("Tensor"), attrgetter("name")),
        (text_column("Shape"), _shape),
        (mib_column("Logical MiB"), attrgetter("type.logical_bytes")),
        (mib_column("Padded MiB"), attrgetter("type.padded_bytes")),
        (mib_column("Wasted MiB"), attrgetter("type.padding_bytes")),
        (percent_column("Overhead"), overhead_percent),
        (name_column("Producer", unknown="resident before the run"), _producer),
    ]
    return _first(known.padding.top, most, columns, bars="Wasted MiB")


def weights(known: Analyses, most: int) -> Table:
    """The largest weights; logical bytes on one chip."""
    columns: Columns = [
        (name_column("Weight"), attrgetter("name")),
        (text_column("Shape"), lambda weight: shape_text(weight.shape, weight.dtype)),
        (mib_column("MiB"), attrgetter("bytes")),
        (text_column("Where"), attrgetter("where")),
        (text_column("Kind"), attrgetter("kind")),
    ]
    return _first(known.weights.entries, most, columns, bars="MiB")


def distribution(known: Analyses, most: int) -> Table:
    """The number of executions of each operation."""
    counts = known.distribution
    columns: Columns = [
        (name_column("Operation"), lambda named: named[0]),
        (number_column("Count"), lambda named: named[1]),
        (percent_column("Share"), lambda named: 100 * named[1] / counts.executed),
    ]
    return _first(list(counts.by_name.items()), most, columns, bars="Count")


def operations(profile: Profile, most: int) -> Table:
    """Distinct operations that added most to DRAM."""
    columns: Columns = [
        (name_column("Operation"), lambda mover: operation_label(mover.index, mover.name)),
        (name_column("Location"), lambda mover: mover.location or None),
        (
            text_column("Result", unknown=""),
            lambda mover: mover.result and shape_text(mover.result.shape, mover.result.dtype),
        ),
        (mib_column("DRAM", signed=True), lambda mover: mover.change_bytes_per_bank["DRAM"]),
        (mib_column("L1", signed=True), lambda mover: mover.change_bytes_per_bank["L1"]),
        (number_column("Executions"), attrgetter("executions")),
    ]
    return table_of(movers(profile, most=most), columns, bars="DRAM")


def runs(known: Analyses, most: int) -> Table:
    """One row per top-level execution; a single one is no table."""
    columns: Columns = [
        (text_column("Run"), lambda run: f"{run.number}" + (f" (rank {run.rank})" if run.rank >= 0 else "")),
        (name_column("Program"), attrgetter("program")),
        (
            text_column("Operations", whole=True),
            lambda run: f"#{run.first_index} to #{run.end_index - 1}" if run.end_index > run.first_index else None,
        ),
        (number_column("Count"), lambda run: run.end_index - run.first_index),
        (text_column("Finished"), lambda run: "yes" if run.finished else "no"),
    ]
    return _first(known.runs if len(known.runs) > 1 else [], most, columns)


def ranks(profile: Profile) -> Table:
    """Each process's own peaks, MiB per bank; a single process is no table."""
    rows = []
    for at, timeline in enumerate(profile.timelines):
        found = peaks_of(profile, at)
        figures = [found[memory].peak_bytes_per_bank if memory in found else None for memory in ("DRAM", "L1")]
        rows.append([timeline.rank, len(timeline), *figures])
    columns = [text_column("Rank"), number_column("Operations"), mib_column("Peak DRAM"), mib_column("Peak L1")]
    return Table(columns, rows if len(rows) > 1 else [])


def overhead_percent(life: TensorLife) -> float | None:
    """Return the share that padding adds to a tensor; None for a tensor of no bytes."""
    return 100 * life.type.padding_bytes / life.type.logical_bytes if life.type.logical_bytes else None


def _last_use(life: TensorLife) -> str | None:
    return None if life.last_use_index is None else f"#{life.last_use_index}"


def _shape(life: TensorLife) -> str:
    return shape_text(life.type.shape, life.type.dtype)


def _producer(life: TensorLife) -> str | None:
    return operation_label(life.producer_index, life.producer_name) or None


def _first(entries: Sequence[Any], most: int, columns: Columns, **more: Any) -> Table:
    left = len(entries) - most
    left_out = f"{thousands(left)} more are left out here; the JSON document has them." if left > 0 else ""
    return table_of(entries[:most], columns, left_out=left_out, **more)
