# SPDX-License-Identifier: Apache-2.0
"""Growth from run to run: what a run leaves behind when it ran nothing new is a leak.

States at the *start* of runs are compared: a run's outputs are released after it ends, without a line in the log.
"""

from dataclasses import dataclass
from itertools import compress, pairwise

import numpy as np

from ttmem.analysis.load_phase import const_eval_programs
from ttmem.analysis.states import known, seen_memories, state_column
from ttmem.profile.model import Profile, Timeline
from ttmem.profile.runs import Run, find_timeline_runs

LEAK, STEADY, TOO_FEW_RUNS = "leak", "steady", "too few runs"

_FEWEST_STEPS = 2
"""One step may be chance; the same run leaving more behind twice in a row is a habit."""
_PARTS = 3
"""A leak grows in every third of the steps; a late cache or a step that happens once does not."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Change of a memory's starting level from run to run, in the rank where it is largest."""

    verdict: str
    """``leak``, ``steady`` or ``too few runs``."""
    bytes_per_bank_per_run: float
    error_bytes_per_run: float
    """How far rounding of the printed states can move the slope."""
    compared_runs: int
    """Runs that loaded nothing and were followed by another one: their steps count."""
    starts_bytes_per_bank: tuple[int, ...]
    """State at the start of each run."""
    rank: int | None


def growth(profile: Profile) -> dict[str, Growth]:
    """Per memory that was seen, the rank that grows most."""
    found: dict[str, Growth] = {}
    for memory in seen_memories(profile):
        by_rank = [_measure_process(profile, timeline, memory) for timeline in profile.timelines]
        found[memory] = max(by_rank, key=lambda result: (result.verdict == LEAK, result.bytes_per_bank_per_run))
    return found


def _measure_process(profile: Profile, timeline: Timeline, memory: str) -> Growth:
    states = state_column(profile, timeline, memory)
    started: list[tuple[Run, int]] = []
    for run in find_timeline_runs(timeline):
        first = int(np.searchsorted(states.state, run.first_state))
        if first < len(states.state) and states.state[first] < run.end_state:
            started.append((run, int(states.value[first])))
    loading = _find_loading_runs(profile, timeline, [run for run, _ in started])
    counts = [run.number not in loading for run, _ in started[:-1]]
    steps = [after - before for (_, before), (_, after) in compress(pairwise(started), counts)]
    stretches = sum(now and not earlier for earlier, now in pairwise([False, *counts]))
    # Neighbouring steps share a state, so rounding enters once at each end of a stretch, not once per step.
    error = 2.0 * profile.source.state_error_bytes * stretches / len(steps) if steps else 0.0
    return Growth(
        verdict=_verdict(steps),
        bytes_per_bank_per_run=round(sum(steps) / len(steps), 4) if steps else 0.0,
        error_bytes_per_run=round(error, 4),
        compared_runs=len(steps),
        starts_bytes_per_bank=tuple(start for _, start in started),
        rank=known(timeline.rank),
    )


def _verdict(steps: list[int]) -> str:
    if len(steps) < _FEWEST_STEPS:
        return TOO_FEW_RUNS
    parts = np.array_split(np.array(steps, dtype=np.int64), min(_PARTS, len(steps)))
    # Rounding keeps order: a larger printed figure means a larger true one.
    return LEAK if all(part.sum() > 0 for part in parts) else STEADY


def _find_loading_runs(profile: Profile, timeline: Timeline, found: list[Run]) -> set[int]:
    """Runs that bring something to stay: const-eval results, or the first execution of a graph.

    Every graph's entry is called main, so a graph is recognised by its first and last operation too.
    """
    loading = {
        program.run
        for program, const_eval in zip(timeline.programs, const_eval_programs(profile, timeline), strict=True)
        if const_eval
    }
    missed = sorted(lookup.operation for lookup in timeline.lookups if not lookup.hit)
    known_graphs: set[tuple[str, int, int]] = set()
    for run in found:
        if np.searchsorted(missed, run.first_index) != np.searchsorted(missed, run.end_index):
            loading.add(run.number)
        forms = timeline.form[run.first_index - timeline.first_index : run.end_index - timeline.first_index]
        graph = (run.program, *((int(forms[0]), int(forms[-1])) if len(forms) else (-1, -1)))
        if graph not in known_graphs:
            known_graphs.add(graph)
            loading.add(run.number)
    return loading
