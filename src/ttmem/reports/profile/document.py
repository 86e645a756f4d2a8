# SPDX-License-Identifier: Apache-2.0
"""The JSON document ``ttmem.profile/1``: a contract. Keys may be added, never renamed or removed.

All bytes are integers; ``*_per_bank`` is one slice of a memory, everything else is one whole chip.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ttmem.analysis.consumers import LiveSet
from ttmem.analysis.distribution import distribution
from ttmem.analysis.failure import RunFailure
from ttmem.analysis.findings import Finding
from ttmem.analysis.fragmentation import Fragmentation
from ttmem.analysis.growth import Growth
from ttmem.analysis.lifetimes import TensorLife
from ttmem.analysis.load_phase import LoadPhase, const_eval_programs
from ttmem.analysis.peaks import Peak, peaks_of
from ttmem.analysis.programs_l1 import ProgramPeak
from ttmem.analysis.states import OperationPlace, OperationRef, known, state_column
from ttmem.analysis.weights import Weights
from ttmem.failures import Diagnosis
from ttmem.profile.model import Profile, Source
from ttmem.profile.runs import Run
from ttmem.reports.explain.document import RemedyEntry, live_entries
from ttmem.reports.kit.documents import UNSET, Document, UnsetType, rounded
from ttmem.reports.profile import document_parts as parts
from ttmem.reports.profile.analyses import analyses
from ttmem.reports.profile.tables import overhead_percent

_MOST_CONSUMERS = 1000
"""A run that never frees holds tens of thousands of tensors; the rest is summed up, not listed."""
_MOST_PADDED = 100


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
    weights: Weights
    padding: parts.PaddingEntry
    consumers: list[parts.Consumer]
    """Those of DRAM; ``memories`` has those of each memory."""
    consumers_not_listed: parts.ConsumersNotListed
    unattributed_bytes_per_bank: int | None
    fragmentation: dict[str, Fragmentation]
    growth: dict[str, Growth]
    load_phase: LoadPhase | None
    failure: parts.FailureEntry | None
    failures: list[parts.FailureEntry]
    ended: parts.RunEndEntry | None
    """Null when the run came to its end; an error that is not for memory leaves ``failure`` with class ``none``."""
    skipped_comparisons: int | UnsetType = UNSET
    """Of a script that was run: comparisons of values that were skipped, because a mock computes none."""
    findings: list[Finding] | UnsetType = UNSET
    """Leaks and waste of a captured run, the costliest first; only where there are any."""


def document(profile: Profile) -> ProfileDocument:
    """Return the answer of ``ttmem profile --json``."""
    asked = analyses(profile)
    failed = asked.failure
    return ProfileDocument.of(
        profile,
        operations=asked.distribution,
        programs=_programs(profile),
        runs=asked.counted_runs,
        run_list=_run_list(profile, asked.runs),
        ranks=_ranks(profile),
        memories={
            memory: _memory(
                peak,
                asked.programs_peak if memory == "L1" else None,
                **(_consumers(asked.live[memory]) if memory in asked.live else {}),
            )
            for memory, peak in asked.peaks.items()
        },
        weights=asked.weights,
        padding=parts.PaddingEntry.of(
            asked.padding,
            top=[
                parts.PaddedTensor.of(
                    life.type, life, **_tensor(life), overhead_percent=rounded(overhead_percent(life), 4)
                )
                for life in asked.padding.top[:_MOST_PADDED]
            ],
        ),
        **_consumers(asked.live.get("DRAM")),
        fragmentation=asked.fragmentation,
        growth=asked.growth,
        load_phase=asked.load_phase,
        failure=failed and _failure(failed, asked.diagnosis),
        failures=[_failure(item) for item in asked.failures],
        ended=asked.end and parts.RunEndEntry.of(asked.end),
        skipped_comparisons=profile.facts.get("skipped_comparisons", UNSET),
        findings=asked.findings or UNSET,
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
    columns = [state_column(profile, timeline, "DRAM") for timeline in profile.timelines]
    listed = []
    for run in found:
        states = columns[run.timeline]
        first, end = np.searchsorted(states.state, (run.first_state, run.end_state)).tolist()
        operations = run.end_index - run.first_index
        listed.append(
            parts.RunEntry.of(
                run,
                run=run.number,
                rank=known(run.rank),
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
        counts = distribution(profile, index)
        listed.append(
            parts.RankEntry(
                rank=known(timeline.rank),
                operations=parts.OperationCounts(executed=counts.executed, compute=counts.compute),
                memories={memory: _memory(peak) for memory, peak in peaks_of(profile, index).items()},
            )
        )
    return listed


def _consumers(live: LiveSet | None) -> dict[str, Any]:
    unlisted = live.tensors[_MOST_CONSUMERS:] if live else ()
    return {
        "consumers": [
            parts.Consumer.of(
                life,
                life.type,
                **_tensor(life),
                alive=(life.first_index, life.last_index),
                distribution=life.type.distribution or UNSET,
            )
            for life in (live.tensors[:_MOST_CONSUMERS] if live else ())
        ],
        "consumers_not_listed": parts.ConsumersNotListed(
            count=len(unlisted), bytes_per_bank=sum(life.bytes_per_bank for life in unlisted)
        ),
        "unattributed_bytes_per_bank": live.unattributed_bytes_per_bank if live else None,
    }


def _memory(peak: Peak, programs: ProgramPeak | None = None, **more: Any) -> parts.MemoryPeak:
    return parts.MemoryPeak.of(
        peak,
        programs,
        **more,
        peak_at=OperationRef(peak.at_index, peak.at_name),
        peak_within_operation=peak.within_operation or UNSET,
        caused_by=caused_by(peak),
        rank=known(peak.rank),
        peak_with_programs_at=OperationPlace(programs.index, programs.name, programs.location) if programs else UNSET,
    )


def caused_by(peak: Peak) -> OperationPlace | None:
    """The operation whose after-state the peak is; null before the first operation."""
    at = peak.caused_by_index
    return None if at is None else OperationPlace(at, peak.caused_by_name, peak.caused_by_location)


def _tensor(life: TensorLife) -> dict[str, Any]:
    return {"tensor": life.name, "producer": OperationRef(index=life.producer_index, name=life.producer_name)}


def _failure(item: RunFailure, diagnosis: Diagnosis | None = None) -> parts.FailureEntry:
    at = item.operation_index
    return parts.FailureEntry.of(
        item,
        operation=None if at is None else OperationPlace(at, item.operation_name, item.operation_location),
        **{name: item.numbers.get(name) for name in parts.FAILURE_FIGURES},
        rank=known(item.rank),
        alive=live_entries(diagnosis) if diagnosis else UNSET,
        diagnosis=diagnosis.text if diagnosis else UNSET,
        remedies=[RemedyEntry.of_remedy(remedy) for remedy in diagnosis.remedies] if diagnosis else UNSET,
    )
