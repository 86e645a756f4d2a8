# SPDX-License-Identifier: Apache-2.0
"""Operations with the largest effect on a memory, each distinct operation once."""

from dataclasses import dataclass

import numpy as np

from ttmem.analysis.alignment import collect_executed_forms, result_types
from ttmem.analysis.states import change_per_operation
from ttmem.profile.model import Profile
from ttmem.profile.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class LargestChange:
    """A distinct operation and the most it added to a memory in any execution."""

    index: int
    """The first execution that had this effect."""
    rank: int
    name: str
    location: str
    executions: int
    result: TensorType | None
    change_bytes_per_bank: dict[str, int]
    """By memory, at that execution: after-state minus before-state, so rounding enters twice."""


def find_largest_changes(
    profile: Profile, *, by: str = "DRAM", most: int = 100, memories: tuple[str, ...] = ("DRAM", "L1")
) -> list[LargestChange]:
    """The operations that added most to the memory ``by``, most first; those that added nothing are left out."""
    best: dict[int, tuple[int, int, int]] = {}
    changes = [
        {memory: change_per_operation(profile, timeline, memory) for memory in {by, *memories}}
        for timeline in profile.timelines
    ]
    for number, timeline in enumerate(profile.timelines):
        change = changes[number][by]
        # Stable, so that among equal effects the first execution stays in front.
        order = np.argsort(-change, kind="stable")
        grown = order[change[order] > 0]
        _, first = np.unique(timeline.form[grown], return_index=True)
        for position in grown[np.sort(first)[:most]].tolist():
            form = int(timeline.form[position])
            if form not in best or change[position] > best[form][0]:
                best[form] = (int(change[position]), number, position)
    executions = np.bincount(collect_executed_forms(profile))
    return [
        LargestChange(
            index=profile.timelines[number].first_index + position,
            rank=profile.timelines[number].rank,
            name=profile.forms.name_of(form),
            location=profile.forms.location(form),
            executions=int(executions[form]),
            result=next(filter(None, result_types(profile, form)), None),
            change_bytes_per_bank={memory: int(changes[number][memory][position]) for memory in memories},
        )
        for form, (_, number, position) in sorted(best.items(), key=lambda item: (-item[1][0], item[1][1:]))[:most]
    ]
