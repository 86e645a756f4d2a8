# SPDX-License-Identifier: Apache-2.0
"""The tensors alive at the peak of a memory, and the bytes that no tensor of the source accounts for."""

from dataclasses import dataclass

from ttmem.analysis.lifetimes import TensorLife, buffers_in_state, lifetimes
from ttmem.analysis.peaks import Peak, peaks
from ttmem.profile.model import Profile
from ttmem.profile.runs import find_run


@dataclass(frozen=True, slots=True)
class LiveSet:
    """The parts of a peak; tensors and the unattributed rest sum to the total."""

    memory: str
    total_bytes_per_bank: int
    tensors: tuple[TensorLife, ...]
    """Largest first."""
    unattributed_bytes_per_bank: int
    """Uploads, outputs of earlier runs, temporaries and what the source does not name. May be a little below zero:
    the total is a printed figure, see ``Peak.error_bytes``."""
    peak: Peak


def alive_at_peak(profile: Profile, memory: str = "DRAM") -> LiveSet | None:
    """The live set of the fullest moment of a memory; None when no state shows that memory."""
    peak = peaks(profile).get(memory)
    if peak is None:
        return None
    timeline = profile.timelines[peak.timeline]
    if timeline.buffers is not None:
        alive = buffers_in_state(profile, timeline, memory, peak.state)
    else:
        # The state was printed before this operation: it holds what earlier operations made and later ones free.
        moment = peak.at_index
        if moment is None:
            named = (timeline.state_cause[: peak.state + 1], timeline.state_operation[: peak.state + 1])
            moment = max(int(column.max(initial=timeline.first_index - 1)) for column in named) + 1
        lives = lifetimes(profile, timeline, find_run(timeline, moment, peak.state), at=moment)
        alive = [life for life in lives if life.type.memory == memory]
    alive.sort(key=lambda life: (-life.bytes_per_bank, life.first_index, life.name))
    attributed = sum(life.bytes_per_bank for life in alive)
    return LiveSet(memory, peak.peak_bytes_per_bank, tuple(alive), peak.peak_bytes_per_bank - attributed, peak)
