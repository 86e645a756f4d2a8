# SPDX-License-Identifier: Apache-2.0
"""The peak of each memory: how much, when, and which operation caused it."""

from dataclasses import dataclass

import numpy as np

from ttmem.analysis.states import change_between_operations, known, state_column
from ttmem.profile.model import BEFORE_OPERATION, MEMORIES, STATE_NAMES, WITHIN_OPERATION, Profile, Timeline


@dataclass(frozen=True, slots=True)
class Peak:
    """The fullest moment of one memory. All byte figures are per bank and leave out circular buffers."""

    memory: str
    rank: int
    banks: int
    bytes_per_bank: int
    peak_bytes_per_bank: int
    peak_percent: float | None
    """None when the memory has no size (a trace region that was not configured)."""
    at_index: int | None
    at_name: str
    """The operation that the state was printed before, or what kind of state it is."""
    caused_by_index: int | None
    caused_by_name: str
    caused_by_location: str
    free_bytes_at_peak: int
    largest_free_bytes_at_peak: int
    end_bytes_per_bank: int
    state: int
    timeline: int
    error_bytes: int
    within_operation: bool = False
    """The fullest moment is inside ``at_index``, among its temporaries; a log cannot show such a moment."""


def peaks(profile: Profile) -> dict[str, Peak]:
    """The peak of every memory that was seen, over all processes: the worst one counts."""
    worst: dict[str, Peak] = {}
    for number in range(len(profile.timelines)):
        for memory, peak in peaks_of(profile, number).items():
            if memory not in worst or peak.peak_bytes_per_bank > worst[memory].peak_bytes_per_bank:
                worst[memory] = peak
    return {memory: worst[memory] for memory in MEMORIES if memory in worst}


def peaks_of(profile: Profile, timeline_number: int) -> dict[str, Peak]:
    """The peaks of one process; among equal states the first wins."""
    timeline = profile.timelines[timeline_number]
    found: dict[str, Peak] = {}
    for column, memory in enumerate(MEMORIES):
        states = state_column(profile, timeline, memory)
        if not len(states.state):
            continue
        state = int(states.state[int(np.argmax(states.value))])
        banks, total, allocated, free, largest_free = profile.views[timeline.state_view[state, column]].tolist()
        columns = (timeline.state_operation, timeline.state_cause, timeline.state_kind)
        at, cause, kind = (int(facts[state]) for facts in columns)
        belongs_to_one = at >= 0 or kind == BEFORE_OPERATION
        cause_name, cause_location = operation_place(profile, timeline, cause)
        found[memory] = Peak(
            memory=memory,
            rank=timeline.rank,
            banks=banks,
            bytes_per_bank=total,
            peak_bytes_per_bank=allocated,
            peak_percent=round(100 * allocated / total, 4) if total else None,
            at_index=known(at),
            at_name=operation_place(profile, timeline, at)[0] if belongs_to_one else STATE_NAMES[kind],
            caused_by_index=known(cause),
            caused_by_name=cause_name,
            caused_by_location=cause_location,
            free_bytes_at_peak=free,
            largest_free_bytes_at_peak=largest_free,
            end_bytes_per_bank=int(change_between_operations(timeline, states).value[-1:].sum()),
            state=state,
            timeline=timeline_number,
            error_bytes=profile.source.state_error_bytes,
            within_operation=kind == WITHIN_OPERATION,
        )
    return found


def operation_place(profile: Profile, timeline: Timeline, operation: int) -> tuple[str, str]:
    """An operation's name and where it comes from in the user's program.

    Both are empty when the timeline does not hold it (-1, or narrowed away).
    """
    if not timeline.first_index <= operation < timeline.end_index:
        return "", ""
    form = int(timeline.form[operation - timeline.first_index])
    return profile.forms.name_of(form), profile.forms.location(form)
