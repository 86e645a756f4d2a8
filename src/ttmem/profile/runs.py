# SPDX-License-Identifier: Apache-2.0
"""Which runs a source holds: a run is one top-level execution, nested programs belong to it."""

from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np

from ttmem.profile.model import BEFORE_SUBMIT, SUITE_KIND, Profile, Program, Timeline


@dataclass(frozen=True, slots=True)
class Run:
    """One top-level execution of one process, with its share of the timeline."""

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


def runs(profile: Profile) -> list[Run]:
    """All runs of all ranks, in order."""
    return [run for index, timeline in enumerate(profile.timelines) for run in runs_of(timeline, index)]


def runs_of(timeline: Timeline, timeline_index: int = 0) -> list[Run]:
    """The runs of one process."""
    return list(_runs_of(timeline, timeline_index))


@lru_cache(maxsize=4)  # whoever looks at every run asks for all of them each time
def _runs_of(timeline: Timeline, timeline_index: int) -> list[Run]:
    run = partial(Run, timeline.rank, timeline_index)
    found = [
        run(top.run, top.name, top.first_operation, top.end_operation, top.first_state, top.end_state, top.finished)
        for top in _tops(timeline)
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


def run_at(timeline: Timeline, operation: int, state: int = -1) -> int | None:
    """The run whose tensors a moment can show, by its operation or its state; between two runs, the last one.

    None where the source names no program.
    """
    tops = _tops(timeline)
    for top in tops:
        if top.first_operation <= operation < top.end_operation or top.first_state <= state < top.end_state:
            return top.run
    return tops[-1].run if tops else None


def _tops(timeline: Timeline) -> list[Program]:
    return [program for program in timeline.programs if program.parent < 0]


def counted_runs(profile: Profile) -> int:
    """How often the model ran: a last run that the source cuts off counts only when there is no other one.

    Ranks run the same programs, so the rank that got furthest tells. The tests of a suite are all different.
    """
    if profile.source.kind == SUITE_KIND:
        return len({run.number for run in runs(profile)})
    by_process = [[run.finished for run in runs_of(timeline)] for timeline in profile.timelines]
    return max((len(ended) - (len(ended) > 1 and not ended[-1]) for ended in by_process), default=0)
