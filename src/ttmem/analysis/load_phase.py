# SPDX-License-Identifier: Apache-2.0
"""Loading of the weights: uploads before the first operation, then const-eval inside the first run."""

from dataclasses import dataclass

import numpy as np

from ttmem.analysis.states import change_per_operation, known, state_column
from ttmem.profile.model import Profile, Timeline

_UPLOAD = "to_device"
_CACHED = "load_cached"


@dataclass(frozen=True, slots=True)
class LoadPhase:
    """Bytes of a process in a memory before it computed, and bytes that loading added inside its runs."""

    memory: str
    before_first_bytes_per_bank: int
    """Resident before the first operation: uploads happen outside programs and print no line of their own."""
    const_eval_programs: int
    const_eval_operations: int
    const_eval_bytes_per_bank: int
    """Net change over all operations of const-eval programs and the look-ups that started them."""
    upload_operations: int
    upload_bytes_per_bank: int
    """Net change over ``to_device`` operations outside const-eval."""
    loaded_at_index: int | None
    """First operation after the last const-eval program of the first run; None when it ran none."""
    loaded_bytes_per_bank: int | None
    """State before that operation."""
    rank: int | None


def load_phase(profile: Profile, memory: str = "DRAM") -> LoadPhase | None:
    """The rank that held most when its weights were in; None when the memory was never seen."""
    by_rank = [_measure_process(profile, timeline, memory) for timeline in profile.timelines]
    return max(filter(None, by_rank), key=lambda result: result.loaded_bytes_per_bank or 0, default=None)


def _measure_process(profile: Profile, timeline: Timeline, memory: str) -> LoadPhase | None:
    states = state_column(profile, timeline, memory)
    if not len(states.value):
        return None
    const_eval = const_eval_programs(profile, timeline)
    # One trailing False means "outside any program" (-1 indexes it).
    in_const_eval = np.array([*const_eval, False])[timeline.program]
    name_is_upload, name_is_cached = (
        np.array([name.rpartition(".")[2] == wanted for name in profile.forms.names], dtype=bool)
        for wanted in (_UPLOAD, _CACHED)
    )
    names = profile.forms.name[timeline.form]
    upload = name_is_upload[names] & ~in_const_eval
    change = change_per_operation(profile, timeline, memory)
    in_first_run = (
        one.end_operation
        for one, folds in zip(timeline.programs, const_eval, strict=True)
        if folds and one.run == timeline.programs[0].run
    )
    loaded_at = max(in_first_run, default=None)
    loaded = None
    if loaded_at is not None:  # the state before this operation, or the next one that was printed
        later = np.flatnonzero(timeline.state_operation[states.state] >= loaded_at)
        loaded = int(states.value[later[0] if len(later) else -1])
    return LoadPhase(
        memory=memory,
        before_first_bytes_per_bank=int(states.value[0]),
        const_eval_programs=sum(const_eval),
        const_eval_operations=int(in_const_eval.sum()),
        const_eval_bytes_per_bank=int(change[in_const_eval | name_is_cached[names]].sum()),
        upload_operations=int(upload.sum()),
        upload_bytes_per_bank=int(change[upload].sum()),
        loaded_at_index=loaded_at,
        loaded_bytes_per_bank=loaded,
        rank=known(timeline.rank),
    )


def const_eval_programs(profile: Profile, timeline: Timeline) -> list[bool]:
    """Per program of a timeline: does it (or one around it) fold constants for a load_cached?"""
    flags: list[bool] = []
    for program in timeline.programs:
        called_by = program.caller - timeline.first_index
        cached = (
            0 <= called_by < len(timeline.form)
            and profile.forms.name_of(int(timeline.form[called_by])).rpartition(".")[2] == _CACHED
        )
        inherited = program.parent >= 0 and flags[program.parent]
        flags.append(cached or inherited or "_const_eval_" in program.name)
    return flags
