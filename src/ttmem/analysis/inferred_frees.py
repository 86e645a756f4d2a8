# SPDX-License-Identifier: Apache-2.0
"""Infer frees that no operation shows: the process died, or the owner dropped the tensor.

Whatever is alive at a moment was in every memory state since it was last seen. Where a state shows less than all of
it, the longest unseen were freed: a run that died frees its tensors, and the next state shows empty memory.
"""

from collections import deque
from collections.abc import Iterable

import numpy as np

from ttmem.analysis.liveness import TrackedTensor
from ttmem.analysis.states import state_column
from ttmem.profile.model import MEMORIES, Profile, Timeline

_SURELY_MORE = 8
"""A state has to lack an eighth of what should be there: layouts may overstate a little what a tensor takes."""


def free_dead_tensors(profile: Profile, timeline: Timeline, tensors: Iterable[TrackedTensor], end: int) -> None:
    """Give an end to every tensor that the states up to the one before operation ``end`` have no room for."""
    operations = np.maximum(timeline.state_operation, timeline.state_cause + 1)
    moments = np.maximum.accumulate(operations) if len(operations) else operations
    unfreed = [held for held in tensors if held.last < 0]
    for memory in MEMORIES:
        states = state_column(profile, timeline, memory)
        moment = moments[states.state]
        allocated = states.value[: int(np.searchsorted(moment, end, "right"))]
        there = sorted((held for held in unfreed if held.type.memory == memory), key=_last_seen)
        if not there or not len(allocated):
            continue
        least = np.minimum.accumulate(allocated[::-1])[::-1]  # from a state on
        next_state = np.searchsorted(moment, [_last_seen(held) for held in there], "right")
        waiting: deque[TrackedTensor] = deque()
        together = 0
        for held, state in zip(there, next_state.tolist(), strict=True):
            room = int(least[state]) + 2 * profile.source.state_error_bytes if state < len(least) else None
            if room is not None and _is_surely_more(held.bytes_per_bank, room):
                _mark_freed(held)
                continue
            waiting.append(held)
            together += held.bytes_per_bank
            if room is not None and _is_surely_more(together, room):
                while together > room:
                    together -= _mark_freed(waiting.popleft())


def _last_seen(held: TrackedTensor) -> int:
    """The last operation of which is known that it was there; for an argument the run's first state may come early."""
    return max(held.producer, held.last_use, held.first)


def _is_surely_more(wanted: int, room: int) -> bool:
    return wanted - wanted // _SURELY_MORE > room


def _mark_freed(held: TrackedTensor) -> int:
    held.last = _last_seen(held)
    return held.bytes_per_bank
