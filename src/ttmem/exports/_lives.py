# SPDX-License-Identifier: Apache-2.0
"""Every tensor of a process once, over all its runs."""

from __future__ import annotations

from dataclasses import replace

from ttmem.analysis.lifetimes import TensorLife, lifetimes
from ttmem.analysis.runs import runs_of
from ttmem.analysis.select import select
from ttmem.profile import Profile, TensorType, Timeline


def all_lives(profile: Profile, timeline: Timeline) -> list[TensorLife]:
    """In the order in which they came.

    Runs are asked one by one, each narrowed to its own part: what a run leaves is not there in the next, and asking
    about the whole once per run would take the square of its length. Weights stay, so each is told once.
    """
    runs = runs_of(timeline) if timeline.programs else []
    if timeline.buffers is not None or len(runs) < 2:
        return lifetimes(profile, timeline, None)
    alone = replace(profile, timelines=(timeline,))
    weights: set[tuple[str, TensorType]] = set()
    found: list[TensorLife] = []
    for run in runs:
        narrowed = select(alone, run=run.number)
        for life in lifetimes(narrowed, narrowed.timelines[0], None):
            if life.weight:
                if (life.name, life.type) in weights:
                    continue
                weights.add((life.name, life.type))
                life = replace(life, last_index=timeline.end_index - 1)
            found.append(life)
    return found
