# SPDX-License-Identifier: Apache-2.0
"""The history of a device from recorder messages, as a timeline: operations, states, buffers, failures.

States are the allocator's own views, so nothing is rounded. They show the moment before an operation, the peak inside
one (where it exceeds the states around it), or the end.
"""

import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from ttmem.hardware import DATA_TYPES
from ttmem.profile.event_log import EventLog
from ttmem.profile.model import (
    BEFORE_OPERATION,
    MEMORIES,
    SNAPSHOT,
    WITHIN_OPERATION,
    FailureText,
    GraphArgument,
    Timeline,
)
from ttmem.profile.tables import (
    BufferEntry,
    ProfileTables,
    States,
    View,
    build_buffer_table,
    build_programs_l1,
    build_timeline,
)
from ttmem.profile.tensor_type import TensorType, decode_tensor_type

_UPLOADS = re.compile(r"\.(from_torch|as_tensor|to_device|load_tensor|to|from_buffer|allocate_tensor_on_device)$")
_PREPARES = re.compile(
    r"\.(to_layout|typecast|to_memory_config|to_dtype|tilize\w*|prepare_conv\w*|preprocess\w*|copy|clone)$"
)
"""Operations through which weights go once when they are loaded. ``_UPLOADS`` bring a tensor from the host."""
_WRITES = re.compile(r"update|fill_cache|\.fill|\.copy(_host_to_device_tensor)?$|assign|write|_$")
"""Operations that change the content of their first tensor."""

_KINDS = {"input": "input", "constant": "constant", "reserve": "unknown"}
"""Kinds of arguments by the role that a player gives."""
_NO_PROGRAMS = (-1, 0, 0, 0, 0)
_ALLOCATED = 2
"""Index of the allocated bytes in a state's view."""


@dataclass(slots=True)
class _RunningOperation:
    name: str
    file: str
    line: int
    operands: list[int] = field(default_factory=list)
    freed: str = ""
    """Note about inputs that had been freed before, in case it fails."""
    l1: tuple[int, ...] = _NO_PROGRAMS
    ended: bool = False


@dataclass(slots=True)
class _LiveBuffer:
    memory: int
    address: int
    bytes_per_bank: int
    total_bytes: int
    producer: int
    first_state: int
    event: int
    last_state: int = -1
    last_use: int = -1
    tensor: TensorType | None = None
    name: str = ""
    """Name in the statement that made it."""
    path: str = ""
    """Path at which the program keeps it."""
    is_lasting: bool = False
    """Kept by an object, not only by a variable."""
    role: str = ""
    """Role given by a player (``weight``, ``cache``, ...); programs have none."""
    is_written: bool = False
    """An operation changed its content (a cache, a preallocated output)."""


class PlayedResident(NamedTuple):
    """A buffer whose role a player gave."""

    role: str
    memory: int
    """Index into ``MEMORIES``."""
    bytes_per_bank: int
    total_bytes: int


class DeviceHistory:
    """The history of a device, mesh or submesh, which has one allocator. A device that is opened after this one was
    closed continues it."""

    def __init__(self, tables: ProfileTables, notes: Counter[str]) -> None:
        self.device: dict[str, Any] = {}
        self.errors: list[str] = []
        """Texts of the failures as the program printed them."""
        self._tables = tables
        self._notes = notes
        self._operations: list[_RunningOperation] = []
        self._buffers: dict[int, _LiveBuffer] = {}
        self._finished: list[_LiveBuffer] = []
        self._states = States()
        self._events = EventLog()
        self._failures: list[FailureText] = []
        self._freed: dict[int, tuple[_LiveBuffer, int]] = {}
        """Freed buffers by number, with the operation that freed them; -1 outside operations."""
        self.residents: dict[str, PlayedResident] = {}
        self._closings: list[int] = []  # number of states at each closing of the device
        self._pending: dict[str, Any] | None = None
        """The last operation's end, until the state after it is known."""

    def open(self, device: dict[str, Any]) -> None:
        """Open the device, or another one after the last was closed."""
        self.device = device
        self._events.open()

    def start(self, message: dict[str, Any]) -> int:
        """Begin an operation; return its index among those of this device."""
        operation = _RunningOperation(message["name"], message["file"], message["line"], message.get("uses", []))
        index = len(self._operations)
        self._operations.append(operation)
        self._events.start(index, message)
        if "state" not in message:
            return index
        self._add_state(message, BEFORE_OPERATION, index)
        for number in operation.operands:
            if number in self._buffers:
                self._buffers[number].last_use = index
        if operation.operands and _WRITES.search(operation.name) and operation.operands[0] in self._buffers:
            self._buffers[operation.operands[0]].is_written = True
        self._add_descriptions(message)
        operation.freed = " ".join(self._describe_freed_input(*value) for value in message.get("freed", []))
        return index

    def _describe_freed_input(self, number: int, shape: list[int], dtype: str) -> str:
        """Build the sentence that ``explain`` knows as U9: which input, freed where, made where."""
        what = f"{'x'.join(map(str, shape))} {dtype}"
        buffer, freer = self._freed.get(number, (None, -1))
        name = f"'{self._find_name(buffer)}' ({what})" if buffer is not None else f"of {what}"
        made, freed = (self._describe_operation(one) for one in (buffer.producer if buffer is not None else -1, freer))
        return f"ttmem saw: input {name} was freed by {freed}; it was made by {made} (seen before the call)"

    def _describe_operation(self, index: int) -> str:
        """``ttnn.deallocate (operation 3) at model.py:41``."""
        if index < 0:
            return "the program outside operations at an unknown place"
        one = self._operations[index]
        return f"{one.name} (operation {index}) at {_format_location(one) or 'an unknown place'}"

    def end(self, index: int, message: dict[str, Any]) -> None:
        operation = self._operations[index]
        operation.ended = True
        if "error" in message:
            self.fail(message["error"], operation.line, index)
        if "born" not in message:
            return
        operation.l1 = tuple(message["l1"])
        self._events.end(index, message)
        if "unmeasured" in message:
            self._notes[f"L1 of programs not measured: {message['unmeasured']}"] += 1
        self._pending = {**message, "end": index}

    def _apply_end(self, next_state: list[list[int]] | None) -> None:
        """Apply the last operation's effect, once the state after it is known (None: there is none).

        Its peak gets a state of its own where it exceeds the next one: that shows temporaries, and results that the
        program dropped at once.
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
        inside = len(self._states) if tops else None
        state = len(self._states) + bool(tops)  # of the next state
        shown = {number for _, born, _, _ in tops.values() for number in born}
        absent = {number for _, _, gone, _ in tops.values() for number in gone}
        for number, memory, address, bytes_per_bank, total in message["born"]:
            first = inside if inside is not None and number in shown else state
            event = self._events.find_number(number)
            self._buffers[number] = _LiveBuffer(memory, address, bytes_per_bank, total, index, first, event)
        if inside is not None:
            views = self._tables.add_views(self._list_inner_views(tops))
            self._states.add(WITHIN_OPERATION, index, index, views)
        self._add_descriptions(message)
        for number in message["gone"]:
            self._release(number, before=inside if inside is not None and number in absent else state, by=index)

    @property
    def running(self) -> dict[str, Any] | None:
        """The last operation, unless it has ended."""
        last = self._operations[-1] if self._operations else None
        if last is None or last.ended:
            return None
        return {"index": len(self._operations) - 1, "name": last.name, "location": _format_location(last)}

    def count_parts(self) -> tuple[int, int]:
        """Return the numbers of operations and states, with the last operation's."""
        self._apply_end(None)
        return len(self._operations), len(self._states)

    def add_moment(self, message: dict[str, Any]) -> None:
        self._events.add_changes(len(self._operations), message)
        self._add_state(message, SNAPSHOT, -1)

    def close(self, message: dict[str, Any]) -> None:
        self.add_moment(message)
        self._events.close(len(self._operations))
        self._release_all()
        self._closings.append(len(self._states))

    def _add_state(self, message: dict[str, Any], kind: int, index: int) -> None:
        """Add a state outside operations, with the changes since the last one."""
        self._apply_end(message["state"])
        state = len(self._states)
        for number, memory, address, bytes_per_bank, total in message["came"]:
            event = self._events.find_number(number)
            self._buffers[number] = _LiveBuffer(memory, address, bytes_per_bank, total, -1, state, event)
        for number in message["gone"]:
            self._release(number, before=state)
        last = index if kind == BEFORE_OPERATION else len(self._operations)
        # An unconfigured region has no bank.
        views: dict[int, View] = {number: tuple(view) for number, view in enumerate(message["state"]) if view[1]}
        self._states.add(kind, index, last - 1, self._tables.add_views(views))

    def _list_inner_views(self, tops: dict[str, list[Any]]) -> dict[int, View]:
        """Return the views of the memories at their peaks inside an operation."""
        views: dict[int, View] = {}
        for memory, (allocated, _, _, largest_free) in tops.items():
            banks, _, total = self.device["pools"][memory]
            views[MEMORIES.index(memory)] = banks, total, allocated, total - allocated, largest_free
        return views

    def _release(self, number: int, *, before: int, by: int = -1) -> None:
        """End a buffer before the state ``before``; drop one that shows in no state."""
        buffer = self._buffers.pop(number, None)
        if buffer is not None:
            self._freed[number] = (buffer, by)
        if buffer is not None and buffer.first_state < before:
            buffer.last_state = before - 1
            self._finished.append(buffer)

    def _release_all(self) -> None:
        for number in list(self._buffers):
            self._release(number, before=len(self._states))

    def _add_descriptions(self, message: dict[str, Any]) -> None:
        for fact, key in (("tensor", "tensors"), ("name", "names")):
            for number, value in message.get(key, []):
                if number in self._buffers:
                    setattr(
                        self._buffers[number], fact, decode_tensor_type(value) if isinstance(value, dict) else value
                    )

    def keep_paths(self, message: dict[str, Any]) -> None:
        """Keep the later of two paths: a constructor knows only ``self``, which says less than what keeps the
        object."""
        for number, path, is_lasting, *role in message["paths"]:
            buffer = self._buffers.get(number)
            if buffer is not None and not (buffer.path and path.startswith("self")):
                buffer.path, buffer.is_lasting = path, buffer.is_lasting or is_lasting
                if role:
                    buffer.role = role[0]
                    self.residents[path] = PlayedResident(
                        role[0], buffer.memory, buffer.bytes_per_bank, buffer.total_bytes
                    )
        self._add_descriptions(message)

    def fail(self, text: str, line: int, operation: int) -> None:
        """Add a failure in one line, so that its line is the operation's and not one of its own text."""
        flat = " ".join(text.split())
        self.errors.append(flat)
        if operation >= 0 and (freed := self._operations[operation].freed):
            flat = f"{flat}\n{freed}"
        self._failures.append(FailureText(flat, line, operation, len(self._operations), is_exception=True))

    def mark_caught(self, *, but: Sequence[str]) -> None:
        """Mark failures as caught after the program's end, ``but`` those that have one of these texts."""
        self._failures = [
            replace(failure, is_caught=not any(text in failure.text or failure.text in text for text in but))
            for failure in self._failures
        ]

    def fail_running(self, text: str) -> None:
        """Add a failure of the running operation, if there is one."""
        last = self._operations[-1] if self._operations else None
        running = last is not None and not last.ended
        self.fail(text, last.line if last and running else 0, len(self._operations) - 1 if running else -1)

    def add_arguments(self, found: dict[str, GraphArgument]) -> None:
        """Add lasting uploads as arguments: weights, caches (written to), inputs (uploaded repeatedly)."""

        def place(one: _LiveBuffer) -> tuple[str, int]:
            return one.path, bisect_right(self._closings, one.first_state)

        kept = [one for one in self._finished if one.is_lasting and (one.role or self._is_kept_upload(one))]
        used = [one for one in kept if one.last_use < 0 or not _PREPARES.search(self._operations[one.last_use].name)]
        uploads = Counter(map(place, used))
        for buffer in sorted(kept, key=lambda buffer: buffer.first_state):
            if not buffer.tensor:
                continue
            shape, dtype = buffer.tensor.shape, buffer.tensor.dtype
            is_cache = buffer.role == "cache" if buffer.role else buffer.is_written
            is_fed = not buffer.role and uploads[place(buffer)] > 1
            kind = "input" if is_cache or is_fed else _KINDS.get(buffer.role, "parameter")
            size = DATA_TYPES.find(dtype).logical_bytes(prod(shape)) if dtype in DATA_TYPES else buffer.total_bytes
            found[buffer.path] = GraphArgument(
                *("", len(found), buffer.path, shape, dtype, kind, size, True),
                kv_cache=is_cache,
                device_bytes=self._count_device_bytes(buffer),
            )

    def _count_device_bytes(self, buffer: _LiveBuffer) -> int:
        """Return a buffer's bytes on a chip: all banks of DRAM lose what the fullest one does; a shard in L1 uses its
        own cores only."""
        pool = self.device.get("pools", {}).get(MEMORIES[buffer.memory])
        return buffer.bytes_per_bank * pool[0] if pool and MEMORIES[buffer.memory] == "DRAM" else buffer.total_bytes

    def _is_kept_upload(self, buffer: _LiveBuffer) -> bool:
        """Return whether a buffer is used and came from the host, directly or through operations that only change its
        form; or is an attribute that was made from no other tensor (``self.weight = ttnn.zeros(...)``)."""
        if buffer.last_use < 0:
            return False
        maker = self._operations[buffer.producer] if buffer.producer >= 0 else None
        if maker is None or _UPLOADS.search(maker.name) or _PREPARES.search(maker.name):
            return True
        return not maker.operands and "." in buffer.path

    def finish(self) -> None:
        self._apply_end(None)
        self._release_all()

    def build_timeline(self, script: str, rank: int) -> Timeline:
        """Build the timeline; lines are those of the script."""
        operations = self._operations
        ended = sorted(self._finished, key=lambda buffer: (buffer.first_state, buffer.producer, buffer.address))
        buffers = [
            BufferEntry(
                buffer.address,
                buffer.memory,
                buffer.bytes_per_bank,
                buffer.total_bytes,
                buffer.first_state,
                buffer.last_state,
                buffer.producer,
                buffer.last_use,
                self._tables.add_type(buffer.tensor),
                self._find_name(buffer),
            )
            for buffer in ended
        ]
        script_file = os.path.realpath(script)
        in_script = {file: os.path.realpath(file) == script_file for file in {one.file for one in operations}}
        return build_timeline(
            [self._tables.add_form(one.name, location=_format_location(one)) for one in operations],
            self._states,
            rank=rank,
            lines=[one.line if in_script[one.file] else 0 for one in operations],
            failures=self._failures,
            needs=build_programs_l1([one.l1 for one in operations]),
            buffers=build_buffer_table(buffers),
            events=self._events.build_table(
                {buffer.event: row for row, buffer in enumerate(ended)}, self.device.get("pools")
            ),
        )

    def _find_name(self, buffer: _LiveBuffer) -> str:
        """Return the program's name for a buffer, else a description."""
        if buffer.path and (buffer.is_lasting or not buffer.name):
            return buffer.path
        if buffer.name:
            return buffer.name
        if buffer.producer < 0:
            return "tensor made outside operations" if buffer.tensor else "buffer made outside operations"
        maker = self._operations[buffer.producer].name
        if buffer.tensor:
            return f"result of {maker}"
        inside = buffer.first_state == buffer.last_state and self._states.kind[buffer.first_state] == WITHIN_OPERATION
        return f"temporary of {maker}" if inside else f"kept by {maker}"


def _format_location(operation: _RunningOperation) -> str:
    """Return the location, relative to the current folder for a file below it."""
    file = shorten_path(operation.file)
    return f"{file}:{operation.line}" if operation.line else file  # a module of a model has no line


def shorten_path(path: str) -> str:
    """Make a path below the current folder relative to it."""
    return path.removeprefix(str(Path.cwd()) + os.sep)
