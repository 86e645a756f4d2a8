# SPDX-License-Identifier: Apache-2.0
"""The JSON document ``ttmem.profile/1``: a contract. Keys may be added, never renamed or removed.

All bytes are integers; ``*_per_bank`` is one slice of a memory, everything else is one whole chip.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from ttmem.analysis.consumers import LiveSet
from ttmem.analysis.distribution import distribution
from ttmem.analysis.failure import RunEnd, RunFailure
from ttmem.analysis.findings import Finding
from ttmem.analysis.fragmentation import Fragmentation
from ttmem.analysis.growth import Growth
from ttmem.analysis.lifetimes import TensorLife
from ttmem.analysis.load_phase import LoadPhase, const_eval_programs
from ttmem.analysis.peaks import Peak, peaks_of
from ttmem.analysis.programs_l1 import ProgramPeak
from ttmem.analysis.states import OperationPlace, OperationRef, known, state_column
from ttmem.analysis.weights import Weights
from ttmem.failures.diagnosis.diagnose import Diagnosis
from ttmem.profile.model import Profile, Source
from ttmem.profile.runs import Run
from ttmem.reports.explain_document import LiveTensorEntry, RemedyEntry, list_live_tensors, list_remedies
from ttmem.reports.kit.documents import UNSET, Document, UnsetType, round_floats
from ttmem.reports.profile_analyses import analyze
from ttmem.reports.profile_tables import compute_overhead_percent


class OperationCountsRow(Document, frozen=True):
    """Executed operations; compute leaves out deallocate and get_device."""

    executed: int
    compute: int
    by_name: Mapping[str, int] | UnsetType = UNSET


class ProgramEntry(Document, frozen=True):
    """A distinct program; ``operations`` are its own, not those of programs it calls."""

    name: str
    executions: int
    operations: int
    const_eval: bool


class RunEntry(Document, frozen=True):
    """A top-level execution of a program."""

    run: int
    rank: int | None
    program: str
    first_index: int | None
    last_index: int | None
    operations: int
    finished: bool
    peak_dram_bytes_per_bank: int | None


class _TensorEntry(Document, frozen=True):
    tensor: str
    name: str
    shape: Sequence[int]
    dtype: str
    layout: str
    producer: OperationRef
    location: str


class Consumer(_TensorEntry, frozen=True):
    """A tensor alive at the peak of its memory, from its first to its last operation."""

    padded_bytes: int = msgspec.field(name="bytes")
    bytes_per_bank: int
    alive: tuple[int, int]
    last_use_index: int | None = msgspec.field(name="last_use")
    weight: bool
    program: str
    distribution: str | UnsetType = UNSET


class ConsumersNotListed(Document, frozen=True):
    """The sum of the smaller tensors."""

    count: int
    bytes_per_bank: int


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
    total_bytes_per_core: int | UnsetType = msgspec.field(default=UNSET, name="peak_with_programs_bytes_per_core")
    parts: Mapping[str, int] | UnsetType = UNSET
    peak_with_programs_at: OperationPlace | UnsetType = UNSET
    unmeasured_operations: int | UnsetType = msgspec.field(default=UNSET, name="operations_with_unmeasured_programs")
    consumers: Sequence[Consumer] | UnsetType = UNSET
    """The tensors alive at this peak, largest first; absent for a rank and where they were not determined."""
    consumers_not_listed: ConsumersNotListed | UnsetType = UNSET
    unattributed_bytes_per_bank: int | UnsetType = UNSET


class RankEntry(Document, frozen=True):
    """The figures of one process."""

    rank: int | None
    operations: OperationCountsRow
    memories: Mapping[str, MemoryPeak]


class PaddedTensor(_TensorEntry, frozen=True):
    """A tensor alive at the DRAM peak and what its padding costs on the device."""

    logical_bytes: int
    padded_bytes: int
    padding_bytes: int
    overhead_percent: float | None


class PaddingEntry(Document, frozen=True):
    """The padding of the DRAM tensors alive at the DRAM peak; null where the source does not list them."""

    logical_bytes: int | None
    padded_bytes: int | None
    overhead_percent: float | None
    top: Sequence[PaddedTensor]


FAILURE_FIGURES = ("requested_bytes", "bytes_per_bank", "bank_bytes", "banks", "allocated", "free", "largest_free")


class FailureFacts(Document, frozen=True):
    """A failure and its figures; ``bytes_per_bank`` is what each bank needed."""

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


class FailureEntry(FailureFacts, frozen=True):
    """A failure that the source reports.

    ``diagnosis`` and ``remedies`` go with the one that ended the run; ``ttmem explain`` gives the whole of it.
    """

    numbers: Mapping[str, int]
    texts: Mapping[str, str]
    line: int
    rank: int | None
    survived: bool
    is_warning: bool
    alive: Sequence[LiveTensorEntry] | UnsetType = UNSET
    """The live tensors of the memory concerned, largest first; only for the failure that ended the run."""
    diagnosis: str | UnsetType = UNSET
    remedies: Sequence[RemedyEntry] | UnsetType = UNSET


class RunEndEntry(Document, frozen=True):
    """The error, signal or time limit that ended the run, memory or not."""

    error: str
    message: str
    location: str
    not_judged: bool
    """True when an assertion of the script failed after it had read values from the device: a mock computes none."""


_MOST_CONSUMERS = 1000
"""A run that never frees holds tens of thousands of tensors; the rest is summed, not listed."""
_MOST_PADDED = 100


class ProfileDocument(Document, frozen=True, tag_field="schema", tag="ttmem.profile/1"):
    """The summary of a run's memory history."""

    name: str
    source: Source
    facts: Mapping[str, Any]
    operations: OperationCountsRow
    programs: Sequence[ProgramEntry]
    runs: int
    run_list: Sequence[RunEntry]
    ranks: Sequence[RankEntry]
    memories: Mapping[str, MemoryPeak]
    weights: Weights
    padding: PaddingEntry
    consumers: Sequence[Consumer]
    """Those of DRAM; ``memories`` has those of each memory."""
    consumers_not_listed: ConsumersNotListed
    unattributed_bytes_per_bank: int | None
    fragmentation: Mapping[str, Fragmentation]
    growth: Mapping[str, Growth]
    load_phase: LoadPhase | None
    failure: FailureEntry | None
    failures: Sequence[FailureEntry]
    ended: RunEndEntry | None
    """Null when the run completed; an error other than memory leaves ``failure`` with class ``none``."""
    skipped_comparisons: int | UnsetType = UNSET
    """For a recorded script: skipped comparisons of values, because a mock computes none."""
    findings: Sequence[Finding] | UnsetType = UNSET
    """Leaks and waste of a captured run, the costliest first; only where there are any."""


def build_document(profile: Profile) -> ProfileDocument:
    """Return the answer of ``ttmem profile --json``."""
    asked = analyze(profile)
    failed, counts = asked.failure, asked.distribution
    return ProfileDocument(
        name=profile.name,
        source=profile.source,
        facts=profile.facts,
        operations=OperationCountsRow(executed=counts.executed, compute=counts.compute, by_name=counts.by_name),
        programs=_list_programs(profile),
        runs=asked.counted_runs,
        run_list=_list_runs(profile, asked.runs),
        ranks=_list_ranks(profile),
        memories={
            memory: _describe_memory(
                peak,
                asked.programs_peak if memory == "L1" else None,
                **(_list_consumers(asked.live[memory]) if memory in asked.live else {}),
            )
            for memory, peak in asked.peaks.items()
        },
        weights=asked.weights,
        padding=PaddingEntry(
            logical_bytes=asked.padding.logical_bytes,
            padded_bytes=asked.padding.padded_bytes,
            overhead_percent=asked.padding.overhead_percent,
            top=[
                PaddedTensor(
                    name=life.name,
                    shape=life.type.shape,
                    dtype=life.type.dtype,
                    layout=life.type.layout,
                    location=life.location,
                    logical_bytes=life.type.logical_bytes,
                    padded_bytes=life.type.padded_bytes,
                    padding_bytes=life.type.padding_bytes,
                    overhead_percent=round_floats(compute_overhead_percent(life), 4),
                    **_describe_tensor(life),
                )
                for life in asked.padding.top[:_MOST_PADDED]
            ],
        ),
        fragmentation=asked.fragmentation,
        growth=asked.growth,
        load_phase=asked.load_phase,
        failure=_describe_failure_entry(failed, asked.diagnosis) if failed else None,
        failures=[_describe_failure_entry(item) for item in asked.failures],
        ended=describe_end(asked.end),
        skipped_comparisons=profile.facts.get("skipped_comparisons", UNSET),
        findings=asked.findings or UNSET,
        **_list_consumers(asked.live.get("DRAM")),
    )


def _list_programs(profile: Profile) -> list[ProgramEntry]:
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


def _list_runs(profile: Profile, found: Sequence[Run]) -> list[RunEntry]:
    columns = [state_column(profile, timeline, "DRAM") for timeline in profile.timelines]
    listed = []
    for run in found:
        states = columns[run.timeline]
        first, end = np.searchsorted(states.state, (run.first_state, run.end_state)).tolist()
        operations = run.end_index - run.first_index
        listed.append(
            RunEntry(
                run=run.number,
                rank=known(run.rank),
                program=run.program,
                first_index=run.first_index if operations else None,
                last_index=run.end_index - 1 if operations else None,
                operations=operations,
                finished=run.finished,
                peak_dram_bytes_per_bank=int(states.value[first:end].max()) if end > first else None,
            )
        )
    return listed


def _list_ranks(profile: Profile) -> list[RankEntry]:
    listed = []
    for index, timeline in enumerate(profile.timelines):
        counts = distribution(profile, index)
        listed.append(
            RankEntry(
                rank=known(timeline.rank),
                operations=OperationCountsRow(executed=counts.executed, compute=counts.compute),
                memories={memory: _describe_memory(peak) for memory, peak in peaks_of(profile, index).items()},
            )
        )
    return listed


def _list_consumers(live: LiveSet | None) -> dict[str, Any]:
    unlisted = live.tensors[_MOST_CONSUMERS:] if live else ()
    return {
        "consumers": [
            Consumer(
                name=life.name,
                shape=life.type.shape,
                dtype=life.type.dtype,
                layout=life.type.layout,
                location=life.location,
                padded_bytes=life.type.padded_bytes,
                bytes_per_bank=life.bytes_per_bank,
                alive=(life.first_index, life.last_index),
                last_use_index=life.last_use_index,
                weight=life.weight,
                program=life.program,
                distribution=life.type.distribution or UNSET,
                **_describe_tensor(life),
            )
            for life in (live.tensors[:_MOST_CONSUMERS] if live else ())
        ],
        "consumers_not_listed": ConsumersNotListed(
            count=len(unlisted), bytes_per_bank=sum(life.bytes_per_bank for life in unlisted)
        ),
        "unattributed_bytes_per_bank": live.unattributed_bytes_per_bank if live else None,
    }


def _describe_memory(peak: Peak, programs: ProgramPeak | None = None, **more: Any) -> MemoryPeak:
    if programs:
        more |= {
            "total_bytes_per_core": programs.total_bytes_per_core,
            "parts": programs.parts,
            "peak_with_programs_at": OperationPlace(programs.index, programs.name, programs.location),
            "unmeasured_operations": programs.unmeasured_operations,
        }
    return MemoryPeak(
        banks=peak.banks,
        bytes_per_bank=peak.bytes_per_bank,
        peak_bytes_per_bank=peak.peak_bytes_per_bank,
        peak_percent=peak.peak_percent,
        peak_at=OperationRef(peak.at_index, peak.at_name),
        peak_within_operation=peak.within_operation or UNSET,
        caused_by=find_cause(peak),
        free_bytes_at_peak=peak.free_bytes_at_peak,
        largest_free_bytes_at_peak=peak.largest_free_bytes_at_peak,
        end_bytes_per_bank=peak.end_bytes_per_bank,
        error_bytes=peak.error_bytes,
        rank=known(peak.rank),
        **more,
    )


def find_cause(peak: Peak) -> OperationPlace | None:
    """Return the operation after which the peak is; None before the first operation."""
    at = peak.caused_by_index
    return None if at is None else OperationPlace(at, peak.caused_by_name, peak.caused_by_location)


def _describe_tensor(life: TensorLife) -> dict[str, Any]:
    return {"tensor": life.name, "producer": OperationRef(index=life.producer_index, name=life.producer_name)}


def describe_end(end: RunEnd | None) -> RunEndEntry | None:
    """Return the entry of the end of a run; None when it completed."""
    if end is None:
        return None
    return RunEndEntry(error=end.error, message=end.message, location=end.location, not_judged=end.not_judged)


def describe_failure(item: RunFailure) -> FailureFacts:
    """Return the facts of a failure of a run."""
    at = item.operation_index
    place = None if at is None else OperationPlace(at, item.operation_name, item.operation_location)
    return build_failure(item.failure_class, item.memory, item.message, place, item.numbers)


def build_failure(
    failure_class: str, memory: str | None, message: str, operation: OperationPlace | None, numbers: Mapping[str, int]
) -> FailureFacts:
    """Return the facts of a failure; a figure that ``numbers`` does not hold is null."""
    figures = {name: numbers.get(name) for name in FAILURE_FIGURES}
    return FailureFacts(failure_class=failure_class, memory=memory, message=message, operation=operation, **figures)


def _describe_failure_entry(item: RunFailure, diagnosis: Diagnosis | None = None) -> FailureEntry:
    return FailureEntry(
        **msgspec.structs.asdict(describe_failure(item)),
        numbers=item.numbers,
        texts=item.texts,
        line=item.line or 0,
        survived=item.survived,
        is_warning=item.is_warning,
        rank=known(item.rank),
        alive=list_live_tensors(diagnosis) if diagnosis else UNSET,
        diagnosis=diagnosis.text if diagnosis else UNSET,
        remedies=list_remedies(diagnosis) if diagnosis else UNSET,
    )
