# SPDX-License-Identifier: Apache-2.0
"""Which buffers lived when, for profiles that hold the buffers themselves: nothing is replayed or inferred."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ttmem.analysis.peaks import operation_location, operation_name
from ttmem.analysis.tensor_life import TensorLife
from ttmem.profile import MEMORIES, BufferTable, Profile, TensorType, Timeline


def buffer_lives(profile: Profile, timeline: Timeline, buffers: BufferTable) -> list[TensorLife]:
    """All buffers of a process, in the order in which they were allocated."""
    return _lives(profile, timeline, buffers, range(len(buffers)))


def buffers_alive_in(
    profile: Profile, timeline: Timeline, buffers: BufferTable, *, memory: str, block: int
) -> list[TensorLife]:
    """The buffers of one memory in one memory state; their bytes per bank sum to what the state says."""
    here = (buffers.first_block <= block) & (block <= buffers.last_block)
    rows = np.flatnonzero(here & (buffers.memory == MEMORIES.index(memory)))
    return _lives(profile, timeline, buffers, rows.tolist())


def _lives(profile: Profile, timeline: Timeline, buffers: BufferTable, rows: Iterable[int]) -> list[TensorLife]:
    return [_life(profile, timeline, buffers, row) for row in rows]


def _life(profile: Profile, timeline: Timeline, buffers: BufferTable, row: int) -> TensorLife:
    producer, last_use, type_number = (
        int(column[row]) for column in (buffers.producer, buffers.last_use, buffers.tensor_type)
    )
    type_ = profile.tensor_types[type_number] if type_number >= 0 else _untyped(buffers, row)
    return TensorLife(
        name=buffers.names[int(buffers.name[row])],
        type=type_,
        producer_index=producer if producer >= 0 else None,
        producer_name=operation_name(profile, timeline, producer),
        location=operation_location(profile, timeline, producer),
        program="",
        first_index=producer if producer >= 0 else _operation_at(timeline, int(buffers.first_block[row])),
        last_index=_operation_at(timeline, int(buffers.last_block[row])),
        last_use_index=last_use if last_use >= 0 else None,
        weight=False,
        bytes_per_bank=int(buffers.bytes_per_bank[row]),
    )


def _untyped(buffers: BufferTable, row: int) -> TensorType:
    """A buffer that no tensor of the user's owns (a temporary, a program's own table): bytes are all that is known."""
    total = int(buffers.total_bytes[row])
    memory = MEMORIES[int(buffers.memory[row])]
    return TensorType(
        shape=(total,),
        dtype="bytes",
        layout="",
        memory=memory,
        placement="",
        logical_bytes=total,
        padded_bytes=total,
        page_bytes=0,
        shard_bytes=0,
    )


def _operation_at(timeline: Timeline, block: int) -> int:
    """The operation a state belongs to; a closing snapshot stands after the last one."""
    operation = int(timeline.block_operation[block])
    if operation >= 0:
        return operation
    earlier = timeline.block_operation[: block + 1]
    return int(earlier.max(initial=timeline.first_index))
