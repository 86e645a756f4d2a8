# SPDX-License-Identifier: Apache-2.0
"""What a recorder tells, one message after the other, put together as a Profile.

States are the allocator's own views, so nothing is rounded. A row of the timeline is the state before an operation, the
fullest moment inside one (where that was fuller than the states around it), or the state at the end.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ttmem.engines.captured_types import tensor_type_of
from ttmem.engines.script_source import Places, source_of
from ttmem.profile import (
    BEFORE_OPERATION,
    MEMORIES,
    SNAPSHOT,
    WITHIN_OPERATION,
    BufferTable,
    FailureText,
    Profile,
    ProgramsL1,
    Timeline,
)
from ttmem.profile.tables import ProfileTables, View

KIND = "ttnn-capture"

_NO_PROGRAMS = (-1, 0, 0, 0, 0)
_ALLOCATED = 2
"""Where a state's view has what is allocated."""


@dataclass(slots=True)
class _Operation:
    name: str
    file: str
    line: int
    operands: list[int] = field(default_factory=list)
    """Buffers it reads, by number."""
    l1: tuple[int, ...] = _NO_PROGRAMS
    ended: bool = False


@dataclass(slots=True)
class _Buffer:
    memory: int
    address: int
    bytes_per_bank: int
    total_bytes: int
    producer: int
    first_row: int
    last_row: int | None = None
    last_use: int = -1
    told: dict[str, Any] | None = None
    name: str = ""


@dataclass(slots=True)
class _Rows:
    kind: list[int] = field(default_factory=list)
    operation: list[int] = field(default_factory=list)
    cause: list[int] = field(default_factory=list)
    views: list[list[int]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.kind)


class Capture:
    """Takes messages in order; what came before a crash is a profile too."""

    def __init__(self) -> None:
        self.device: dict[str, Any] = {}
        self.hello: dict[str, Any] = {}
        self.exit_error = ""
        self.has_ended = False
        """The program came to its own end; a process that died did not say so."""
        self._tables = ProfileTables()
        self._operations: list[_Operation] = []
        self._buffers: dict[int, _Buffer] = {}
        self._finished: list[_Buffer] = []
        self._rows = _Rows()
        self._failures: list[FailureText] = []
        self._notes: dict[str, int] = {}
        self._pending: dict[str, Any] | None = None
        """The last operation's end, until the state after it is known."""

    def feed(self, message: dict[str, Any]) -> None:
        """One message of the recorder."""
        if "start" in message:
            self._start(message)
        elif "end" in message:
            self._end(message)
        elif "device" in message:
            self.device = message["device"]
        elif "closed" in message:
            self._close(message)
        elif "note" in message:
            self._note(message["note"])
        elif "exit" in message:
            self.has_ended = True
            self.exit_error = message["error"]
        elif "hello" in message:
            self.hello = message

    @property
    def operations(self) -> int:
        """How many were started."""
        return len(self._operations)

    # --- messages -----------------------------------------------------------------------------------------------

    def _start(self, message: dict[str, Any]) -> None:
        operation = _Operation(message["name"], message["file"], message["line"], message.get("uses", []))
        index = len(self._operations)
        self._operations.append(operation)
        if "state" not in message:
            return
        self._between(message, BEFORE_OPERATION, index)
        for number in operation.operands:
            if number in self._buffers:
                self._buffers[number].last_use = index
        self._describe(message)

    def _end(self, message: dict[str, Any]) -> None:
        index = message["end"]
        operation = self._operations[index]
        operation.ended = True
        if "error" in message:
            self._fail(message["error"], operation.line, index)
        if "born" not in message:
            return
        operation.l1 = tuple(message["l1"])
        if "unmeasured" in message:
            self._note(f"L1 of programs not measured: {message['unmeasured']}")
        self._pending = message

    def _settle(self, next_state: list[list[int]] | None) -> None:
        """Put the last operation's effect in, now that the state after it is known (None: there is none).

        Its fullest moment gets a row where it was fuller than the next state: that is where temporaries are, and
        results that the program dropped at once.
        """
        message, self._pending = self._pending, None
        if message is None:
            return
        tops = {
            memory: top
            for memory, top in message["fullest"].items()
            if next_state is None or top[0] > next_state[MEMORIES.index(memory)][_ALLOCATED]
        }
        index = message["end"]
        inside = len(self._rows) if tops else None
        row = len(self._rows) + bool(tops)  # of the next state
        shown = {number for _, born, _ in tops.values() for number in born}
        absent = {number for _, _, gone in tops.values() for number in gone}
        for number, memory, address, bytes_per_bank, total in message["born"]:
            first = inside if inside is not None and number in shown else row
            self._buffers[number] = _Buffer(memory, address, bytes_per_bank, total, index, first)
        if inside is not None:
            there = [b for n, b in self._buffers.items() if n not in absent and b.first_row <= inside]
            self._add_row(WITHIN_OPERATION, index, index, self._views_within(tops, there))
        self._describe(message)
        for number in message["gone"]:
            self._release(number, before=inside if inside is not None and number in absent else row)

    def _close(self, message: dict[str, Any]) -> None:
        self._between(message, SNAPSHOT, -1)
        for number in list(self._buffers):
            self._release(number, before=len(self._rows))

    def _between(self, message: dict[str, Any], kind: int, index: int) -> None:
        """A state outside operations, and what came and went since the last one."""
        self._settle(message["state"])
        row = len(self._rows)
        for number, memory, address, bytes_per_bank, total in message["came"]:
            self._buffers[number] = _Buffer(memory, address, bytes_per_bank, total, -1, row)
        for number in message["gone"]:
            self._release(number, before=row)
        last = index if kind == BEFORE_OPERATION else len(self._operations)
        # A region that was not configured has no bank and says nothing.
        self._add_row(kind, index, last - 1, [tuple(view) if view[1] else None for view in message["state"]])

    def _views_within(self, tops: dict[str, list[Any]], there: list[_Buffer]) -> list[View | None]:
        """Views of the memories that were fullest inside an operation, from the buffers that were there then."""
        views: list[View | None] = [None] * len(MEMORIES)
        for memory, (allocated, _, _) in tops.items():
            number = MEMORIES.index(memory)
            banks, base, total = self.device["pools"][memory]
            taken = [(buffer.address, buffer.bytes_per_bank) for buffer in there if buffer.memory == number]
            views[number] = (banks, total, allocated, total - allocated, largest_hole(base, total, taken))
        return views

    def _add_row(self, kind: int, operation: int, cause: int, views: list[Any]) -> None:
        rows = self._rows
        rows.kind.append(kind)
        rows.operation.append(operation)
        rows.cause.append(cause)
        rows.views.append([-1 if view is None else self._tables.view_number(view) for view in views])

    def _release(self, number: int, *, before: int) -> None:
        """A buffer's last state is the one before ``before``; one that shows in no state is forgotten."""
        buffer = self._buffers.pop(number, None)
        if buffer is not None and buffer.first_row < before:
            buffer.last_row = before - 1
            self._finished.append(buffer)

    def _describe(self, message: dict[str, Any]) -> None:
        for number, told in message.get("tensors", []):
            if number in self._buffers:
                self._buffers[number].told = told
        for number, name in message.get("names", []):
            if number in self._buffers:
                self._buffers[number].name = name

    def _note(self, text: str) -> None:
        self._notes[text] = self._notes.get(text, 0) + 1

    def _fail(self, text: str, line: int, operation: int) -> None:
        """In one line, so that the failure's line is the operation's and not one of its own text."""
        flat = " ".join(text.split())
        self._failures.append(FailureText(flat, line, operation, len(self._operations), is_exception=True))

    # --- the end of the process -----------------------------------------------------------------------------------

    def process_ended(self, *, signal_number: int | None = None, timeout_seconds: float | None = None) -> None:
        """How the process ended, where its own messages do not say: a failure of the operation that was running."""
        last = self._operations[-1] if self._operations else None
        running, line = (len(self._operations) - 1, last.line) if last and not last.ended else (-1, 0)
        if timeout_seconds is not None:
            self._fail(f"subprocess.TimeoutExpired: Command did not end within {timeout_seconds:g} s", line, running)
        elif signal_number is not None:
            self._fail(_death(signal_number), line, running)
        elif self.exit_error and not self._is_known(self.exit_error):
            self._fail(self.exit_error, 0, -1)

    def _is_known(self, error: str) -> bool:
        """An operation's own error that the program let pass is the same failure, not a second one."""
        flat = " ".join(error.split())
        return any(failure.text in flat for failure in self._failures)

    def profile(self, *, name: str, script: str, engine: str, board: str) -> Profile:
        """The profile of everything so far."""
        self._settle(None)
        end = len(self._rows)
        for number in list(self._buffers):
            self._release(number, before=end)
        timeline = self._timeline(script)
        return self._tables.profile(
            [timeline],
            name=name,
            source=source_of(script, kind=KIND, warnings=self._warnings()),
            facts=self._facts(engine, board),
        )

    def _timeline(self, script: str) -> Timeline:
        rows, operations = self._rows, self._operations
        types: dict[int, int] = {}
        buffers = sorted(self._finished, key=lambda buffer: (buffer.first_row, buffer.producer, buffer.address))
        for buffer in buffers:
            types[id(buffer)] = self._tables.type_number(tensor_type_of(buffer.told) if buffer.told else None)
        places = Places(script)
        forms = [
            self._tables.form_number(operation.name, location=places.location(operation.file, operation.line))
            for operation in operations
        ]
        lines = [operation.line if places.is_script(operation.file) else 0 for operation in operations]
        l1 = np.array([operation.l1 for operation in operations], np.int64).reshape(-1, len(_NO_PROGRAMS))
        return Timeline(
            rank=-1,
            first_index=0,
            form=np.array(forms, np.int32),
            line=np.array(lines, np.int64),
            program=np.full(len(operations), -1, np.int32),
            block_kind=np.array(rows.kind, np.int8),
            block_operation=np.array(rows.operation, np.int32),
            block_cause=np.array(rows.cause, np.int32),
            block_view=np.array(rows.views, np.int32).reshape(-1, len(MEMORIES)),
            block_line=np.array([lines[row] if row >= 0 else 0 for row in rows.operation], np.int64),
            failures=tuple(self._failures),
            programs_l1=ProgramsL1(
                tensors=l1[:, 0].copy(),
                circular_buffers=l1[:, 1].copy(),
                dataflow_buffers=l1[:, 2].copy(),
                scratchpads=l1[:, 3].copy(),
                measured=l1[:, 4].astype(np.int8),
            ),
            buffers=self._table(buffers, types),
        )

    def _table(self, buffers: list[_Buffer], types: dict[int, int]) -> BufferTable:
        names: dict[str, int] = {}

        def column(attribute: str, dtype: Any) -> Any:
            return np.array([getattr(buffer, attribute) for buffer in buffers], dtype)

        return BufferTable(
            address=column("address", np.int64),
            memory=column("memory", np.int8),
            bytes_per_bank=column("bytes_per_bank", np.int64),
            total_bytes=column("total_bytes", np.int64),
            first_block=column("first_row", np.int32),
            last_block=column("last_row", np.int32),
            producer=column("producer", np.int32),
            last_use=column("last_use", np.int32),
            tensor_type=np.array([types[id(buffer)] for buffer in buffers], np.int32),
            name=np.array([names.setdefault(self._name(buffer), len(names)) for buffer in buffers], np.int32),
            names=tuple(names),
        )

    def _name(self, buffer: _Buffer) -> str:
        """What the program calls it, else what it is."""
        if buffer.name:
            return buffer.name
        if buffer.producer < 0:
            return "tensor made outside operations" if buffer.told else "buffer made outside operations"
        maker = self._operations[buffer.producer].name
        if buffer.told:
            return f"result of {maker}"
        inside = buffer.first_row == buffer.last_row and self._rows.kind[buffer.first_row] == WITHIN_OPERATION
        return f"temporary of {maker}" if inside else f"kept by {maker}"

    def _warnings(self) -> tuple[str, ...]:
        return tuple(f"{text} ({count} times)" if count > 1 else text for text, count in self._notes.items())

    def _facts(self, engine: str, board: str) -> dict[str, Any]:
        device = self.device
        facts: dict[str, Any] = {"engine": engine, "ttnn": self.hello.get("ttnn", "")}
        if board:
            facts["board"] = board
        if device:
            facts |= {
                "system": device["arch"],
                "grid": device["grid"],
                "mesh": device["mesh"],
                "chips": device["chips"],
            }
        return facts


def largest_hole(base: int, bank_bytes: int, taken: Iterable[tuple[int, int]]) -> int:
    """The largest free stretch of a bank in which (address, bytes) are taken."""
    largest, end = 0, base
    for address, size in sorted(taken):
        largest = max(largest, address - end)
        end = max(end, address + size)
    return max(largest, base + bank_bytes - end)


_DEATHS = {
    signal.SIGSEGV: "Segmentation fault",
    signal.SIGABRT: "Aborted",
    signal.SIGKILL: "Killed",
    signal.SIGBUS: "Bus error",
    signal.SIGILL: "Illegal instruction",
}
"""As a shell says it, which is how ``explain`` knows them."""


def _death(number: int) -> str:
    try:
        known = signal.Signals(number)
    except ValueError:
        return f"died with signal {number}"
    return _DEATHS.get(known, f"died with <Signals.{known.name}: {number}>")
