# SPDX-License-Identifier: Apache-2.0
"""Free memory that one large buffer cannot use: an allocation fails on the largest free block, not on the sum."""

from dataclasses import dataclass

from ttmem.analysis.peaks import operation_place
from ttmem.analysis.states import OperationRef, known, seen_memories, state_column
from ttmem.profile.model import MEMORIES, STATE_NAMES, VIEW_ALLOCATED, VIEW_FREE, VIEW_LARGEST_FREE, Profile, Timeline

FRAGMENTED_PERCENT = 50.0
"""From here on a state counts as fragmented: less than half of the free bytes are in one piece."""


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """Free bytes per bank outside the largest free block, in the rank where it was worst."""

    worst_bytes_per_bank: int
    worst_percent: float
    """Share of the free bytes outside the largest block at that moment."""
    worst_at: OperationRef
    """Operation before which it was worst (the first such moment), or what kind of state it is."""
    at_peak_bytes_per_bank: int
    """At the memory's peak, when room is scarcest."""
    threshold_percent: float
    states_above_threshold_percent: float
    error_bytes_per_bank: int
    """Two printed figures are subtracted, so twice the rounding error of one."""
    rank: int | None


def fragmentation(profile: Profile, *, threshold_percent: float = FRAGMENTED_PERCENT) -> dict[str, Fragmentation]:
    """Per memory that was seen, the rank with the worst moment."""
    found = {}
    for memory in seen_memories(profile):
        by_rank = [_measure_process(profile, timeline, memory, threshold_percent) for timeline in profile.timelines]
        found[memory] = max(filter(None, by_rank), key=lambda result: result.worst_bytes_per_bank)
    return found


def _measure_process(
    profile: Profile, timeline: Timeline, memory: str, threshold_percent: float
) -> Fragmentation | None:
    """None when no state shows the memory."""
    allocated = state_column(profile, timeline, memory, VIEW_ALLOCATED)
    if not len(allocated.value):
        return None
    error_bytes = 2 * profile.source.state_error_bytes
    # Views repeat a lot: what depends on the view alone is worked out per view.
    free_of_view = profile.views[:, VIEW_FREE]
    scattered_of_view = (free_of_view - profile.views[:, VIEW_LARGEST_FREE]).clip(min=0)
    # A difference within the rounding error is no evidence of a second free block.
    above_of_view = (scattered_of_view > error_bytes) & (100.0 * scattered_of_view > threshold_percent * free_of_view)
    view = timeline.state_view[allocated.state, MEMORIES.index(memory)]
    scattered = scattered_of_view[view]
    worst = int(scattered.argmax())
    state = int(allocated.state[worst])
    operation = int(timeline.state_operation[state])
    name = operation_place(profile, timeline, operation)[0] or STATE_NAMES[int(timeline.state_kind[state])]
    free_at_worst = int(free_of_view[view[worst]])
    return Fragmentation(
        worst_bytes_per_bank=int(scattered[worst]),
        worst_percent=round(100.0 * int(scattered[worst]) / free_at_worst, 4) if free_at_worst else 0.0,
        worst_at=OperationRef(known(operation), name),
        at_peak_bytes_per_bank=int(scattered[int(allocated.value.argmax())]),
        threshold_percent=threshold_percent,
        states_above_threshold_percent=round(100.0 * int(above_of_view[view].sum()) / len(scattered), 4),
        error_bytes_per_bank=error_bytes,
        rank=known(timeline.rank),
    )
