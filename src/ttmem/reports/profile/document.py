# SPDX-License-Identifier: Apache-2.0
"""The JSON document ``ttmem.profile/1``: a contract. Keys may be added, never renamed or removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ttmem.analysis.consumers import LiveSet
from ttmem.analysis.distribution import distribution_of
from ttmem.analysis.failure import RunFailure
from ttmem.analysis.fragmentation import Fragmentation
from ttmem.analysis.growth import Growth
from ttmem.analysis.lifetimes import TensorLife
from ttmem.analysis.load_phase import LoadPhase, const_eval_programs
from ttmem.analysis.padding import Padding
from ttmem.analysis.peaks import Peak, peaks_of
from ttmem.analysis.programs_l1 import ProgramPeak
from ttmem.analysis.runs import Run
from ttmem.analysis.states import state_column
from ttmem.analysis.weights import Weights
from ttmem.explain import Diagnosis
from ttmem.profile import Profile
from ttmem.reports.explain.document import remedy_entry
from ttmem.reports.profile.analyses import analyses

SCHEMA = "ttmem.profile/1"

_MOST_CONSUMERS = 1000
"""A run that never frees holds tens of thousands of tensors; the rest is summed up, not listed."""
_MOST_PADDED = 100

_FAILURE_FIGURES = ("requested_bytes", "bytes_per_bank", "bank_bytes", "banks", "allocated", "free", "largest_free")


def profile_document(profile: Profile) -> dict[str, Any]:
    """All bytes are integers; ``*_per_bank`` is one slice of a memory, everything else is one whole chip."""
    known = analyses(profile)
    return {
        "schema": SCHEMA,
        "name": profile.name,
        "source": _source(profile),
        "facts": dict(profile.facts),
        "operations": {
            "executed": known.distribution.executed,
            "compute": known.distribution.compute,
            "by_name": known.distribution.by_name,
        },
        "programs": _programs(profile),
        "runs": known.counted_runs,
        "run_list": _run_list(profile, known.runs),
        "ranks": _ranks(profile),
        "memories": {
            memory: {**_memory(peak), **(_programs_peak(known.programs_peak) if memory == "L1" else {})}
            for memory, peak in known.peaks.items()
        },
        "weights": _weights(known.weights),
        "padding": _padding(known.padding),
        **_consumers(known.dram),
        "fragmentation": {memory: _fragmentation(item) for memory, item in known.fragmentation.items()},
        "growth": {memory: _growth(item) for memory, item in known.growth.items()},
        "load_phase": _load_phase(known.load_phase),
        "failure": None if known.failure is None else {**_failure(known.failure), **_diagnosis(known.diagnosis)},
        "failures": [_failure(item) for item in known.failures],
    }


def _source(profile: Profile) -> dict[str, Any]:
    source = profile.source
    return {
        "kind": source.kind,
        "name": source.name,
        "bytes": source.bytes,
        "lines": source.lines,
        "unrecognised_lines": source.unrecognised_lines,
        "warnings": list(source.warnings),
        "state_error_bytes": source.state_error_bytes,
    }


def _programs(profile: Profile) -> list[dict[str, Any]]:
    """One entry per distinct name; ``operations`` are the program's own, not those of programs it calls."""
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
        {"name": name, "executions": count, "operations": operations[name], "const_eval": const_eval[name]}
        for name, count in executions.items()
    ]


def _run_list(profile: Profile, found: Sequence[Run]) -> list[dict[str, Any]]:
    columns = {number: state_column(profile, timeline, "DRAM") for number, timeline in enumerate(profile.timelines)}
    listed = []
    for run in found:
        states = columns[run.timeline]
        first, end = np.searchsorted(states.block, (run.first_block, run.end_block)).tolist()
        operations = run.end_index - run.first_index
        listed.append(
            {
                "run": run.number,
                "rank": _rank(run.rank),
                "program": run.program,
                "first_index": run.first_index if operations else None,
                "last_index": run.end_index - 1 if operations else None,
                "operations": operations,
                "finished": run.finished,
                "peak_dram_bytes_per_bank": int(states.value[first:end].max()) if end > first else None,
            }
        )
    return listed


def _ranks(profile: Profile) -> list[dict[str, Any]]:
    listed = []
    for index, timeline in enumerate(profile.timelines):
        counts = distribution_of(profile, index)
        listed.append(
            {
                "rank": _rank(timeline.rank),
                "operations": {"executed": counts.executed, "compute": counts.compute},
                "memories": {memory: _memory(peak) for memory, peak in peaks_of(profile, index).items()},
            }
        )
    return listed


def _rank(rank: int) -> int | None:
    return rank if rank >= 0 else None


def _programs_peak(peak: ProgramPeak | None) -> dict[str, Any]:
    """What captured profiles add to L1; ``peak_bytes_per_bank`` stays the allocator's own figure, as logs print it."""
    if peak is None:
        return {}
    return {
        "peak_with_programs_bytes_per_core": peak.total_bytes_per_core,
        "parts": peak.parts,
        "peak_with_programs_at": {"index": peak.index, "name": peak.name, "location": peak.location},
        "operations_with_unmeasured_programs": peak.unmeasured_operations,
    }


def _memory(peak: Peak) -> dict[str, Any]:
    caused_by = {"index": peak.caused_by_index, "name": peak.caused_by_name, "location": peak.caused_by_location}
    return {
        "banks": peak.banks,
        "bytes_per_bank": peak.bytes_per_bank,
        "peak_bytes_per_bank": peak.peak_bytes_per_bank,
        "peak_percent": peak.peak_percent,
        "peak_at": {"index": peak.at_index, "name": peak.at_name},
        **({"peak_within_operation": True} if peak.within_operation else {}),
        "caused_by": caused_by if peak.caused_by_index is not None else None,
        "free_bytes_at_peak": peak.free_bytes_at_peak,
        "largest_free_bytes_at_peak": peak.largest_free_bytes_at_peak,
        "end_bytes_per_bank": peak.end_bytes_per_bank,
        "error_bytes_per_bank": peak.error_bytes,
        "rank": _rank(peak.rank),
    }


def _weights(found: Weights) -> dict[str, Any]:
    return {
        "count": found.count,
        "bytes": found.bytes,
        "constants": found.constants,
        "device_bytes": found.bytes_in("device"),
        "host_only_bytes": found.bytes_in("host"),
        "unknown_bytes": found.bytes_in("unknown"),
        "entries": [
            {
                "name": weight.name,
                "shape": list(weight.shape),
                "dtype": weight.dtype,
                "bytes": weight.bytes,
                "constant": weight.kind == "constant",
                "where": weight.where,
                "graphs": list(weight.graphs),
            }
            for weight in found.entries
        ],
    }


def _padding(found: Padding) -> dict[str, Any]:
    return {
        "logical_bytes": found.logical_bytes,
        "padded_bytes": found.padded_bytes,
        "overhead_percent": found.overhead_percent,
        "top": [
            {
                **_tensor(life),
                "logical_bytes": life.type.logical_bytes,
                "padded_bytes": life.type.padded_bytes,
                "padding_bytes": life.type.padding_bytes,
                "overhead_percent": round(100 * life.type.padding_bytes / life.type.logical_bytes, 4)
                if life.type.logical_bytes
                else None,
            }
            for life in found.top[:_MOST_PADDED]
        ],
    }


def _consumers(live: LiveSet | None) -> dict[str, Any]:
    tensors = live.tensors if live else ()
    unlisted = tensors[_MOST_CONSUMERS:]
    return {
        "consumers": [
            {
                **_tensor(life),
                "bytes": life.type.padded_bytes,
                "bytes_per_bank": life.bytes_per_bank,
                "alive": [life.first_index, life.last_index],
                "last_use": life.last_use_index,
                "weight": life.weight,
                "program": life.program,
            }
            for life in tensors[:_MOST_CONSUMERS]
        ],
        "consumers_not_listed": {
            "count": len(unlisted),
            "bytes_per_bank": sum(life.bytes_per_bank for life in unlisted),
        },
        "unattributed_bytes_per_bank": live.unattributed_bytes_per_bank if live else 0,
    }


def _tensor(life: TensorLife) -> dict[str, Any]:
    return {
        "tensor": life.name,
        "name": life.name,
        "shape": list(life.type.shape),
        "dtype": life.type.dtype,
        "layout": life.type.layout,
        "producer": {"index": life.producer_index, "name": life.producer_name},
        "location": life.location,
    }


def _fragmentation(item: Fragmentation) -> dict[str, Any]:
    return {
        "worst_bytes_per_bank": item.worst_bytes_per_bank,
        "worst_percent": round(item.worst_percent, 4),
        "worst_at": {"index": item.worst_at_index, "name": item.worst_at_name},
        "at_peak_bytes_per_bank": item.at_peak_bytes_per_bank,
        "threshold_percent": item.threshold_percent,
        "states_above_threshold_percent": round(item.share_above_threshold_percent, 4),
        "error_bytes_per_bank": item.error_bytes,
        "rank": _rank(item.rank),
    }


def _growth(item: Growth) -> dict[str, Any]:
    return {
        "verdict": item.verdict,
        "bytes_per_bank_per_run": round(item.bytes_per_bank_per_run, 4),
        "error_bytes_per_run": round(item.error_bytes_per_run, 4),
        "compared_runs": item.compared_runs,
        "starts_bytes_per_bank": list(item.starts_bytes_per_bank),
        "rank": _rank(item.rank),
    }


def _load_phase(item: LoadPhase | None) -> dict[str, Any] | None:
    if item is None:
        return None
    return {
        "memory": item.memory,
        "before_first_bytes_per_bank": item.before_first_bytes_per_bank,
        "const_eval_programs": item.const_eval_programs,
        "const_eval_operations": item.const_eval_operations,
        "const_eval_bytes_per_bank": item.const_eval_bytes_per_bank,
        "upload_operations": item.upload_operations,
        "upload_bytes_per_bank": item.upload_bytes_per_bank,
        "loaded_at_index": item.loaded_at_index,
        "loaded_bytes_per_bank": item.loaded_bytes_per_bank,
        "rank": _rank(item.rank),
    }


def _failure(item: RunFailure) -> dict[str, Any]:
    operation = {"index": item.operation_index, "name": item.operation_name, "location": item.operation_location}
    numbers: Mapping[str, int] = item.numbers
    return {
        "class": item.failure_class,
        "memory": item.memory,
        "message": item.message,
        "operation": operation if item.operation_index is not None else None,
        **{name: numbers.get(name) for name in _FAILURE_FIGURES},
        "numbers": dict(numbers),
        "texts": dict(item.texts),
        "line": item.line,
        "rank": _rank(item.rank),
        "survived": item.survived,
        "is_warning": item.is_warning,
    }


def _diagnosis(diagnosis: Diagnosis | None) -> dict[str, Any]:
    """Why, and what to change; ``ttmem explain`` gives the whole of it."""
    if diagnosis is None:
        return {}
    return {"diagnosis": diagnosis.text, "remedies": [remedy_entry(remedy) for remedy in diagnosis.remedies]}
