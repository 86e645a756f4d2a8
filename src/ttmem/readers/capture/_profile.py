# SPDX-License-Identifier: Apache-2.0
"""Replayed captures as a Profile: columns, buffer table, what programs needed in L1."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from ttmem.profile import (
    MEMORIES,
    BufferTable,
    FailureText,
    OperationForms,
    Profile,
    ProgramsL1,
    Source,
    TensorType,
    Timeline,
)
from ttmem.profile.operation_forms import Int32, Int64
from ttmem.readers.capture._events import Allocated, CapturedBuffer, CapturedOperation, Freed, Used
from ttmem.readers.capture._replay import BufferLife, Replay


class CapturedTables:
    """What all processes of a capture share: distinct operations, tensor types and memory views."""

    def __init__(self) -> None:
        self.types: dict[TensorType, int] = {}
        self.views: dict[tuple[int, ...], int] = {}
        self._names: dict[str, int] = {}
        self._signatures: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        self._notes: dict[tuple[str, bool], int] = {("", False): 0}
        self._forms: dict[tuple[int, int, str, str, int], int] = {}

    def type_number(self, type_: TensorType | None) -> int:
        return -1 if type_ is None else self.types.setdefault(type_, len(self.types))

    def form(self, operation: CapturedOperation) -> int:
        """The distinct form of an operation: its name, the tensors it read and made, and where it was called."""
        operands = _read_by(operation)
        results = _made_by(operation)
        signature = (
            tuple(self.type_number(buffer.tensor) for buffer in operands.values()),
            tuple(self.type_number(buffer.tensor) for buffer in results.values()),
        )
        values = f"{' '.join(map(_value, results))}={' '.join(map(_value, operands))}"
        return self.add_form(operation.name, signature, values, operation.location)

    def add_form(
        self,
        name: str,
        signature: tuple[tuple[int, ...], tuple[int, ...]],
        values: str,
        location: str,
        note: tuple[str, bool] = ("", False),
    ) -> int:
        """The number of a form, old or new; parts as ``OperationForms`` keeps them."""
        key = (
            self._names.setdefault(name, len(self._names)),
            self._signatures.setdefault(signature, len(self._signatures)),
            values,
            location,
            self._notes.setdefault(note, len(self._notes)),
        )
        return self._forms.setdefault(key, len(self._forms))

    def columns(self) -> OperationForms:
        """The forms in their final shape."""
        values = [key[2].encode("ascii", "replace") for key in self._forms]
        locations = [key[3].encode("utf-8", "surrogateescape") for key in self._forms]
        return OperationForms(
            name=np.array([key[0] for key in self._forms], np.int32),
            names=tuple(self._names),
            signature=np.array([key[1] for key in self._forms], np.int32),
            signatures=tuple(self._signatures),
            ssa_end=np.cumsum([len(text) for text in values], dtype=np.int64),
            ssa_pool=b"".join(values),
            location_end=np.cumsum([len(text) for text in locations], dtype=np.int64),
            location_pool=b"".join(locations),
            note=np.array([key[4] for key in self._forms], np.int32),
            notes=tuple(self._notes),
        )

    def profile(self, timelines: Sequence[Timeline], *, name: str, source: Source, facts: dict[str, str]) -> Profile:
        return Profile(
            name=name,
            source=source,
            tensor_types=tuple(self.types),
            forms=self.columns(),
            views=np.array(list(self.views), np.int64).reshape(-1, 5),
            timelines=tuple(timelines),
            facts=dict(facts),
        )


def timeline_of(
    operations: Sequence[CapturedOperation], replay: Replay, tables: CapturedTables, *, rank: int = -1
) -> Timeline:
    """One process of a capture."""
    executed = [operation for operation in operations if not operation.is_outside]
    shown = _shown_memories(replay)
    blocks = replay.blocks
    return Timeline(
        rank=rank,
        first_index=0,
        form=np.array([tables.form(operation) for operation in executed], np.int32),
        line=np.zeros(len(executed), np.int64),
        program=np.full(len(executed), -1, np.int32),
        block_kind=np.array([block.kind for block in blocks], np.int8),
        block_operation=np.array([block.operation for block in blocks], np.int32),
        block_cause=np.array([block.cause for block in blocks], np.int32),
        block_view=_view_column(replay, tables, shown),
        block_line=np.zeros(len(blocks), np.int64),
        failures=tuple(_failures(operations)),
        programs_l1=_programs(executed, replay),
        buffers=_buffers(executed, replay, tables),
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


def _shown_memories(replay: Replay) -> set[int]:
    """A memory that was not configured and never used is left out; DRAM and L1 always are there."""
    used = {life.memory for life in replay.lives}
    configured = {MEMORIES.index(name) for name, span in replay.machine.spans.items() if span.bytes_per_bank}
    return {0, 1} | used | configured


def _view_column(replay: Replay, tables: CapturedTables, shown: set[int]) -> Int32:
    column = np.full((len(replay.blocks), len(MEMORIES)), -1, np.int32)
    for number, block in enumerate(replay.blocks):
        for memory, view in block.views.items():
            if memory in shown:
                column[number, memory] = tables.views.setdefault(view, len(tables.views))
    return column


def _programs(executed: Sequence[CapturedOperation], replay: Replay) -> ProgramsL1:
    parts = np.array([needs.parts for needs in replay.needs], np.int64).reshape(-1, 3)
    return ProgramsL1(
        tensors=np.array([needs.tensors for needs in replay.needs], np.int64),
        circular_buffers=parts[:, 0].copy(),
        dataflow_buffers=parts[:, 1].copy(),
        scratchpads=parts[:, 2].copy(),
        measured=np.array([operation.programs_known for operation in executed], np.int8),
    )


def _buffers(executed: Sequence[CapturedOperation], replay: Replay, tables: CapturedTables) -> BufferTable:
    first, last = _block_ranges(replay)
    rows = [number for number in range(len(replay.lives)) if first[number] <= last[number]]
    names: dict[str, int] = {}
    lives = [replay.lives[row] for row in rows]
    return BufferTable(
        address=_int64(life.buffer.address for life in lives),
        memory=np.array([life.memory for life in lives], np.int8),
        bytes_per_bank=_int64(life.taken_bytes_per_bank for life in lives),
        total_bytes=_int64(_total_bytes(life, replay) for life in lives),
        first_block=np.array([first[row] for row in rows], np.int32),
        last_block=np.array([last[row] for row in rows], np.int32),
        producer=np.array([life.producer for life in lives], np.int32),
        last_use=np.array([life.last_use for life in lives], np.int32),
        tensor_type=np.array([tables.type_number(life.buffer.tensor) for life in lives], np.int32),
        name=np.array([names.setdefault(_name(life, executed), len(names)) for life in lives], np.int32),
        names=tuple(names),
    )


def _total_bytes(life: BufferLife, replay: Replay) -> int:
    """A snapshot says what a bank holds and not what was asked for: then all banks together."""
    return life.buffer.total_bytes or life.taken_bytes_per_bank * replay.machine.spans[MEMORIES[life.memory]].banks


def _block_ranges(replay: Replay) -> tuple[list[int], list[int]]:
    """Per buffer: the first and the last state whose moment lies in its life; first > last when it shows in none."""
    first, last = [0] * len(replay.lives), [-1] * len(replay.lives)
    for memory in range(len(MEMORIES)):
        numbers = [number for number, block in enumerate(replay.blocks) if memory in block.moments]
        moments = np.array([replay.blocks[number].moments[memory] for number in numbers], np.int64)
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


def _int64(values: object) -> Int64:
    return np.fromiter(values, np.int64)  # type: ignore[call-overload, no-any-return]
