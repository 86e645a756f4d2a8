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
from ttmem.profile import Profile
from ttmem.reports.explain.document import RemedyEntry
from ttmem.reports.kit.documents import UNSET, Document, UnsetType
from ttmem.reports.profile.analyses import analyses

_MOST_CONSUMERS = 1000
"""A run that never frees holds tens of thousands of tensors; the rest is summed up, not listed."""
_MOST_PADDED = 100


class SourceEntry(Document, frozen=True):
    """What was read."""

    kind: str
    name: str
    bytes: int
    lines: int
    unrecognised_lines: int
    warnings: list[str]
    state_error_bytes: int


class OperationRef(Document, frozen=True):
    """An executed operation; the index is null for what no operation of the source did."""

    index: int | None
    name: str


class OperationPlace(Document, frozen=True):
    """An executed operation and where its program's source has it."""

    index: int
    name: str
    location: str


class OperationCounts(Document, frozen=True):
    """Executed operations; compute leaves out deallocate and get_device."""

    executed: int
    compute: int
    by_name: dict[str, int] | UnsetType = UNSET


class ProgramEntry(Document, frozen=True):
    """One distinct program; ``operations`` are its own, not those of programs it calls."""

    name: str
    executions: int
    operations: int
    const_eval: bool


class RunEntry(Document, frozen=True):
    """One top-level execution of a program."""

    run: int
    rank: int | None
    program: str
    first_index: int | None
    last_index: int | None
    operations: int
    finished: bool
    peak_dram_bytes_per_bank: int | None


class MemoryPeak(Document, frozen=True, kw_only=True):
    """The fullest moment of one memory.

    ``peak_bytes_per_bank`` is the allocator's own figure, as logs print it; a captured profile adds the programs' own
    buffers for L1 (``peak_with_programs_*``).
    """

    banks: int
    bytes_per_bank: int
    peak_bytes_per_bank: int
    peak_percent: float | None
    peak_at: OperationRef
    peak_within_operation: bool | UnsetType = UNSET
    caused_by: OperationPlace | None
    free_bytes_at_peak: int
    largest_free_bytes_at_peak: int
    end_bytes_per_bank: int
    error_bytes: int = msgspec.field(name="error_bytes_per_bank")
    rank: int | None
    peak_with_programs_bytes_per_core: int | UnsetType = UNSET
    parts: dict[str, int] | UnsetType = UNSET
    peak_with_programs_at: OperationPlace | UnsetType = UNSET
    operations_with_unmeasured_programs: int | UnsetType = UNSET


class RankEntry(Document, frozen=True):
    """One process's own figures."""

    rank: int | None
    operations: OperationCounts
    memories: dict[str, MemoryPeak]


class WeightEntry(Document, frozen=True):
    """One weight, counted once over all graphs; logical bytes on one chip."""

    name: str
    shape: list[int]
    dtype: str
    bytes: int
    constant: bool
    where: str
    graphs: list[str]


class WeightsEntry(Document, frozen=True):
    """All weights."""

    count: int
    bytes: int
    constants: int
    device_bytes: int
    host_only_bytes: int
    unknown_bytes: int
    entries: list[WeightEntry]


class _TensorEntry(Document, frozen=True):
    tensor: str
    name: str
    shape: list[int]
    dtype: str
    layout: str
    producer: OperationRef
    location: str


class PaddedTensor(_TensorEntry, frozen=True):
    """A tensor alive at the DRAM peak and what its padding costs on the device."""

    logical_bytes: int
    padded_bytes: int
    padding_bytes: int
    overhead_percent: float | None


class PaddingEntry(Document, frozen=True):
    """All DRAM tensors alive at the DRAM peak."""

    logical_bytes: int
    padded_bytes: int
    overhead_percent: float
    top: list[PaddedTensor]


class Consumer(_TensorEntry, frozen=True):
    """A tensor alive at the DRAM peak, from its first to its last operation."""

    padded_bytes: int = msgspec.field(name="bytes")
    bytes_per_bank: int
    alive: tuple[int, int]
    last_use_index: int | None = msgspec.field(name="last_use")
    weight: bool
    program: str


class ConsumersNotListed(Document, frozen=True):
    """The smaller ones together."""

    count: int
    bytes_per_bank: int


class FragmentationEntry(Document, frozen=True):
    """Free bytes that lie outside the largest free block."""

    worst_bytes_per_bank: int
    worst_percent: float
    worst_at: OperationRef
    at_peak_bytes_per_bank: int
    threshold_percent: float
    share_above_threshold_percent: float = msgspec.field(name="states_above_threshold_percent")
    error_bytes: int = msgspec.field(name="error_bytes_per_bank")
    rank: int | None


class GrowthEntry(Document, frozen=True):
    """How much higher each run starts."""

    verdict: str
    bytes_per_bank_per_run: float
    error_bytes_per_run: float
    compared_runs: int
    starts_bytes_per_bank: list[int]
    rank: int | None


class LoadPhaseEntry(Document, frozen=True):
    """How the weights came in."""

    memory: str
    before_first_bytes_per_bank: int
    const_eval_programs: int
    const_eval_operations: int
    const_eval_bytes_per_bank: int
    upload_operations: int
    upload_bytes_per_bank: int
    loaded_at_index: int | None
    loaded_bytes_per_bank: int | None
    rank: int | None


class FailureEntry(Document, frozen=True):
    """A failure that the source tells of; ``bytes_per_bank`` is what each bank needed.

    ``diagnosis`` and ``remedies`` go with the one that ended the run; ``ttmem explain`` gives the whole of it.
    """

    failure_class: str = msgspec.field(name="class")
    memory: str | None
    message: str
    operation: OperationPlace | None
    requested_bytes: int | None
    bytes_per_bank: int | None
    bank_bytes: int | None
    banks: int | None
    allocated: int | None
    free: int | None
    largest_free: int | None
    numbers: dict[str, int]
    texts: dict[str, str]
    line: int
    rank: int | None
    survived: bool
    is_warning: bool
    diagnosis: str | UnsetType = UNSET
    remedies: list[RemedyEntry] | UnsetType = UNSET


_FAILURE_FIGURES = ("requested_bytes", "bytes_per_bank", "bank_bytes", "banks", "allocated", "free", "largest_free")


class ProfileDocument(Document, frozen=True, tag_field="schema", tag="ttmem.profile/1"):
    """A run's memory history, summed up."""

    name: str
    source: SourceEntry
    facts: dict[str, Any]
    operations: OperationCounts
    programs: list[ProgramEntry]
    runs: int
    run_list: list[RunEntry]
    ranks: list[RankEntry]
    memories: dict[str, MemoryPeak]
    weights: WeightsEntry
    padding: PaddingEntry
    consumers: list[Consumer]
    consumers_not_listed: ConsumersNotListed
    unattributed_bytes_per_bank: int
    fragmentation: dict[str, FragmentationEntry]
    growth: dict[str, GrowthEntry]
    load_phase: LoadPhaseEntry | None
    failure: FailureEntry | None
    failures: list[FailureEntry]


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
        consumers_not_listed=ConsumersNotListed(
            count=len(unlisted), bytes_per_bank=sum(life.bytes_per_bank for life in unlisted)
        ),
        unattributed_bytes_per_bank=live.unattributed_bytes_per_bank if live else 0,
        fragmentation={
            memory: FragmentationEntry.of(
                item,
                decimals=4,
                worst_at=OperationRef(index=item.worst_at_index, name=item.worst_at_name),
                rank=_rank(item.rank),
            )
            for memory, item in known.fragmentation.items()
        },
        growth={
            memory: GrowthEntry.of(item, decimals=4, rank=_rank(item.rank)) for memory, item in known.growth.items()
        },
        load_phase=known.load_phase and LoadPhaseEntry.of(known.load_phase, rank=_rank(known.load_phase.rank)),
        failure=failed and _failure(failed, known.diagnosis),
        failures=[_failure(item) for item in known.failures],
    )


def _programs(profile: Profile) -> list[ProgramEntry]:
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
        ProgramEntry(name=name, executions=count, operations=operations[name], const_eval=const_eval[name])
        for name, count in executions.items()
    ]


def _run_list(profile: Profile, found: Sequence[Run]) -> list[RunEntry]:
    columns = {number: state_column(profile, timeline, "DRAM") for number, timeline in enumerate(profile.timelines)}
    listed = []
    for run in found:
        states = columns[run.timeline]
        first, end = np.searchsorted(states.block, (run.first_block, run.end_block)).tolist()
        operations = run.end_index - run.first_index
        listed.append(
            RunEntry.of(
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


def _ranks(profile: Profile) -> list[RankEntry]:
    listed = []
    for index, timeline in enumerate(profile.timelines):
        counts = distribution_of(profile, index)
        listed.append(
            RankEntry(
                rank=_rank(timeline.rank),
                operations=OperationCounts(executed=counts.executed, compute=counts.compute),
                memories={memory: _memory(peak) for memory, peak in peaks_of(profile, index).items()},
            )
        )
    return listed


def _memory(peak: Peak, programs: ProgramPeak | None = None) -> MemoryPeak:
    found = MemoryPeak.of(
        peak,
        peak_at=OperationRef(index=peak.at_index, name=peak.at_name),
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
        peak_with_programs_at=OperationPlace.of(programs),
        operations_with_unmeasured_programs=programs.unmeasured_operations,
    )


def caused_by(peak: Peak) -> OperationPlace | None:
    """The operation whose after-state the peak is; null before the first operation."""
    if peak.caused_by_index is None:
        return None
    return OperationPlace(index=peak.caused_by_index, name=peak.caused_by_name, location=peak.caused_by_location)


def _weights(found: Weights) -> WeightsEntry:
    return WeightsEntry.of(
        found,
        device_bytes=found.bytes_in("device"),
        host_only_bytes=found.bytes_in("host"),
        unknown_bytes=found.bytes_in("unknown"),
        entries=[WeightEntry.of(weight, constant=weight.kind == "constant") for weight in found.entries],
    )


def _padding(found: Padding) -> PaddingEntry:
    return PaddingEntry.of(
        found,
        top=[
            PaddedTensor.of(
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


def _consumers(live: LiveSet | None) -> list[Consumer]:
    return [
        Consumer.of(life, life.type, **_tensor(life), alive=(life.first_index, life.last_index))
        for life in (live.tensors[:_MOST_CONSUMERS] if live else ())
    ]


def _tensor(life: TensorLife) -> dict[str, Any]:
    return {"tensor": life.name, "producer": OperationRef(index=life.producer_index, name=life.producer_name)}


def _failure(item: RunFailure, diagnosis: Diagnosis | None = None) -> FailureEntry:
    place = None
    if item.operation_index is not None:
        place = OperationPlace(index=item.operation_index, name=item.operation_name, location=item.operation_location)
    return FailureEntry.of(
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
