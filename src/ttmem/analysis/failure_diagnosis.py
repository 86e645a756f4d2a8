# SPDX-License-Identifier: Apache-2.0
"""Why the run failed and what to change: the failure, explained with what the profile knows to have been alive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ttmem.analysis.failure import RunFailure
from ttmem.analysis.lifetimes import TensorLife, lifetimes
from ttmem.analysis.machine import architecture_of
from ttmem.explain import Context, Diagnosis, KnownTensor, LiveTensor, diagnose
from ttmem.hardware import BOARDS
from ttmem.profile import MEMORIES, BufferTable, Profile, Timeline


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
    return diagnose(
        failure.as_failure,
        board=board,
        context=_merged(context or Context(), failure.operation_name, hints),
        live=list(_live(profile, timeline, failure)),
        tensors=list(_candidates(profile, timeline, failure)),
    )


def _merged(context: Context, operation: str, hints: dict[str, str]) -> Context:
    """The profile knows which operation was running; a text may only mention one."""
    return replace(context, operation=operation or context.operation, hints={**context.hints, **hints})


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
    if failure.memory not in MEMORIES or failure.operation_index is None:
        return
    if timeline.buffers is not None:
        yield from _buffers(profile, timeline, timeline.buffers, failure)
        return
    run = _run_of(timeline, failure.operation_index)
    for life in lifetimes(profile, timeline, run, at=failure.operation_index):
        if life.type.memory == failure.memory:
            yield LiveTensor(
                name=life.name,
                memory=life.type.memory,
                bytes_per_bank=life.bytes_per_bank,
                shape=life.type.shape,
                dtype=life.type.dtype,
                layout=life.type.layout if not life.type.shard_bytes else "",
                is_weight=life.weight,
                is_idle=_is_idle(life, failure),
                producer=life.producer_name,
            )


def _is_idle(life: TensorLife, failure: RunFailure) -> bool:
    """Whether nothing reads it any more. A run that ended here cannot show what would have come."""
    if not failure.survived or life.weight or failure.operation_index is None:
        return False
    return life.last_use_index is not None and life.last_use_index < failure.operation_index


def _buffers(profile: Profile, timeline: Timeline, buffers: BufferTable, failure: RunFailure) -> Iterator[LiveTensor]:
    """A capture knows every buffer with its address: those of the last state up to the failing operation."""
    assert failure.operation_index is not None
    assert failure.memory is not None
    operations = timeline.block_operation
    before = np.flatnonzero((operations >= 0) & (operations <= failure.operation_index))
    if not len(before):
        return
    block = int(before[-1])
    here = (buffers.first_block <= block) & (block <= buffers.last_block)
    for row in np.flatnonzero(here & (buffers.memory == MEMORIES.index(failure.memory))).tolist():
        number = int(buffers.tensor_type[row])
        type_ = profile.tensor_types[number] if number >= 0 else None
        yield LiveTensor(
            name=buffers.names[int(buffers.name[row])],
            memory=failure.memory,
            bytes_per_bank=int(buffers.bytes_per_bank[row]),
            shape=type_.shape if type_ else (),
            dtype=type_.dtype if type_ else "",
            layout=type_.layout if type_ and not type_.shard_bytes else "",
            address=int(buffers.address[row]),
        )


def _run_of(timeline: Timeline, operation: int) -> int | None:
    for program in timeline.programs:
        if program.parent < 0 and program.first_operation <= operation < program.end_operation:
            return program.run
    return None
