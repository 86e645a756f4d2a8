# SPDX-License-Identifier: Apache-2.0
"""Which tensors lived when."""

from __future__ import annotations

from collections.abc import Iterator

from ttmem.analysis.buffers import buffer_lives
from ttmem.analysis.peaks import operation_location, operation_name
from ttmem.analysis.replay import CAPTURE_TRACE, LOAD_CACHED, Held, Replay
from ttmem.analysis.tensor_life import TensorLife
from ttmem.profile import Profile, Timeline

__all__ = ["TensorLife", "lifetimes"]


def lifetimes(profile: Profile, timeline: Timeline, run: int | None, *, at: int | None = None) -> list[TensorLife]:
    """The tensors of one run (None: of everything), with the const-eval results that earlier runs left behind.

    ``at`` keeps only those allocated in the state before that operation. A capture holds the buffers themselves, and
    then nothing is replayed.
    """
    if timeline.buffers is not None:
        lives = buffer_lives(profile, timeline, timeline.buffers)
        return lives if at is None else [life for life in lives if life.first_index < at <= life.last_index]
    replay = Replay(profile, timeline)
    first, end = timeline.first_index, timeline.end_index
    if run is not None and timeline.programs:
        for kept_first, kept_end in _kept_of_earlier_runs(profile, timeline, run):
            replay.run(kept_first, kept_end)
        top = next(program for program in timeline.programs if program.run == run and program.parent < 0)
        replay.leave_runs(top.first_operation)
        first, end = top.first_operation, top.end_operation
    replay.run(first, end, at=at)
    return [_finish(replay, held, end - 1) for held in replay.held if at is None or _is_alive(held, at, end - 1)]


def _is_alive(held: Held, at: int, end: int) -> bool:
    """What an operation makes is in the states after it; what was there before the run is in its first state too.

    What no operation freed is still there in the state after the run: outputs stay until the caller drops them.
    """
    if held.first > at or (held.producer >= 0 and held.first == at):
        return False
    return held.last >= at if held.last >= 0 else held.stays or end + 1 >= at


def _kept_of_earlier_runs(profile: Profile, timeline: Timeline, run: int) -> Iterator[tuple[int, int]]:
    """The operations to replay before a run: a finished one leaves behind const-eval results and trace slots."""
    names = profile.forms.names
    kept = {number for number, name in enumerate(names) if name in (*LOAD_CACHED, CAPTURE_TRACE)}
    done = 0
    for program in timeline.programs:
        position = program.caller - timeline.first_index
        is_earlier = program.run < run and 0 <= position < len(timeline)
        if is_earlier and int(profile.forms.name[timeline.form[position]]) in kept:
            yield max(program.caller, done), program.end_operation  # one operation may run several programs
            done = max(done, program.end_operation)


def _finish(replay: Replay, held: Held, end: int) -> TensorLife:
    profile, timeline = replay.profile, replay.timeline
    return TensorLife(
        name=held.name,
        type=held.type,
        producer_index=held.producer if held.producer >= 0 else None,
        producer_name=operation_name(profile, timeline, held.producer),
        location=operation_location(profile, timeline, held.producer),
        program=timeline.programs[held.program].name if held.program >= 0 else "",
        first_index=held.first,
        last_index=held.last if held.last >= 0 else (timeline.end_index - 1 if held.stays else end),
        last_use_index=held.last_use if held.last_use >= 0 else None,
        weight=held.weight,
        bytes_per_bank=held.bytes_per_bank,
    )
