# SPDX-License-Identifier: Apache-2.0
"""Trace-event JSON for ui.perfetto.dev: a counter per memory, a slice per operation and program, tensors as spans.

No source of a profile has times, so the horizontal axis counts operations: operation i spans i to i + 1
milliseconds, a state before it is at i, a moment inside it at i + 1/2.
"""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ttmem.analysis.consumers import alive_at_peak
from ttmem.analysis.failure import failures
from ttmem.analysis.states import seen_memories, state_column
from ttmem.base.atomic_files import atomic_file
from ttmem.profile.model import SNAPSHOT, WITHIN_OPERATION, Profile, Timeline

OPERATION_MICROSECONDS = 1000
_OPERATIONS, _PROGRAMS, _FAILURES = 1, 2, 3
"""Thread numbers: one track each."""
_MOST_TENSORS = 500

Event = dict[str, Any]


def write_trace(profile: Profile, out: Path, *, with_source: bool = False) -> Path:
    """Write the file; a trace has no place for source files, so ``with_source`` changes nothing."""
    about = {
        "profile": profile.name,
        "source": profile.source.kind,
        "axis": "operations, not time: 1 ms is one operation",
        "counters": "bytes per bank",
        "warnings": list(profile.source.warnings),
    }
    with atomic_file(out) as stream, io.TextIOWrapper(stream, "utf-8") as file:
        file.write(f'{{"displayTimeUnit": "ms", "otherData": {json.dumps(about)}, "traceEvents": [\n')
        separator = ""
        for event in build_events(profile):
            file.write(f"{separator}{json.dumps(event)}")
            separator = ",\n"
        file.write("\n]}\n")
    return out


def build_events(profile: Profile) -> Iterator[Event]:
    """Yield all events; a process of the trace is a rank of the profile."""
    for number, timeline in enumerate(profile.timelines):
        process = _find_process(profile, number)
        yield from _build_names(profile, timeline, process)
        yield from _build_operations(profile, timeline, process)
        yield from _build_programs(timeline, process)
        yield from _build_counters(profile, timeline, process)
    yield from _build_failures(profile)
    yield from _build_tensors(profile)


def _find_process(profile: Profile, timeline: int) -> int:
    rank = profile.timelines[timeline].rank
    return rank if rank >= 0 else timeline


def _build_names(profile: Profile, timeline: Timeline, process: int) -> Iterator[Event]:
    rank = f" rank {timeline.rank}" if timeline.rank >= 0 else ""
    yield _build_metadata(process, 0, "process_name", f"{profile.name}{rank}")
    for thread, name in ((_OPERATIONS, "operations"), (_PROGRAMS, "programs"), (_FAILURES, "failures")):
        yield _build_metadata(process, thread, "thread_name", name)
        yield {"ph": "M", "pid": process, "tid": thread, "name": "thread_sort_index", "args": {"sort_index": thread}}


def _build_metadata(process: int, thread: int, what: str, name: str) -> Event:
    return {"ph": "M", "pid": process, "tid": thread, "name": what, "args": {"name": name}}


def _build_operations(profile: Profile, timeline: Timeline, process: int) -> Iterator[Event]:
    forms, needs = profile.forms, timeline.programs_l1
    for position, form in enumerate(timeline.form.tolist()):
        index = timeline.first_index + position
        details: dict[str, Any] = {"index": index}
        if location := forms.location(form):
            details["location"] = location
        if needs is not None and (parts := needs.parts(position)):
            details["l1_bytes_per_core"] = parts
        yield _build_slice("operation", process, _OPERATIONS, forms.name_of(form), index, index + 1, details)


def _build_programs(timeline: Timeline, process: int) -> Iterator[Event]:
    for program in timeline.programs:
        details = {"run": program.run, "finished": program.finished}
        first, end = program.first_operation, program.end_operation
        yield _build_slice("program", process, _PROGRAMS, program.name, first, end, details)


def _build_slice(kind: str, process: int, thread: int, name: str, first: int, end: int, details: Event) -> Event:
    what = {"ph": "X", "pid": process, "tid": thread, "name": name, "cat": kind}
    start, duration = first * OPERATION_MICROSECONDS, (end - first) * OPERATION_MICROSECONDS
    return {**what, "ts": start, "dur": duration, "args": details}


def _build_counters(profile: Profile, timeline: Timeline, process: int) -> Iterator[Event]:
    times = _find_times(timeline)
    for memory in seen_memories(profile):
        states = state_column(profile, timeline, memory)
        counter = {"ph": "C", "pid": process, "name": f"{memory} bytes per bank"}
        for state, allocated in zip(states.state.tolist(), states.value.tolist(), strict=True):
            yield {**counter, "ts": times[state], "args": {"allocated": allocated}}


def _find_times(timeline: Timeline) -> list[int]:
    """Return the time of each state, never earlier than the previous one."""
    at = timeline.state_operation.astype(np.int64)
    started = np.maximum.accumulate(np.where(at >= 0, at, timeline.first_index - 1)) if len(at) else at
    times = np.where(at >= 0, at, started + 1) * OPERATION_MICROSECONDS
    kinds = timeline.state_kind
    times[kinds == WITHIN_OPERATION] += OPERATION_MICROSECONDS // 2
    # There is no gap between two operations: a state after one is drawn a little before the next.
    last = len(times) - 1
    times[:last][kinds[:last] == SNAPSHOT] -= OPERATION_MICROSECONDS // 10
    found: list[int] = np.maximum(np.maximum.accumulate(times), 0).tolist() if len(times) else []
    return found


def _build_failures(profile: Profile) -> Iterator[Event]:
    processes = {timeline.rank: _find_process(profile, number) for number, timeline in enumerate(profile.timelines)}
    for found in failures(profile):
        index = found.operation_index if found.operation_index is not None else 0
        what = {"ph": "i", "s": "p", "pid": processes.get(found.rank, 0), "tid": _FAILURES}
        middle = index * OPERATION_MICROSECONDS + OPERATION_MICROSECONDS // 2
        details = {"message": found.message, "memory": found.memory, "operation": found.operation_name}
        yield {**what, "name": found.failure_class, "cat": "failure", "ts": middle, "args": details}


def _build_tensors(profile: Profile) -> Iterator[Event]:
    """Yield the largest tensors alive at each peak, from producer to release."""
    number = 0
    for memory in seen_memories(profile):
        if (live := alive_at_peak(profile, memory)) is None:
            continue
        for life in live.tensors[:_MOST_TENSORS]:
            number += 1
            shared = {
                "pid": _find_process(profile, live.peak.timeline),
                "tid": 0,
                "id": number,
                "cat": f"alive at the {memory} peak",
                "name": f"{life.name} {life.type.describe()}",
            }
            details = {"bytes_per_bank": life.bytes_per_bank, "producer": life.producer_name, "location": life.location}
            yield {"ph": "b", "ts": life.first_index * OPERATION_MICROSECONDS, "args": details, **shared}
            yield {"ph": "e", "ts": (life.last_index + 1) * OPERATION_MICROSECONDS, "args": {}, **shared}
