# SPDX-License-Identifier: Apache-2.0
"""What a recorder tells, one message after the other, put together as a Profile.

States are the allocator's own views, so nothing is rounded. They show the moment before an operation,
the fullest moment inside one (where that was fuller than the states around it), or the end.
"""

import os
import re
import signal
from collections import Counter
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from ttmem.hardware import DATA_TYPES
from ttmem.profile import (
    BEFORE_OPERATION,
    MEMORIES,
    SNAPSHOT,
    WITHIN_OPERATION,
    Argument,
    FailureText,
    Profile,
    Source,
    TensorType,
    Timeline,
)
from ttmem.profile.tables import (
    BufferEntry,
    ProfileTables,
    States,
    View,
    buffer_table,
    captured_timeline,
    largest_free_block,
    programs_l1,
)

KIND = "ttnn-capture"

_UPLOADS = re.compile(r"\.(from_torch|as_tensor|to_device|load_tensor|to|from_buffer|allocate_tensor_on_device)$")
_PREPARES = re.compile(
    r"\.(to_layout|typecast|to_memory_config|to_dtype|tilize\w*|prepare_conv\w*|preprocess\w*|copy|clone)$"
)
"""Operations that bring a tensor from the host, and those that weights go through once when they are loaded."""
_WRITES = re.compile(r"update|fill_cache|\.fill|\.copy(_host_to_device_tensor)?$|assign|write|_$")
"""Operations that change what is in their first tensor."""

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
    freed: str = ""
    """What is to be said of inputs that had been freed before, should it fail."""
    l1: tuple[int, ...] = _NO_PROGRAMS
    ended: bool = False


@dataclass(slots=True)
class _Buffer:
    memory: int
    address: int
    bytes_per_bank: int
    total_bytes: int
    producer: int
    first_state: int
    last_state: int = -1
    last_use: int = -1
    tensor: dict[str, Any] | None = None
    """As the worker describes the tensor that owns it."""
    name: str = ""
    """What the statement calls it that made it."""
    path: str = ""
    """Where the program keeps it."""
    is_lasting: bool = False
    """Kept by an object, not only by a variable."""
    is_written: bool = False
    """An operation changed what is in it (a cache, a preallocated output)."""


class Capture:
    """Takes messages in order; what came before a crash is a profile too."""

    def __init__(self, tables: ProfileTables | None = None) -> None:
        """``tables`` are those of a profile with several processes."""
        self.device: dict[str, Any] = {}
        self.hello: dict[str, Any] = {}
        self.exit_error = ""
        self.has_ended = False
        """The program came to its own end; a process that died did not say so."""
        self._tables = tables or ProfileTables()
        self._operations: list[_Operation] = []
        self._buffers: dict[int, _Buffer] = {}
        self._finished: list[_Buffer] = []
        self._states = States()
        self._failures: list[FailureText] = []
        self._errors: list[str] = []
        """The texts of the failures as the program printed them."""
        self._freed: dict[int, tuple[_Buffer, int]] = {}
        """Buffers that are gone, by number, and the operation that freed them; -1 outside operations."""
        self._notes: Counter[str] = Counter()
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
        elif "paths" in message:
            self._keep_paths(message["paths"])
        elif "closed" in message:
            self._close(message)
        elif "note" in message:
            self._notes[message["note"]] += 1
        elif "exit" in message:
            self.has_ended = True
            self.exit_error = message["error"]
        elif "hello" in message:
            self.hello = message

    def part_ends(self) -> tuple[int, int]:
        """Operations and states so far, the last operation's among them: what comes now belongs to another part."""
        self._settle(None)
        return len(self._operations), len(self._states)

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
        if operation.operands and _WRITES.search(operation.name) and operation.operands[0] in self._buffers:
            self._buffers[operation.operands[0]].is_written = True
        self._describe(message)
        operation.freed = " ".join(self._freed_input(*told) for told in message.get("freed", []))

    def _freed_input(self, number: int, shape: list[int], dtype: str) -> str:
        """The sentence that ``explain`` knows as U9: which input, freed where, made where."""
        what = f"{'x'.join(map(str, shape))} {dtype}"
        buffer, freer = self._freed.get(number, (None, -1))
        name = f"'{self._name(buffer)}' ({what})" if buffer is not None else f"of {what}"
        made, freed = (self._place(one) for one in (buffer.producer if buffer is not None else -1, freer))
        return f"ttmem saw: input {name} was freed by {freed}; it was made by {made} (seen before the call)"

    def _place(self, index: int) -> str:
        """``ttnn.deallocate (operation 3) at model.py:41``."""
        if index < 0:
            return "the program outside operations at an unknown place"
        one = self._operations[index]
        return f"{one.name} (operation {index}) at {_location(one) or 'an unknown place'}"

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
            self._notes[f"L1 of programs not measured: {message['unmeasured']}"] += 1
        self._pending = message

    def _settle(self, next_state: list[list[int]] | None) -> None:
        """Put the last operation's effect in, now that the state after it is known (None: there is none).

        Its fullest moment gets a state of its own where it was fuller than the next one: that is where temporaries are,
        and results that the program dropped at once.
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
        shown = {number for _, born, _ in tops.values() for number in born}
        absent = {number for _, _, gone in tops.values() for number in gone}
        for number, memory, address, bytes_per_bank, total in message["born"]:
            first = inside if inside is not None and number in shown else state
            self._buffers[number] = _Buffer(memory, address, bytes_per_bank, total, index, first)
        if inside is not None:
            there = [b for n, b in self._buffers.items() if n not in absent and b.first_state <= inside]
            views = self._tables.view_numbers(self._views_within(tops, there))
            self._states.add(WITHIN_OPERATION, index, index, views)
        self._describe(message)
        for number in message["gone"]:
            self._release(number, before=inside if inside is not None and number in absent else state, by=index)

    def _close(self, message: dict[str, Any]) -> None:
        self._between(message, SNAPSHOT, -1)
        self._release_all()

    def _between(self, message: dict[str, Any], kind: int, index: int) -> None:
        """A state outside operations, and what came and went since the last one."""
        self._settle(message["state"])
        state = len(self._states)
        for number, memory, address, bytes_per_bank, total in message["came"]:
            self._buffers[number] = _Buffer(memory, address, bytes_per_bank, total, -1, state)
        for number in message["gone"]:
            self._release(number, before=state)
        last = index if kind == BEFORE_OPERATION else len(self._operations)
        # A region that was not configured has no bank and says nothing.
        views: dict[int, View] = {number: tuple(view) for number, view in enumerate(message["state"]) if view[1]}
        self._states.add(kind, index, last - 1, self._tables.view_numbers(views))

    def _views_within(self, tops: dict[str, list[Any]], there: list[_Buffer]) -> dict[int, View]:
        """Views of the memories that were fullest inside an operation, from the buffers that were there then."""
        views: dict[int, View] = {}
        for memory, (allocated, _, _) in tops.items():
            number = MEMORIES.index(memory)
            banks, base, total = self.device["pools"][memory]
            taken = [(buffer.address, buffer.bytes_per_bank) for buffer in there if buffer.memory == number]
            views[number] = (banks, total, allocated, total - allocated, largest_free_block(base, total, taken))
        return views

    def _release(self, number: int, *, before: int, by: int = -1) -> None:
        """A buffer's last state is the one before ``before``; one that shows in no state is forgotten."""
        buffer = self._buffers.pop(number, None)
        if buffer is not None:
            self._freed[number] = (buffer, by)
        if buffer is not None and buffer.first_state < before:
            buffer.last_state = before - 1
            self._finished.append(buffer)

    def _release_all(self) -> None:
        for number in list(self._buffers):
            self._release(number, before=len(self._states))

    def _describe(self, message: dict[str, Any]) -> None:
        for fact, key in (("tensor", "tensors"), ("name", "names")):
            for number, described in message.get(key, []):
                if number in self._buffers:
                    setattr(self._buffers[number], fact, described)

    def _keep_paths(self, paths: list[list[Any]]) -> None:
        """A later path is the better one: a constructor knows only ``self``, which says less than what keeps it."""
        for number, path, is_lasting in paths:
            buffer = self._buffers.get(number)
            if buffer is not None and not (buffer.path and path.startswith("self")):
                buffer.path, buffer.is_lasting = path, buffer.is_lasting or is_lasting

    def _fail(self, text: str, line: int, operation: int) -> None:
        """In one line, so that the failure's line is the operation's and not one of its own text."""
        flat = " ".join(text.split())
        self._errors.append(flat)
        if operation >= 0 and (freed := self._operations[operation].freed):
            flat = f"{flat}\n{freed}"
        self._failures.append(FailureText(flat, line, operation, len(self._operations), is_exception=True))

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
        return any(known in flat for known in self._errors)

    def profile(self, *, name: str, script: str, engine: str, board: str) -> Profile:
        """The profile of everything so far."""
        self._settle(None)
        self._release_all()
        timeline = self._timeline(script)
        return self._tables.profile(
            [timeline],
            name=name,
            source=_source_of(script, self._warnings()),
            facts=self._facts(engine, board),
            arguments=self._arguments(),
        )

    def _arguments(self) -> list[Argument]:
        """What was uploaded and is kept: weights, and caches, which are written to."""
        found: dict[str, Argument] = {}
        for buffer in sorted(self._finished, key=lambda buffer: buffer.first_state):
            if not (buffer.is_lasting and buffer.tensor and buffer.last_use >= 0 and self._is_uploaded(buffer)):
                continue
            shape, dtype = tuple(buffer.tensor["shape"]), buffer.tensor["dtype"]
            kind = "input" if buffer.is_written else "parameter"
            size = DATA_TYPES.find(dtype).logical_bytes(prod(shape)) if dtype in DATA_TYPES else buffer.total_bytes
            found[buffer.path] = Argument(
                "", len(found), buffer.path, shape, dtype, kind, size, True, kv_cache=buffer.is_written
            )
        return list(found.values())

    def _is_uploaded(self, buffer: _Buffer) -> bool:
        """From the host, or made of such by an operation that only changes its form."""
        maker = self._operations[buffer.producer] if buffer.producer >= 0 else None
        return maker is None or bool(_UPLOADS.search(maker.name) or _PREPARES.search(maker.name))

    def _timeline(self, script: str) -> Timeline:
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
                self._tables.type_number(tensor_type_of(buffer.tensor) if buffer.tensor else None),
                self._name(buffer),
            )
            for buffer in ended
        ]
        script_file = os.path.realpath(script)
        in_script = {file: os.path.realpath(file) == script_file for file in {one.file for one in operations}}
        return captured_timeline(
            [self._tables.form_number(one.name, location=_location(one)) for one in operations],
            self._states,
            lines=[one.line if in_script[one.file] else 0 for one in operations],
            failures=self._failures,
            needs=programs_l1([one.l1 for one in operations]),
            buffers=buffer_table(buffers),
        )

    def _name(self, buffer: _Buffer) -> str:
        """What the program calls it, else what it is."""
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

    def _warnings(self) -> tuple[str, ...]:
        return tuple(f"{text} ({count} times)" if count > 1 else text for text, count in self._notes.items())

    def _facts(self, engine: str, board: str) -> dict[str, Any]:
        device, facts = self.device, {"engine": engine, "ttnn": self.hello.get("ttnn", "")}
        if board:
            facts["board"] = board
        if device:
            facts |= {"system": device["arch"], **{name: device[name] for name in ("grid", "mesh", "chips")}}
        return facts


_DEATHS = {
    signal.SIGSEGV: "Segmentation fault",
    signal.SIGABRT: "Aborted",
    signal.SIGKILL: "Killed",
    signal.SIGBUS: "Bus error",
    signal.SIGILL: "Illegal instruction",
}
"""As a shell says it, which is how ``explain`` knows them."""


def _location(operation: _Operation) -> str:
    """As short as it stays clear: relative to where the user is, when the file is below it."""
    return operation.file and f"{operation.file.removeprefix(str(Path.cwd()) + os.sep)}:{operation.line}"


def _death(number: int) -> str:
    try:
        known = signal.Signals(number)
    except ValueError:
        return f"died with signal {number}"
    return _DEATHS.get(known, f"died with <Signals.{known.name}: {number}>")


def _source_of(script: str, warnings: tuple[str, ...]) -> Source:
    """What was run. A script that is gone or cannot be read costs its size, not the profile."""
    try:
        content = Path(script).read_bytes()
    except OSError:
        content = b""
    return Source(kind=KIND, name=script, bytes=len(content), lines=content.count(b"\n"), warnings=warnings)


def tensor_type_of(described: dict[str, Any]) -> TensorType:
    """``described`` as ``worker.tensors.describe`` gives it: shapes, pages and shards are the library's own figures."""
    elements = prod(described["shape"])
    padded = described["pages"] * described["page_bytes"]
    known = DATA_TYPES.get(described["dtype"])
    if known is not None:
        logical = known.logical_bytes(elements)
    else:  # a format newer than our table: its own pages tell what an element takes
        logical = padded * elements // max(prod(described["padded"]), 1)
    cores = described.get("shard_cores", 0)
    return TensorType(
        shape=tuple(described["shape"]),
        dtype=described["dtype"],
        layout=described["layout"],
        memory=described["memory"],
        placement=described["placement"],
        logical_bytes=logical,
        padded_bytes=padded,
        page_bytes=described["page_bytes"],
        shard_bytes=-(-padded // cores) if cores else 0,
    )
