# SPDX-License-Identifier: Apache-2.0
"""Follows a program's ttnn operations and tells what each did to the device's memory.

Messages, in order: ``device`` when one is opened; ``start`` before an operation (so it is known if the process dies in
it) with the allocator's own view of the four memories; ``end`` after it; ``closed`` with the last view. Buffers have
numbers: ``came`` and ``gone`` changed outside operations (``del x``), ``born`` and ``gone`` of ``end`` inside.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from .account import LAUNCH, Account, Buffer, Story
from .devices import OpenOptions, device_facts, watch_devices
from .footprint import Call, Measured, measure
from .library import Library
from .nodes import ProgramNeeds, moves_of, program_key, used_cached_programs
from .protocol import MEMORIES, error_text
from .sites import Site, Sites
from .tensors import address_key, describe, device_tensors, tensors_in

Send = Callable[[dict[str, Any]], None]

_TENSOR_METHODS = ("to", "cpu", "deallocate")
"""Ways to move memory that are not registered operations."""


class _Opened:
    """The device that is followed."""

    def __init__(self, library: Library, device: Any) -> None:
        self.device = device
        self.number = device.id()
        self.account = Account(library.pools(device), library.quantum)
        self.typed: set[int] = set()
        """Buffers whose tensor was described already."""


class _Before(NamedTuple):
    """What is remembered of the moment before an operation."""

    l1_blocks: dict[int, int]
    l1_key: int


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
        self._opened: _Opened | None = None
        self._others = 0
        self._known: dict[tuple[str, int], Measured] = {}
        self._undo: list[Callable[[], None]] = []

    # --- switching on and off -----------------------------------------------------------------------------------

    def install(self) -> None:
        """Put the recorder between the program and the library."""
        decorators = self._library.ttnn.decorators
        for operation in (decorators.FastOperation, decorators.Operation):
            self._wrap(operation, "__call__", lambda self_: self_.python_fully_qualified_name)
        for method in _TENSOR_METHODS:
            self._wrap(self._library.ttnn.Tensor, method, functools.partial(_method_name, method))
        self._undo.append(
            watch_devices(self._library, self._options, opened=self.device_opened, closing=self.device_closing)
        )

    def uninstall(self) -> None:
        """Leave the library as it was."""
        while self._undo:
            self._undo.pop()()

    def _wrap(self, owner: Any, method: str, name_of: Callable[[Any], str]) -> None:
        original = getattr(owner, method, None)
        if original is None:
            return
        recorder = self

        @functools.wraps(original, updated=())
        def recorded(self_: Any, *arguments: Any, **options: Any) -> Any:
            return recorder.operation(name_of(self_), original, (self_, *arguments), options)

        setattr(owner, method, recorded)
        self._undo.append(lambda: setattr(owner, method, original))

    # --- devices ------------------------------------------------------------------------------------------------

    def device_opened(self, device: Any) -> None:
        """Follow the first device; the memory of a second one at the same time is not followed, and that is said."""
        if os.getpid() != self._process:
            return
        with self._lock:
            if self._opened is not None:
                if device is not self._opened.device:
                    self._others += 1
                    self._send({"note": "more than one device is open: only the memory of the first is followed"})
                return
            self._opened = _Opened(self._library, device)
            self._send({"device": device_facts(self._library, device)})

    def device_closing(self, device: Any) -> None:
        """The last view of a device that is about to be closed."""
        with self._lock:
            if self._opened is not None and device is self._opened.device and os.getpid() == self._process:
                self._send({"closed": True, **self._state(self._opened)})
                self._opened = None

    def finish(self) -> None:
        """The program has ended; what it left open is told as it is."""
        if self._opened is not None:
            self.device_closing(self._opened.device)

    # --- operations ---------------------------------------------------------------------------------------------

    def operation(
        self, name: str, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Call an operation and tell what it did; those that it calls itself are part of it."""
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
        index, self._index = self._index, self._index + 1
        site = self._sites.of_caller(name)
        opened = self._opened
        started: dict[str, Any] = {"start": index, "name": name, "file": site.file, "line": site.line}
        if opened is None:
            self._send(started)
            try:
                return function(*arguments, **options)
            except BaseException as error:
                self._send({"end": index, "error": _told(error)})
                raise
        started.update(self._state(opened))
        started.update(self._inputs(opened, (arguments, options)))
        self._send(started)
        l1 = opened.account.live["L1"]
        before = _Before({a: b.bytes_per_bank for a, b in l1.items()}, opened.account.l1_key())
        graph = self._library.graph
        captures = not self._is_captured_by_program()
        if captures:
            graph.begin_graph_capture(graph.RunMode.NORMAL)
        nodes: list[Any] = []
        try:
            try:
                results = function(*arguments, **options)
            finally:
                if captures:
                    nodes = graph.end_graph_capture()
        except BaseException as error:
            self._end(index, opened, nodes, before, Call(function, arguments, options, None), site, error)
            raise
        self._end(index, opened, nodes, before, Call(function, arguments, options, results), site, None)
        return results

    def _end(
        self,
        index: int,
        opened: _Opened,
        nodes: list[Any],
        before: _Before,
        call: Call,
        site: Site,
        error: BaseException | None,
    ) -> None:
        own = [node for node in nodes if self._belongs(node, opened)]
        moves = moves_of(own, self._library.memory_of)
        story = opened.account.apply(moves)
        launched = [move.program for move in moves if move.kind == LAUNCH]
        message: dict[str, Any] = {
            "end": index,
            "born": [_row(buffer) for buffer in story.born],
            "gone": list(story.gone),
            "fullest": {memory: list(top) for memory, top in story.fullest.items()},
        }
        message["l1"], problem = self._l1(opened, own, before, call, story, launched)
        if problem:
            message["unmeasured"] = problem
        if call.results is not None:
            message["tensors"], message["names"] = self._results(opened, call.results, site, story)
        if error is not None:
            message["error"] = _told(error)
        self._send(message)

    # --- parts of the messages ----------------------------------------------------------------------------------

    def _state(self, opened: _Opened) -> dict[str, Any]:
        """The allocator's view, and the buffers that changed since the last operation ended.

        The table of all blocks is long, so it is asked for only when the view's total is not the account's. Two equal
        changes that cancel out are noticed when the address is taken again.
        """
        state, came, gone = [], [], []
        for memory in MEMORIES:
            pool = opened.account.pools[memory]
            if not pool.bytes_per_bank:
                state.append([pool.banks, 0, 0, 0, 0])
                continue
            view = self._library.view(opened.device, memory)
            state.append(list(view))
            if view.allocated != opened.account.allocated[memory]:
                blocks = self._library.blocks(opened.device, memory, pool.base)
                new, lost = opened.account.reconcile(memory, blocks)
                came += [_row(buffer) for buffer in new]
                gone += lost
        return {"state": state, "came": came, "gone": gone}

    def _inputs(self, opened: _Opened, values: Any) -> dict[str, Any]:
        """The buffers an operation reads, and descriptions of those not seen before."""
        uses, told = [], []
        for tensor in device_tensors(self._library, values):
            buffer = _buffer_of(opened, tensor)
            if buffer is None:
                continue
            uses.append(buffer.number)
            if buffer.number not in opened.typed:
                opened.typed.add(buffer.number)
                told.append([buffer.number, describe(tensor)])
        return {"uses": uses, "tensors": told}

    def _results(
        self, opened: _Opened, results: Any, site: Site, story: Story
    ) -> tuple[list[list[Any]], list[list[Any]]]:
        """Descriptions and names of the buffers that the results brought."""
        born = {buffer.number for buffer in story.born}
        told, names = [], []
        tensors = list(tensors_in(self._library, results))
        for position, tensor in enumerate(tensors):
            buffer = _buffer_of(opened, tensor) if self._library.is_on_device(tensor) else None
            if buffer is None or buffer.number not in born or buffer.number in opened.typed:
                continue
            opened.typed.add(buffer.number)
            told.append([buffer.number, describe(tensor)])
            name = _name(site.names, position, len(tensors), is_single=tensors[0] is results)
            if name:
                names.append([buffer.number, name])
        return told, names

    def _l1(
        self, opened: _Opened, nodes: list[Any], before: _Before, call: Call, story: Story, launched: list[str]
    ) -> tuple[list[int], str]:
        """Tensors, circular buffers, dataflow buffers and scratchpads at the worst moment, then 1 if all is known."""
        measured = self._measured(opened, nodes, before, call, launched) if launched else Measured((), "")
        worst = (story.highest_l1, 0, 0, 0)
        for tensors, need in zip(story.l1_at_launch, measured.needs, strict=True):
            moment = (tensors, *(need[1:] if need is not None else (0, 0, 0)))
            if sum(moment) > sum(worst):
                worst = moment
        return [*worst, 0 if measured.problem else 1], measured.problem

    def _measured(
        self, opened: _Opened, nodes: list[Any], before: _Before, call: Call, launched: list[str]
    ) -> Measured:
        unknown: tuple[ProgramNeeds | None, ...] = (None,) * len(launched)
        if not self._measures:
            return Measured(unknown, "not asked for")
        if self._is_tracing(opened.device):
            return Measured(unknown, "inside a trace capture")
        key = (program_key(nodes), before.l1_key)
        known = self._known.get(key)
        if known is not None and used_cached_programs(nodes):
            return known
        measured = measure(
            self._library,
            call,
            device=opened.device,
            launched=launched,
            l1_before=before.l1_blocks,
            l1=opened.account.pools["L1"],
        )
        self._known[key] = measured
        return measured

    # --- what the program itself is doing -----------------------------------------------------------------------

    def _is_captured_by_program(self) -> bool:
        """The program captures a graph itself; a second capture inside one without dispatch would tell nonsense."""
        active = getattr(self._library.graph, "is_graph_capture_active", None)
        return bool(active()) if active else False

    def _is_tracing(self, device: Any) -> bool:
        active = getattr(self._library.core.device, "is_trace_capture_active", None)
        return bool(active(device)) if active else False

    def _belongs(self, node: Any, opened: _Opened) -> bool:
        """Nodes of another device (a second one, a submesh) are none of the followed one's."""
        device = (node["params"] or {}).get("device_id")
        return device is None or not node["node_type"].startswith("buffer_") or int(device) == opened.number


def _method_name(method: str, _: Any) -> str:
    return f"ttnn.Tensor.{method}"


def _row(buffer: Buffer) -> list[Any]:
    return [buffer.number, MEMORIES.index(buffer.memory), buffer.address, buffer.bytes_per_bank, buffer.total_bytes]


def _buffer_of(opened: _Opened, tensor: Any) -> Buffer | None:
    memory, address = address_key(tensor)
    return opened.account.live.get(memory, {}).get(address)


def _name(names: tuple[str, ...], position: int, count: int, *, is_single: bool) -> str:
    """What the program calls one of the results; empty when its statement does not say."""
    if is_single:
        return names[0] if len(names) == 1 else ""
    if len(names) == count:
        return names[position]
    return f"{names[0]}[{position}]" if len(names) == 1 else ""


def _told(error: BaseException) -> str:
    """The library's errors speak for themselves; of others the type matters too."""
    text = error_text(error)
    return text if isinstance(error, RuntimeError) else f"{type(error).__name__}: {text}"
