# SPDX-License-Identifier: Apache-2.0
"""Follows a program's ttnn operations and tells what each did to the device's memory.

Messages, in order: ``device`` when one is opened; ``start`` before an operation (so it is known if the process dies in
it) with the allocator's own view of the four memories; ``end`` after it; ``closed`` with the last view. Buffers have
numbers: ``came`` and ``gone`` changed outside operations (``del x``), ``born`` and ``gone`` of ``end`` inside.
"""

import functools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .account import Buffer
from .captures import Captures
from .devices import OpenOptions, device_facts, watch_devices
from .library import Library, Patches, address_key, describe
from .mock_gaps import MockGaps
from .names import tensors_by_path
from .protocol import MEMORIES, error_message
from .sites import Site, Sites
from .watching import Seen, State, Watch

Send = Callable[[dict[str, Any]], None]

_FIRST_WALK, _WALK_GROWTH = 8, 1.5
_TENSOR_METHODS = ("to", "cpu", "deallocate")
"""Ways to move memory that are not registered operations."""


class Recorder:
    """One program's operations. Only the process that made it records: its forked children are not followed."""

    def __init__(self, library: Library, send: Send, *, options: OpenOptions, measure_programs: bool = True) -> None:
        self._library = library
        self._send = send
        self._options = options
        self._measures = measure_programs
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._depth = threading.local()
        self._sites = Sites((library.folder, str(Path(__file__).resolve().parent)))
        self._index = 0
        self._captures = Captures(library)
        self._watch: Watch | None = None
        self._typed: set[int] = set()
        """Buffers whose tensor was described already."""
        self._next_walk = _FIRST_WALK
        """The operation before which the program's objects are looked through for names again."""
        self._held: dict[int, int] = {}
        """Tensor objects by identity -> the buffer they had when last seen: a tensor that was freed cannot tell it."""
        self._others_noted = False
        self._patches = Patches()

    def install(self) -> None:
        """Put the recorder between the program and the library."""
        decorators = self._library.ttnn.decorators
        for operation in (decorators.FastOperation, decorators.Operation):
            self._wrap(operation, "__call__")
        for method in _TENSOR_METHODS:
            self._wrap(self._library.ttnn.Tensor, method, f"ttnn.Tensor.{method}")
        self._captures.watch_program(self._library, self._patches)
        MockGaps(self._library, lambda text: self._send({"note": text})).install(self._patches)
        opened, closing = self.device_opened, self.device_closing
        watch_devices(self._library, self._options, self._patches, opened=opened, closing=closing)

    def follow_here(self) -> None:
        """Record this process from now on: a copy of the one that made the recorder, before it opened any device."""
        self._process = os.getpid()

    def uninstall(self) -> None:
        """Leave the library as it was."""
        self._patches.undo()

    def _wrap(self, owner: Any, method: str, name: str = "") -> None:
        """Record calls of a method, under this name or that of the operation it belongs to."""
        recorder = self

        def make(original: Any) -> Any:
            @functools.wraps(original, updated=())
            def recorded(self_: Any, *arguments: Any, **options: Any) -> Any:
                __tracebackhide__ = True  # pytest shows the test's frames and the library's, not ours
                called = name or self_.python_fully_qualified_name
                return recorder.operation(called, original, (self_, *arguments), options)

            return recorded

        self._patches.replace(owner, method, make)

    def device_opened(self, device: Any) -> None:
        """Follow the first device; the memory of a second one at the same time is not followed, and that is said."""
        if os.getpid() != self._process:
            return
        with self._lock:
            if self._watch is None:
                self._watch = Watch(self._library, device, captures=self._captures, measure_programs=self._measures)
                self._typed.clear()
                self._held.clear()
                self._send({"device": device_facts(self._library, device)})
            elif device is not self._watch.device:
                self._send({"note": "more than one device is open: only the memory of the first is followed"})

    def device_closing(self, device: Any) -> None:
        """The last view of a device that is about to be closed."""
        with self._lock:
            if self._watch is not None and device is self._watch.device and os.getpid() == self._process:
                self._send_paths(self._watch)
                self._send({"closed": True, **_state_message(self._watch.state())})
                self._watch.rest()
                self._watch = None

    def finish(self) -> None:
        """The program has ended; what it left open is sent as it is."""
        if self._watch is not None:
            self.device_closing(self._watch.device)

    def operation(
        self, name: str, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Call an operation and send what it did; those that it calls itself are part of it."""
        __tracebackhide__ = True
        if os.getpid() != self._process or getattr(self._depth, "inside", False):
            return function(*arguments, **options)
        with self._lock:
            self._depth.inside = True
            try:
                return self._recorded(name, function, arguments, options)
            finally:
                self._depth.inside = False

    def _recorded(
        self, name: str, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        __tracebackhide__ = True
        index, self._index = self._index, self._index + 1
        site = self._sites.of_caller(name)
        watch = self._watch
        started: dict[str, Any] = {"start": index, "name": name, "file": site.file, "line": site.line}
        if watch is None:
            self._send(started)
            try:
                results = function(*arguments, **options)
            except BaseException as error:
                self._send({"end": index, "error": error_message(error)})
                raise
            self._send({"end": index})
            return results
        self._send({**started, **_state_message(watch.state()), **self._inputs(watch, (arguments, options))})
        if index >= self._next_walk:
            self._next_walk = int(index * _WALK_GROWTH) + 1
            self._send_paths(watch)
        return watch.call(function, arguments, options, lambda seen: self._end(index, watch, site, seen))

    def _end(self, index: int, watch: Watch, site: Site, seen: Seen) -> None:
        message: dict[str, Any] = {
            "end": index,
            "born": [_row(buffer) for buffer in seen.effect.born],
            "gone": list(seen.effect.gone),
            "fullest": {memory: list(top) for memory, top in seen.effect.fullest.items()},
            "l1": [*seen.l1, 0 if seen.problem else 1],
        }
        if seen.problem:
            message["unmeasured"] = seen.problem
        if seen.error is not None:
            message["error"] = error_message(seen.error)
        else:
            message["tensors"], message["names"] = self._results(watch, seen, site)
        self._send(message)
        if watch.others_seen and not self._others_noted:
            self._others_noted = True
            self._send({"note": "memory of another device or of a submesh was used too; it is not followed"})

    def _send_paths(self, watch: Watch) -> None:
        """Where the program keeps its tensors, as far as it can be found now."""
        paths: dict[int, list[Any]] = {}
        for found in tensors_by_path(self._library.ttnn.Tensor, self._sites.is_users, sys._getframe(1)):
            buffer = _buffer_of(watch, found.tensor) if self._library.is_on_device(found.tensor) else None
            if buffer is not None:
                paths.setdefault(buffer.number, [buffer.number, found.path, found.is_lasting])
        if paths:
            self._send({"paths": list(paths.values())})

    def _inputs(self, watch: Watch, values: Any) -> dict[str, Any]:
        """The buffers an operation reads, descriptions of those not seen before, and those that were freed before it.

        The latter are told beforehand: some operations do not refuse such an input but die of it.
        """
        uses, described, freed = [], [], []
        for tensor in self._library.tensors_in(values):
            if self._library.is_freed(tensor):
                freed.append([self._held.get(id(tensor), -1), list(tensor.shape), tensor.dtype.name.lower()])
            buffer = _buffer_of(watch, tensor) if self._library.is_on_device(tensor) else None
            if buffer is None:
                continue
            uses.append(buffer.number)
            self._held[id(tensor)] = buffer.number
            if buffer.number not in self._typed:
                self._typed.add(buffer.number)
                described.append([buffer.number, describe(tensor)])
        return {"uses": uses, "tensors": described, **({"freed": freed} if freed else {})}

    def _results(self, watch: Watch, seen: Seen, site: Site) -> tuple[list[list[Any]], list[list[Any]]]:
        """Descriptions and names of the buffers that the results brought."""
        born = {buffer.number for buffer in seen.effect.born}
        described, names = [], []
        tensors = list(self._library.tensors_in(seen.results))
        for position, tensor in enumerate(tensors):
            buffer = _buffer_of(watch, tensor) if self._library.is_on_device(tensor) else None
            if buffer is not None:
                self._held[id(tensor)] = buffer.number
            if buffer is None or buffer.number not in born or buffer.number in self._typed:
                continue
            self._typed.add(buffer.number)
            described.append([buffer.number, describe(tensor)])
            name = _name(site.names, position, len(tensors), is_single=tensors[0] is seen.results)
            if name:
                names.append([buffer.number, name])
        return described, names


def _row(buffer: Buffer) -> list[Any]:
    return [buffer.number, MEMORIES.index(buffer.memory), buffer.address, buffer.bytes_per_bank, buffer.total_bytes]


def _state_message(state: State) -> dict[str, Any]:
    return {"state": [list(view) for view in state.views], "came": [_row(b) for b in state.came], "gone": state.gone}


def _buffer_of(watch: Watch, tensor: Any) -> Buffer | None:
    memory, address = address_key(tensor)
    return watch.account.live.get(memory, {}).get(address)


def _name(names: tuple[str, ...], position: int, count: int, *, is_single: bool) -> str:
    """What the program calls one of the results; empty when its statement does not say."""
    if is_single:
        return names[0] if len(names) == 1 else ""
    if len(names) == count:
        return names[position]
    return f"{names[0]}[{position}]" if len(names) == 1 else ""
