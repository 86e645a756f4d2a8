# SPDX-License-Identifier: Apache-2.0
"""Every tensor of a process once, over all its runs."""

from __future__ import annotations

from ttmem.analysis.lifetimes import TensorLife, lifetimes
from ttmem.analysis.runs import runs_of
from ttmem.profile import Profile, Timeline


def all_lives(profile: Profile, timeline: Timeline) -> list[TensorLife]:
    """In the order in which they came. Runs are asked one by one: what one leaves is not there in the next."""
    runs = runs_of(timeline) if timeline.programs else []
    if timeline.buffers is not None or len(runs) < 2:
        return lifetimes(profile, timeline, None)
    found: dict[tuple[object, ...], TensorLife] = {}
    for run in runs:
        for life in lifetimes(profile, timeline, run.number):
            stays = life.weight or life.producer_index is not None
            found.setdefault((life.producer_index, life.name, life.type, None if stays else life.first_index), life)
    return sorted(found.values(), key=lambda life: life.first_index)
