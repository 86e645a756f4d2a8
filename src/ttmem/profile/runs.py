# SPDX-License-Identifier: Apache-2.0
"""The runs of a source, and profiles narrowed to a run or a rank. A run is a top-level execution with its nested
programs.

Narrowing keeps the operation indices of the whole source: people find the line by them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np

from ttmem.base.errors import BadInputError
from ttmem.profile.model import BEFORE_SUBMIT, SUITE_KIND, BufferTable, FailureText, Profile, Program, Timeline
from ttmem.profile.operation_forms import Int32


@dataclass(frozen=True, slots=True)
class Run:
    """A top-level execution of one process, with its part of the timeline."""

    rank: int
    timeline: int
    number: int
    program: str
    first_index: int
    end_index: int
    """One past its last operation."""
    first_state: int
    end_state: int
    """One past its last memory state; the submit states around a run are its own."""
    finished: bool


def find_runs(profile: Profile) -> list[Run]:
    """Return the runs of all ranks, in order."""
    return [run for index, timeline in enumerate(profile.timelines) for run in find_timeline_runs(timeline, index)]


def find_timeline_runs(timeline: Timeline, timeline_index: int = 0) -> list[Run]:
    return list(_find_timeline_runs(timeline, timeline_index))


@lru_cache(maxsize=4)  # callers that iterate over runs ask for all of them each time
def _find_timeline_runs(timeline: Timeline, timeline_index: int) -> list[Run]:
    run = partial(Run, timeline.rank, timeline_index)
    found = [
        run(top.run, top.name, top.first_operation, top.end_operation, top.first_state, top.end_state, top.finished)
        for top in _list_top_programs(timeline)
    ]
    states = len(timeline.state_kind)
    if found or not (states or len(timeline)):
        return found
    # Old runtimes and INFO-only logs name no program: submit states separate runs, else all is one run.
    cuts = [0, *np.flatnonzero(timeline.state_kind == BEFORE_SUBMIT)[1:].tolist(), states]
    first = timeline.first_index
    for number, (first_state, end_state) in enumerate(pairwise(cuts)):
        last = int(timeline.state_operation[first_state:end_state].max(initial=-1))
        end = timeline.end_index if end_state == states else max(first, last + 1)
        found.append(run(number, "", first, end, first_state, end_state, True))
        first = end
    return found


def find_run(timeline: Timeline, operation: int, state: int = -1) -> int | None:
    """Return the run whose tensors a moment can show, by its operation or its state; between two runs, the last one.

    None where the source names no program.
    """
    tops = _list_top_programs(timeline)
    for top in tops:
        if top.first_operation <= operation < top.end_operation or top.first_state <= state < top.end_state:
            return top.run
    return tops[-1].run if tops else None


def _list_top_programs(timeline: Timeline) -> list[Program]:
    return [program for program in timeline.programs if program.parent < 0]


def count_runs(profile: Profile) -> int:
    """Return how often the model ran: a last run that the source cuts off counts only when it is the only one.

    Ranks run the same programs, so the rank that got furthest counts. The tests of a suite are all different.
    """
    if profile.source.kind == SUITE_KIND:
        return len({run.number for run in find_runs(profile)})
    by_process = [[run.finished for run in find_timeline_runs(timeline)] for timeline in profile.timelines]
    return max((len(ended) - (len(ended) > 1 and not ended[-1]) for ended in by_process), default=0)


def select(profile: Profile, *, run: int | str | None = None, rank: int | None = None) -> Profile:
    """Narrow a profile: ``run`` is a number from 0, ``last`` or ``all``; ``rank`` is an MPI rank; None keeps all."""
    if rank is not None:
        profile = _select_rank(profile, rank)
    if run is None or run == "all":
        return profile
    numbers = sorted({found.number for found in find_runs(profile)})
    wanted = int(run) if isinstance(run, str) and run.strip().isdecimal() else run
    if wanted in numbers or (wanted == "last" and numbers):
        return _select_run(profile, wanted)
    valid = (
        f"runs in this source: {_format_numbers(numbers)}; or 'last', 'all'" if numbers else "this source holds no run"
    )
    message = f"no run {wanted!r}" if wanted != "last" else "no run at all"
    raise BadInputError(message, hint=valid, where=profile.source.name)


def _select_rank(profile: Profile, rank: int) -> Profile:
    chosen = tuple(timeline for timeline in profile.timelines if timeline.rank == rank and rank >= 0)
    if chosen:
        return replace(profile, timelines=chosen)
    named = sorted({timeline.rank for timeline in profile.timelines if timeline.rank >= 0})
    hint = (
        f"ranks in this source: {_format_numbers(named)}" if named else "this source names no ranks; leave --rank out"
    )
    raise BadInputError(f"no rank {rank}", hint=hint, where=profile.source.name)


def _select_run(profile: Profile, wanted: int | str) -> Profile:
    timelines = []
    for timeline in profile.timelines:
        found = find_timeline_runs(timeline)
        found = found[-1:] if wanted == "last" else [run for run in found if run.number == wanted]
        timelines += [_narrow(timeline, run) for run in found]
    return replace(profile, timelines=tuple(timelines))


def select_runs(profile: Profile, chosen: Sequence[Run]) -> Profile:
    """Narrow a profile to some runs, each a timeline."""
    return replace(profile, timelines=tuple(_narrow(profile.timelines[run.timeline], run) for run in chosen))


def _narrow(timeline: Timeline, run: Run) -> Timeline:
    operations = slice(run.first_index - timeline.first_index, run.end_index - timeline.first_index)
    states = slice(run.first_state, run.end_state)
    kept = [index for index, program in enumerate(timeline.programs) if program.run == run.number]
    renumbered = np.full(len(timeline.programs) + 1, -1, dtype=np.int32)  # the last entry maps "no program" to itself
    renumbered[kept] = np.arange(len(kept), dtype=np.int32)
    return replace(
        timeline,
        first_index=run.first_index,
        form=timeline.form[operations],
        line=timeline.line[operations],
        program=renumbered[timeline.program[operations]],
        state_kind=timeline.state_kind[states],
        state_operation=_keep_own(timeline.state_operation[states], run),
        state_cause=_keep_own(timeline.state_cause[states], run),
        state_view=timeline.state_view[states],
        state_line=timeline.state_line[states],
        programs=tuple(
            replace(
                program,
                parent=int(renumbered[program.parent]),
                first_state=program.first_state - run.first_state,
                end_state=program.end_state - run.first_state,
            )
            for program in (timeline.programs[index] for index in kept)
        ),
        lookups=tuple(item for item in timeline.lookups if run.first_index <= item.operation < run.end_index),
        retained=frozenset(item for item in timeline.retained if run.first_index <= item < run.end_index),
        failures=tuple(item for item in timeline.failures if _is_in_run(item, run)),
        programs_l1=timeline.programs_l1 and timeline.programs_l1.select_rows(operations),
        buffers=timeline.buffers and _select_buffers(timeline.buffers, run),
        events=None,  # a part of the events cannot be replayed from an empty memory
    )


def _keep_own(operation: Int32, run: Run) -> Int32:
    """Drop operations of other runs: a run's first state has no cause, an older buffer no producer."""
    inside = (operation >= run.first_index) & (operation < run.end_index)
    return np.where(inside, operation, np.int32(-1))


def _select_buffers(buffers: BufferTable, run: Run) -> BufferTable:
    """Return the buffers that show in the run's states, with that part of their lifetimes."""
    kept = buffers.select_rows(
        np.flatnonzero((buffers.last_state >= run.first_state) & (buffers.first_state < run.end_state))
    )
    return replace(
        kept,
        first_state=np.maximum(kept.first_state - np.int32(run.first_state), np.int32(0)),
        last_state=np.minimum(kept.last_state, np.int32(run.end_state - 1)) - np.int32(run.first_state),
        producer=_keep_own(kept.producer, run),
        last_use=_keep_own(kept.last_use, run),
    )


def _is_in_run(failure: FailureText, run: Run) -> bool:
    """Return whether a failure is the run's: outside programs it belongs to the run before it, or to the first."""
    if failure.operation >= 0:
        return run.first_index <= failure.operation < run.end_index
    started = max(failure.next_operation, 1)
    return run.first_index < started <= run.end_index


def _format_numbers(numbers: list[int]) -> str:
    """Format numbers as ``0-4`` or ``0, 2, 5``."""
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}-{numbers[-1]}"
    return ", ".join(map(str, numbers))
