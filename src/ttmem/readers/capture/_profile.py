# SPDX-License-Identifier: Apache-2.0
"""Replayed captures as a Profile: columns, buffer table, what programs needed in L1."""

from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from ttmem.profile.model import MEMORIES, FailureText, Timeline
from ttmem.profile.tables import BufferEntry, ProfileTables, States, buffer_table, captured_timeline, programs_l1
from ttmem.readers.capture._buffer_replay import BufferLife, BufferReplay
from ttmem.readers.capture._events import Allocated, CapturedBuffer, CapturedOperation, Freed, Used


def timeline_of(
    operations: Sequence[CapturedOperation], replay: BufferReplay, tables: ProfileTables, *, rank: int = -1
) -> Timeline:
    """One process of a capture."""
    executed = [operation for operation in operations if not operation.is_outside]
    shown = _shown_memories(replay)
    states = States()
    for state in replay.states:
        views = {memory: view for memory, view in state.views.items() if memory in shown}
        states.add(state.kind, state.operation, state.cause, tables.view_numbers(views))
    needs = [
        (need.tensors, *need.parts, operation.programs_known)
        for need, operation in zip(replay.needs, executed, strict=True)
    ]
    return captured_timeline(
        [_form(operation, tables) for operation in executed],
        states,
        rank=rank,
        failures=tuple(_failures(operations)),
        needs=programs_l1(needs),
        buffers=buffer_table(_buffers(executed, replay, tables)),
    )


def _form(operation: CapturedOperation, tables: ProfileTables) -> int:
    """The distinct form of an operation: its name, the tensors it read and made, and where it was called."""
    operands, results = _read_by(operation), _made_by(operation)
    return tables.form_number(
        operation.name,
        location=operation.location,
        operand_types=[tables.type_number(buffer.tensor) for buffer in operands.values()],
        result_types=[tables.type_number(buffer.tensor) for buffer in results.values()],
        values=f"{' '.join(map(_value, results))}={' '.join(map(_value, operands))}",
    )


def _failures(operations: Sequence[CapturedOperation]) -> Iterator[FailureText]:
    started = 0
    for operation in operations:
        started += not operation.is_outside
        if operation.failure:
            text = operation.failure.partition("\nbacktrace:")[0]  # frames of the library, with paths of the machine
            running = -1 if operation.is_outside else started - 1
            yield FailureText(" ".join(text.split()), 0, running, started, is_exception=True)


def _read_by(operation: CapturedOperation) -> dict[str, CapturedBuffer]:
    """The tensors that an operation took, by name; what it made itself in between is none of them."""
    kinds = (Used, Freed) if operation.name.endswith("deallocate") else (Used,)
    made = {event.buffer.key for event in operation.events if isinstance(event, Allocated)}
    return {
        event.buffer.tensor_name: event.buffer
        for event in operation.events
        if isinstance(event, kinds) and event.buffer.tensor is not None and event.buffer.key not in made
    }


def _made_by(operation: CapturedOperation) -> dict[str, CapturedBuffer]:
    """The tensors that an operation left behind."""
    made: dict[Hashable, CapturedBuffer] = {}
    for event in operation.events:
        if isinstance(event, Allocated) and event.buffer.tensor is not None:
            made[event.buffer.key] = event.buffer
        elif isinstance(event, Freed):
            made.pop(event.buffer.key, None)
    return {buffer.tensor_name: buffer for buffer in made.values()}


def _shown_memories(replay: BufferReplay) -> set[int]:
    """A memory that was not configured and never used is left out; DRAM and L1 always are there."""
    used = {life.memory for life in replay.lives}
    configured = {MEMORIES.index(name) for name, span in replay.device.spans.items() if span.bytes_per_bank}
    return {0, 1} | used | configured


def _buffers(executed: Sequence[CapturedOperation], replay: BufferReplay, tables: ProfileTables) -> list[BufferEntry]:
    banks = [replay.device.spans[memory].banks for memory in MEMORIES]
    return [
        BufferEntry(
            life.buffer.address,
            life.memory,
            life.taken_bytes_per_bank,
            # A snapshot says what a bank holds and not what was asked for: then all banks together.
            life.buffer.total_bytes or life.taken_bytes_per_bank * banks[life.memory],
            first,
            last,
            life.producer,
            life.last_use,
            tables.type_number(life.buffer.tensor),
            _name(life, executed),
        )
        for life, first, last in zip(replay.lives, *_state_ranges(replay), strict=True)
        if first <= last
    ]


def _state_ranges(replay: BufferReplay) -> tuple[list[int], list[int]]:
    """Per buffer: the first and the last state whose moment lies in its life; first > last when it shows in none."""
    first, last = [0] * len(replay.lives), [-1] * len(replay.lives)
    for memory in range(len(MEMORIES)):
        numbers = [number for number, state in enumerate(replay.states) if memory in state.moments]
        moments = np.array([replay.states[number].moments[memory] for number in numbers], np.int64)
        mine = [row for row, life in enumerate(replay.lives) if life.memory == memory]
        starts = np.searchsorted(moments, [replay.lives[row].allocated_at for row in mine], side="left").tolist()
        ends = np.searchsorted(moments, [replay.lives[row].freed_at for row in mine], side="left").tolist()
        for row, start, end in zip(mine, starts, ends, strict=True):
            if start < end:
                first[row], last[row] = numbers[start], numbers[end - 1]
            else:
                first[row], last[row] = 1, 0
    return first, last


def _name(life: BufferLife, executed: Sequence[CapturedOperation]) -> str:
    """The tensor that owns it, else what is known of it."""
    if life.buffer.tensor_name:
        return life.buffer.tensor_name
    return f"buffer of {executed[life.producer].name}" if life.producer >= 0 else "buffer made outside operations"


def _value(tensor_name: str) -> str:
    """A tensor as a value name: names may hold blanks, value names may not."""
    return f"%{tensor_name.replace(' ', '_')}" if tensor_name else "%?"
