# SPDX-License-Identifier: Apache-2.0
"""The tables of a profile's reports: terminal, Markdown and page pick columns and rows from the same ones."""

from __future__ import annotations

from collections.abc import Sized
from operator import attrgetter

from ttmem.analysis.consumers import LiveSet
from ttmem.analysis.lifetimes import TensorLife
from ttmem.analysis.movers import movers
from ttmem.analysis.peaks import Peak, peaks_of
from ttmem.profile import Profile
from ttmem.reports.kit.tables import Table, mib_column, name_column, number_column, percent_column, text_column
from ttmem.reports.kit.units import counted, megabytes, operation_label, shape_text, thousands
from ttmem.reports.profile.analyses import Analyses
from ttmem.reports.profile.sentences import moment_text


def peaks(known: Analyses) -> Table:
    """One row per memory, MB per bank."""
    columns = [
        text_column("Memory", write=attrgetter("memory")),
        mib_column("Peak"),
        percent_column("% of bank"),
        mib_column("Bank"),
        number_column("Banks"),
        name_column("Caused by"),
        name_column("Location"),
        name_column("State"),
        mib_column("Free"),
        mib_column("Largest free"),
        mib_column("End"),
    ]
    return Table(columns, [_peak_row(peak) for peak in known.peaks.values()])


def _peak_row(peak: Peak) -> list[object]:
    return [
        peak,
        peak.peak_bytes_per_bank,
        peak.peak_percent,
        peak.bytes_per_bank,
        peak.banks,
        operation_label(peak.caused_by_index, peak.caused_by_name) or None,
        peak.caused_by_location or None,
        moment_text(peak),
        peak.free_bytes_at_peak,
        peak.largest_free_bytes_at_peak,
        peak.end_bytes_per_bank,
    ]


def consumers(live: LiveSet, most: int) -> Table:
    """The largest tensors that were alive at a peak."""
    total = live.total_bytes_per_bank
    columns = [
        name_column("Tensor"),
        text_column("Shape"),
        mib_column("MB/bank"),
        percent_column("Of peak"),
        mib_column("MB device"),
        name_column("Producer", unknown="resident before the run"),
        name_column("Location"),
        text_column("Alive", whole=True),
        text_column("Last use", whole=True),
        text_column("Kind"),
    ]
    rows = [
        [
            life.name,
            _shape(life),
            life.bytes_per_bank,
            100 * life.bytes_per_bank / total if total else None,
            life.type.padded_bytes,
            _producer(life),
            life.location or None,
            f"#{life.first_index}-#{life.last_index}",
            None if life.last_use_index is None else f"#{life.last_use_index}",
            "weight" if life.weight else "",
        ]
        for life in live.tensors[:most]
    ]
    rest = live.tensors[most:]
    rest_bytes = megabytes(sum(life.bytes_per_bank for life in rest))
    return Table(
        columns,
        rows,
        left_out=f"{counted(len(rest), 'smaller tensor')}: {rest_bytes}/bank" if rest else "",
        bars="Of peak",
    )


def padding(known: Analyses, most: int) -> Table:
    """The tensors at the DRAM peak that waste most on padding; device bytes."""
    columns = [
        name_column("Tensor"),
        text_column("Shape"),
        mib_column("Logical MB"),
        mib_column("Padded MB"),
        mib_column("Wasted MB"),
        percent_column("Overhead"),
        name_column("Producer", unknown="resident before the run"),
    ]
    rows = [
        [
            life.name,
            _shape(life),
            life.type.logical_bytes,
            life.type.padded_bytes,
            life.type.padding_bytes,
            100 * life.type.padding_bytes / life.type.logical_bytes if life.type.logical_bytes else None,
            _producer(life),
        ]
        for life in known.padding.top[:most]
    ]
    return Table(columns, rows, left_out=_more(known.padding.top, rows), bars="Wasted MB")


def weights(known: Analyses, most: int) -> Table:
    """The largest weights; logical bytes on one chip."""
    columns = [name_column("Weight"), text_column("Shape"), mib_column("MB"), text_column("Where"), text_column("Kind")]
    rows = [
        [weight.name, shape_text(weight.shape, weight.dtype), weight.bytes, weight.where, weight.kind]
        for weight in known.weights.entries[:most]
    ]
    return Table(columns, rows, left_out=_more(known.weights.entries, rows), bars="MB")


def distribution(known: Analyses, most: int) -> Table:
    """How often each operation was executed."""
    counts = known.distribution
    rows = [[called, count, 100 * count / counts.executed] for called, count in list(counts.by_name.items())[:most]]
    columns = [name_column("Operation"), number_column("Count"), percent_column("Share")]
    return Table(columns, rows, left_out=_more(counts.by_name, rows), bars="Count")


def operations(profile: Profile, most: int) -> Table:
    """Distinct operations that added most to DRAM."""
    columns = [
        name_column("Operation"),
        name_column("Location"),
        text_column("Result", unknown=""),
        mib_column("DRAM", signed=True),
        mib_column("L1", signed=True),
        number_column("Executions"),
    ]
    rows = [
        [
            operation_label(mover.index, mover.name),
            mover.location or None,
            shape_text(mover.result.shape, mover.result.dtype) if mover.result else None,
            mover.change_bytes_per_bank["DRAM"],
            mover.change_bytes_per_bank["L1"],
            mover.executions,
        ]
        for mover in movers(profile, most=most)
    ]
    return Table(columns, rows, bars="DRAM")


def runs(known: Analyses, most: int) -> Table:
    """One row per top-level execution; a single one is no table."""
    columns = [
        text_column("Run"),
        name_column("Program"),
        text_column("Operations", whole=True),
        number_column("Count"),
        text_column("Finished"),
    ]
    rows = [
        [
            f"{run.number}" + (f" (rank {run.rank})" if run.rank >= 0 else ""),
            run.program,
            f"#{run.first_index} to #{run.end_index - 1}" if run.end_index > run.first_index else None,
            run.end_index - run.first_index,
            "yes" if run.finished else "no",
        ]
        for run in known.runs[:most]
    ]
    return Table(columns, rows if len(known.runs) > 1 else [], left_out=_more(known.runs, rows))


def ranks(profile: Profile) -> Table:
    """Each process's own peaks, MB per bank; a single process is no table."""
    rows = []
    for at, timeline in enumerate(profile.timelines):
        found = peaks_of(profile, at)
        figures = [found[memory].peak_bytes_per_bank if memory in found else None for memory in ("DRAM", "L1")]
        rows.append([timeline.rank, len(timeline), *figures])
    columns = [text_column("Rank"), number_column("Operations"), mib_column("Peak DRAM"), mib_column("Peak L1")]
    return Table(columns, rows if len(rows) > 1 else [])


def _shape(life: TensorLife) -> str:
    return shape_text(life.type.shape, life.type.dtype)


def _producer(life: TensorLife) -> str | None:
    return operation_label(life.producer_index, life.producer_name) or None


def _more(entries: Sized, rows: Sized) -> str:
    left = len(entries) - len(rows)
    return f"{thousands(left)} more are left out here; the JSON document has them." if left > 0 else ""
