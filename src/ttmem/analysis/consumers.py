# SPDX-License-Identifier: Apache-2.0
"""What filled a memory at its peak: the tensors alive then, and what no tensor of the source accounts for."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.analysis.buffers import buffers_alive_in
from ttmem.analysis.lifetimes import TensorLife, lifetimes
from ttmem.analysis.peaks import Peak, peaks
from ttmem.profile import Profile, Timeline


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
        alive = buffers_alive_in(profile, timeline, timeline.buffers, memory=memory, block=peak.block)
    else:
        alive = _replayed(profile, timeline, peak)
    alive.sort(key=lambda life: (-life.bytes_per_bank, life.first_index, life.name))
    attributed = sum(life.bytes_per_bank for life in alive)
    return LiveSet(memory, peak.peak_bytes_per_bank, tuple(alive), peak.peak_bytes_per_bank - attributed, peak)


def _replayed(profile: Profile, timeline: Timeline, peak: Peak) -> list[TensorLife]:
    # The state was printed before this operation: it holds what earlier operations made and later ones free.
    moment = _moment(timeline, peak)
    run = _run_at(timeline, peak.block, moment)
    return [life for life in lifetimes(profile, timeline, run, at=moment) if life.type.memory == peak.memory]


def _moment(timeline: Timeline, peak: Peak) -> int:
    if peak.at_index is not None:
        return peak.at_index
    done = timeline.block_cause[: peak.block + 1].max(initial=timeline.first_index - 1)
    return int(max(done, timeline.block_operation[: peak.block + 1].max(initial=timeline.first_index - 1))) + 1


def _run_at(timeline: Timeline, block: int, moment: int) -> int | None:
    """The run whose tensors a state can show; between two runs only what both leave behind is left."""
    tops = [program for program in timeline.programs if program.parent < 0]
    for program in tops:
        if (
            program.first_operation <= moment < program.end_operation
            or program.first_block <= block < program.end_block
        ):
            return program.run
    return tops[-1].run if tops else None
