# SPDX-License-Identifier: Apache-2.0
"""Why the run failed and what to change: the failure, explained with what the profile knows to have been alive."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ttmem.analysis.architecture import architecture_of
from ttmem.analysis.failure import RunFailure
from ttmem.analysis.lifetimes import TensorLife, buffers_in_state, lifetimes
from ttmem.analysis.states import operation_line
from ttmem.failures import Context, Diagnosis, KnownTensor, LiveTensor, diagnose
from ttmem.hardware import BOARDS
from ttmem.profile.model import MEMORIES, Profile, Timeline
from ttmem.profile.runs import run_at


def diagnose_failure(
    profile: Profile, failure: RunFailure, *, board: str | None = None, context: Context | None = None
) -> Diagnosis:
    """Explain a failure of this profile; ``board`` names where it ran, ``context`` what the text around it names."""
    timeline = next(known for known in profile.timelines if known.rank == failure.rank)
    hints = {"architecture": architecture_of(profile).name} if "system" in profile.facts else {}
    if "ttnn" in profile.facts:
        hints["release"] = str(profile.facts["ttnn"])
    if board is None and profile.facts.get("board") in BOARDS:
        board = str(profile.facts["board"])
    if failure.operation_index is None:
        hints["place"] = "outside any program"
    told = context or Context()
    # The profile knows which operation was running; a text may only mention one.
    operation = failure.operation_name or told.operation
    return diagnose(
        failure,
        board=board,
        context=replace(told, operation=operation, hints={**told.hints, **hints}),
        live=list(_live(profile, timeline, failure)),
        tensors=list(_candidates(profile, timeline, failure)),
    )


def _candidates(profile: Profile, timeline: Timeline, failure: RunFailure) -> Iterator[KnownTensor]:
    """The tensors that the failing operation was to make or read: one of them is often the one that did not fit."""
    if failure.operation_index is None:
        return
    form = profile.forms[int(timeline.form[failure.operation_index - timeline.first_index])]
    for number in dict.fromkeys((*form.result_types, *form.operand_types)):
        if number >= 0:
            type_ = profile.tensor_types[number]
            yield KnownTensor(type_.shape, type_.dtype, type_.layout)


def _live(profile: Profile, timeline: Timeline, failure: RunFailure) -> Iterator[LiveTensor]:
    operation = failure.operation_index
    if operation is None and not failure.survived:
        operation = timeline.end_index  # outside any program, after everything: what was left
    if failure.memory not in MEMORIES or operation is None:
        return
    for life in _alive(profile, timeline, operation, failure.memory):
        type_ = life.type
        is_typed = bool(type_.layout)  # not a buffer that no tensor of the user's owns
        yield LiveTensor(
            name=life.name,
            memory=failure.memory,
            bytes_per_bank=life.bytes_per_bank,
            shape=type_.shape if is_typed else (),
            dtype=type_.dtype if is_typed else "",
            layout="" if type_.shard_bytes else type_.layout,
            is_weight=life.weight,
            is_input=life.last_use_index == failure.operation_index,
            is_output=life.producer_index is not None and life.producer_index == failure.operation_index,
            is_idle=timeline.buffers is None and _is_idle(life, failure),
            producer=life.producer_name,
            producer_index=life.producer_index,
            location=life.location,
            line=operation_line(timeline, life.producer_index) or None,
            address=life.address,
        )


def _alive(profile: Profile, timeline: Timeline, operation: int, memory: str) -> list[TensorLife]:
    """What the failing operation found: a capture knows every buffer of the last state up to it."""
    if timeline.buffers is not None:
        operations = timeline.state_operation
        before = np.flatnonzero((operations >= 0) & (operations <= operation))
        return buffers_in_state(profile, timeline, memory, int(before[-1])) if len(before) else []
    lives = lifetimes(profile, timeline, run_at(timeline, operation), at=operation)
    return [life for life in lives if life.type.memory == memory]


def _is_idle(life: TensorLife, failure: RunFailure) -> bool:
    """Whether nothing reads it any more. A run that ended here cannot show what would have come."""
    if not failure.survived or life.weight or failure.operation_index is None:
        return False
    return life.last_use_index is not None and life.last_use_index < failure.operation_index
