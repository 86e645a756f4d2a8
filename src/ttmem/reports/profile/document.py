# SPDX-License-Identifier: Apache-2.0
"""The JSON document ``ttmem.profile/1``: a contract. Keys may be added, never renamed or removed.

All bytes are integers; ``*_per_bank`` is one slice of a memory, everything else is one whole chip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from ttmem.analysis.consumers import LiveSet
from ttmem.analysis.distribution import distribution_of
from ttmem.analysis.failure import RunFailure
from ttmem.analysis.lifetimes import TensorLife
from ttmem.analysis.load_phase import const_eval_programs
from ttmem.analysis.padding import Padding
from ttmem.analysis.peaks import Peak, peaks_of
from ttmem.analysis.programs_l1 import ProgramPeak
from ttmem.analysis.runs import Run
from ttmem.analysis.states import state_column
from ttmem.analysis.weights import Weights
from ttmem.explain import Diagnosis
from ttmem.profile import Profile, Source
from ttmem.reports.explain.document import RemedyEntry
from ttmem.reports.kit.documents import UNSET, Document
from ttmem.reports.profile import document_parts as parts
from ttmem.reports.profile.analyses import analyses

_MOST_CONSUMERS = 1000
"""A run that never frees holds tens of thousands of tensors; the rest is summed up, not listed."""
_MOST_PADDED = 100
_FAILURE_FIGURES = ("requested_bytes", "bytes_per_bank", "bank_bytes", "banks", "allocated", "free", "largest_free")


class ProfileDocument(Document, frozen=True, tag_field="schema", tag="ttmem.profile/1"):
    """A run's memory history, summed up."""

    name: str
    source: Source
    facts: dict[str, Any]
    operations: parts.OperationCounts
    programs: list[parts.ProgramEntry]
    runs: int
    run_list: list[parts.RunEntry]
    ranks: list[parts.RankEntry]
    memories: dict[str, parts.MemoryPeak]
    weights: parts.WeightsEntry
    padding: parts.PaddingEntry
    consumers: list[parts.Consumer]
    consumers_not_listed: parts.ConsumersNotListed
    unattributed_bytes_per_bank: int
    fragmentation: dict[str, parts.FragmentationEntry]
    growth: dict[str, parts.GrowthEntry]
    load_phase: parts.LoadPhaseEntry | None
    failure: parts.FailureEntry | None
    failures: list[parts.FailureEntry]


def document(profile: Profile) -> ProfileDocument:
    """What ``ttmem profile --json`` answers."""
    known = analyses(profile)
    live, failed = known.dram, known.failure
    unlisted = live.tensors[_MOST_CONSUMERS:] if live else ()
    return ProfileDocument.of(
        profile,
        operations=known.distribution,
        programs=_programs(profile),
        runs=known.counted_runs,
        run_list=_run_list(profile, known.runs),
        ranks=_ranks(profile),
        memories={
            memory: _memory(peak, known.programs_peak if memory == "L1" else None)
            for memory, peak in known.peaks.items()
        },
        weights=_weights(known.weights),
        padding=_padding(known.padding),
        consumers=_consumers(live),
        consumers_not_listed=parts.ConsumersNotListed(
            count=len(unlisted), bytes_per_bank=sum(life.bytes_per_bank for life in unlisted)
        ),
        unattributed_bytes_per_bank=live.unattributed_bytes_per_bank if live else 0,
        fragmentation={
            memory: parts.FragmentationEntry.of(
                item,
                decimals=4,
                worst_at=parts.OperationRef(index=item.worst_at_index, name=item.worst_at_name),
                rank=_rank(item.rank),
            )
            for memory, item in known.fragmentation.items()
        },
        growth={
            memory: parts.GrowthEntry.of(item, decimals=4, rank=_rank(item.rank))
            for memory, item in known.growth.items()
        },
        load_phase=known.load_phase and parts.LoadPhaseEntry.of(known.load_phase, rank=_rank(known.load_phase.rank)),
        failure=failed and _failure(failed, known.diagnosis),
        failures=[_failure(item) for item in known.failures],
    )


def _programs(profile: Profile) -> list[parts.ProgramEntry]:
    executions: Counter[str] = Counter()
    operations: Counter[str] = Counter()
    const_eval: dict[str, bool] = {}
    for timeline in profile.timelines:
        inside = timeline.program[timeline.program >= 0]
        own = np.bincount(inside, minlength=len(timeline.programs)).tolist()
        folds = const_eval_programs(profile, timeline)
        for program, count, flag in zip(timeline.programs, own, folds, strict=True):
            executions[program.name] += 1
            operations[program.name] += count
            const_eval[program.name] = const_eval.get(program.name, False) or flag
    return [
        parts.ProgramEntry(name=name, executions=count, operations=operations[name], const_eval=const_eval[name])
        for name, count in executions.items()
    ]


def _run_list(profile: Profile, found: Sequence[Run]) -> list[parts.RunEntry]:
    columns = {number: state_column(profile, timeline, "DRAM") for number, timeline in enumerate(profile.timelines)}
    listed = []
    for run in found:
        states = columns[run.timeline]
        first, end = np.searchsorted(states.block, (run.first_block, run.end_block)).tolist()
        operations = run.end_index - run.first_index
        listed.append(
            parts.RunEntry.of(
                run,
                run=run.number,
                rank=_rank(run.rank),
                first_index=run.first_index if operations else None,
                last_index=run.end_index - 1 if operations else None,
                operations=operations,
                peak_dram_bytes_per_bank=int(states.value[first:end].max()) if end > first else None,
            )
        )
    return listed


def _ranks(profile: Profile) -> list[parts.RankEntry]:
    listed = []
    for index, timeline in enumerate(profile.timelines):
        counts = distribution_of(profile, index)
        listed.append(
            parts.RankEntry(
                rank=_rank(timeline.rank),
                operations=parts.OperationCounts(executed=counts.executed, compute=counts.compute),
                memories={memory: _memory(peak) for memory, peak in peaks_of(profile, index).items()},
            )
        )
    return listed


def _memory(peak: Peak, programs: ProgramPeak | None = None) -> parts.MemoryPeak:
    found = parts.MemoryPeak.of(
        peak,
        peak_at=parts.OperationRef(index=peak.at_index, name=peak.at_name),
        peak_within_operation=True if peak.within_operation else UNSET,
        caused_by=caused_by(peak),
        rank=_rank(peak.rank),
    )
    if programs is None:
        return found
    return msgspec.structs.replace(
        found,
        peak_with_programs_bytes_per_core=programs.total_bytes_per_core,
        parts=programs.parts,
        peak_with_programs_at=parts.OperationPlace.of(programs),
        operations_with_unmeasured_programs=programs.unmeasured_operations,
    )


def caused_by(peak: Peak) -> parts.OperationPlace | None:
    """The operation whose after-state the peak is; null before the first operation."""
    if peak.caused_by_index is None:
        return None
    return parts.OperationPlace(index=peak.caused_by_index, name=peak.caused_by_name, location=peak.caused_by_location)


def _weights(found: Weights) -> parts.WeightsEntry:
    return parts.WeightsEntry.of(
        found,
        device_bytes=found.bytes_in("device"),
        host_only_bytes=found.bytes_in("host"),
        unknown_bytes=found.bytes_in("unknown"),
        entries=[parts.WeightEntry.of(weight, constant=weight.kind == "constant") for weight in found.entries],
    )


def _padding(found: Padding) -> parts.PaddingEntry:
    return parts.PaddingEntry.of(
        found,
        top=[
            parts.PaddedTensor.of(
                life.type,
                life,
                **_tensor(life),
                overhead_percent=round(100 * life.type.padding_bytes / life.type.logical_bytes, 4)
                if life.type.logical_bytes
                else None,
            )
            for life in found.top[:_MOST_PADDED]
        ],
    )


def _consumers(live: LiveSet | None) -> list[parts.Consumer]:
    return [
        parts.Consumer.of(life, life.type, **_tensor(life), alive=(life.first_index, life.last_index))
        for life in (live.tensors[:_MOST_CONSUMERS] if live else ())
    ]


def _tensor(life: TensorLife) -> dict[str, Any]:
    return {"tensor": life.name, "producer": parts.OperationRef(index=life.producer_index, name=life.producer_name)}


def _failure(item: RunFailure, diagnosis: Diagnosis | None = None) -> parts.FailureEntry:
    place = None
    if item.operation_index is not None:
        place = parts.OperationPlace(
            index=item.operation_index, name=item.operation_name, location=item.operation_location
        )
    return parts.FailureEntry.of(
        item,
        operation=place,
        **{name: item.numbers.get(name) for name in _FAILURE_FIGURES},
        rank=_rank(item.rank),
        diagnosis=diagnosis.text if diagnosis else UNSET,
        remedies=[RemedyEntry.of_remedy(remedy) for remedy in diagnosis.remedies] if diagnosis else UNSET,
    )


def _rank(rank: int) -> int | None:
    """Sources without MPI have no ranks."""
    return rank if rank >= 0 else None
