# SPDX-License-Identifier: Apache-2.0
"""Lifetimes of tensors: from a capture, or inferred from a log's operations (``liveness``)."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ttmem.analysis.inferred_frees import free_dead_tensors
from ttmem.analysis.liveness import CAPTURE_TRACE, LOAD_CACHED, Liveness, TrackedTensor
from ttmem.analysis.peaks import operation_place
from ttmem.analysis.states import known
from ttmem.analysis.weights import WEIGHT_KINDS
from ttmem.profile.model import MEMORIES, BufferTable, Profile, Timeline
from ttmem.profile.runs import find_timeline_runs, select
from ttmem.profile.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class TensorLife:
    """A tensor on the device, from its producer to the operation that freed it."""

    name: str
    """A weight's own name, else the SSA name inside its program."""
    type: TensorType
    producer_index: int | None
    """None: it was there before the run, uploaded outside any program."""
    producer_name: str
    location: str
    program: str
    first_index: int
    last_index: int
    """The last operation before which it was still allocated."""
    last_use_index: int | None
    weight: bool
    bytes_per_bank: int
    address: int | None = None
    """Address in every bank; known in captures."""


def lifetimes(profile: Profile, timeline: Timeline, run: int | None, *, at: int | None = None) -> list[TensorLife]:
    """The tensors of one run (None: of everything), with the const-eval results that earlier runs left behind.

    ``at`` keeps only those allocated in the state before that operation. A capture holds the buffers themselves, and
    then nothing is worked out.
    """
    if timeline.buffers is not None:
        lives = _build_buffer_lives(profile, timeline, range(len(timeline.buffers)))
        return lives if at is None else [life for life in lives if life.first_index < at <= life.last_index]
    liveness = Liveness(profile, timeline)
    first, end = timeline.first_index, timeline.end_index
    if run is not None and timeline.programs:
        for kept_first, kept_end in _find_kept_tensors(profile, timeline, run):
            liveness.run(kept_first, kept_end)
        top = next(program for program in timeline.programs if program.run == run and program.parent < 0)
        liveness.leave_runs(top.first_operation)
        first, end = top.first_operation, top.end_operation
    liveness.run(first, end, at=at)
    free_dead_tensors(profile, timeline, liveness.tensors, end if at is None else at)
    return [
        _build_tracked_life(profile, timeline, tensor, end - 1)
        for tensor in liveness.tensors
        if at is None or _is_alive(tensor, at, end - 1)
    ]


def all_lifetimes(profile: Profile, timeline: Timeline) -> list[TensorLife]:
    """Return the tensors of a process over all its runs, in order of creation.

    Runs are asked one by one, each narrowed to its own part: what a run leaves is not there in the next, and asking
    about the whole once per run would take the square of its length. Weights stay, so each is listed once.
    """
    runs = find_timeline_runs(timeline) if timeline.programs else []
    if timeline.buffers is not None or len(runs) < 2:
        return lifetimes(profile, timeline, None)
    alone = replace(profile, timelines=(timeline,))
    weights: set[tuple[str, TensorType]] = set()
    found: list[TensorLife] = []
    for run in runs:
        narrowed = select(alone, run=run.number)
        for life in lifetimes(narrowed, narrowed.timelines[0], None):
            if life.weight:
                if (life.name, life.type) in weights:
                    continue
                weights.add((life.name, life.type))
                life = replace(life, last_index=timeline.end_index - 1)
            found.append(life)
    return found


def buffers_in_state(profile: Profile, timeline: Timeline, memory: str, state: int) -> list[TensorLife]:
    """The buffers of one memory in one memory state of a capture; their bytes per bank sum to what the state says."""
    buffers = timeline.buffers
    assert buffers is not None
    here = (buffers.first_state <= state) & (state <= buffers.last_state)
    rows = np.flatnonzero(here & (buffers.memory == MEMORIES.index(memory)))
    return _build_buffer_lives(profile, timeline, rows.tolist())


def _is_alive(tensor: TrackedTensor, at: int, end: int) -> bool:
    """Results of an operation are in the states after it; earlier tensors are in the first state of the run too.

    What no operation freed is still there in the state after the run: outputs stay until the caller drops them.
    """
    if tensor.first > at or (tensor.producer >= 0 and tensor.first == at):
        return False
    return tensor.last >= at if tensor.last >= 0 else tensor.stays or end + 1 >= at


def _find_kept_tensors(profile: Profile, timeline: Timeline, run: int) -> Iterator[tuple[int, int]]:
    """The operations to follow before a run: a finished one leaves behind const-eval results and trace slots."""
    names = profile.forms.names
    kept = {number for number, name in enumerate(names) if name in (*LOAD_CACHED, CAPTURE_TRACE)}
    done = 0
    for program in timeline.programs:
        position = program.caller - timeline.first_index
        is_earlier = program.run < run and 0 <= position < len(timeline)
        if is_earlier and int(profile.forms.name[timeline.form[position]]) in kept:
            yield max(program.caller, done), program.end_operation  # one operation may run several programs
            done = max(done, program.end_operation)


def _build_tracked_life(profile: Profile, timeline: Timeline, tensor: TrackedTensor, end: int) -> TensorLife:
    return TensorLife(
        tensor.name,
        tensor.type,
        known(tensor.producer),
        *operation_place(profile, timeline, tensor.producer),
        program=timeline.programs[tensor.program].name if tensor.program >= 0 else "",
        first_index=tensor.first,
        last_index=tensor.last if tensor.last >= 0 else (timeline.end_index - 1 if tensor.stays else end),
        last_use_index=known(tensor.last_use),
        weight=tensor.weight,
        bytes_per_bank=tensor.bytes_per_bank,
    )


def _build_buffer_lives(profile: Profile, timeline: Timeline, rows: Iterable[int]) -> list[TensorLife]:
    assert timeline.buffers is not None
    weights = {argument.name for argument in profile.arguments if argument.kind in WEIGHT_KINDS}
    return [_build_buffer_life(profile, timeline, timeline.buffers, row, weights) for row in rows]


def _build_buffer_life(
    profile: Profile, timeline: Timeline, buffers: BufferTable, row: int, weights: Collection[str]
) -> TensorLife:
    name = buffers.names[int(buffers.name[row])]
    producer, type_number = int(buffers.producer[row]), int(buffers.tensor_type[row])
    type_ = profile.tensor_types[type_number] if type_number >= 0 else _describe_untyped(buffers, row)
    if type_.memory != (memory := MEMORIES[int(buffers.memory[row])]):
        type_ = replace(type_, memory=memory)  # the buffer's memory counts, not the tensor's declared one
    return TensorLife(
        name,
        type_,
        known(producer),
        *operation_place(profile, timeline, producer),
        program="",
        first_index=producer if producer >= 0 else _operation_at(timeline, int(buffers.first_state[row])),
        last_index=_operation_at(timeline, int(buffers.last_state[row])),
        last_use_index=known(int(buffers.last_use[row])),
        weight=name in weights,
        bytes_per_bank=int(buffers.bytes_per_bank[row]),
        address=int(buffers.address[row]) or None,  # a capture without dispatch allocates nothing
    )


def _describe_untyped(buffers: BufferTable, row: int) -> TensorType:
    """A buffer that no tensor of the user's owns (a temporary, a program's own table): bytes are all that is known."""
    total = int(buffers.total_bytes[row])
    placed = {"layout": "", "memory": MEMORIES[int(buffers.memory[row])], "placement": ""}
    return TensorType((total,), "bytes", **placed, logical_bytes=total, padded_bytes=total, page_bytes=0, shard_bytes=0)


def _operation_at(timeline: Timeline, state: int) -> int:
    """The operation a state belongs to; a closing snapshot comes after the last one."""
    operation = int(timeline.state_operation[state])
    return operation if operation >= 0 else int(timeline.state_operation[: state + 1].max(initial=timeline.first_index))
