# SPDX-License-Identifier: Apache-2.0
"""Records a program's ttnn operations and what each did to the device's memory.

Messages, in order: ``device`` when one is opened; ``start`` before an operation (so it is known if the process dies in
it) with the allocator's view of the four memories; ``end`` after it; ``closed`` with the last view. Buffers have
numbers: ``came`` and ``gone`` changed outside operations (``del x``), ``born`` and ``gone`` of ``end`` inside. ``rank``
is the device among those that are open at the same time; each has operations, states and buffers of its own.
"""

import contextlib
import functools
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import getpid
from pathlib import Path
from threading import get_ident
from types import TracebackType
from typing import Any

from .call_editor import CallEditor
from .call_sites import CallSite, CallSites
from .device_monitor import CallRecord, DeviceMonitor, MemoryState
from .event_dispatch import EventDispatcher, GraphCaptures
from .ledger import CallEffect, LedgerBuffer
from .library import Library, Patches, describe_tensor, replace_everywhere
from .mock_gaps import POINT_TO_POINT_NOTE, READ_AS_ZERO, TRACE_OVERLAP_NOTE, MockGaps
from .open_devices import OVERLAP_NOTE, OpenDevices, OpenOptions, patch_device_calls, read_device_facts
from .protocol import MEMORIES, format_typed_error
from .tensor_paths import find_tensors
from .upload_origins import UploadOrigins

Send = Callable[[dict[str, Any]], None]

_FIRST_WALK, _WALK_GROWTH = 8, 1.5
_TENSOR_METHODS = ("to", "cpu", "deallocate")
"""Methods that move memory and are not registered operations."""
_FUNCTIONS = ("create_global_semaphore", "create_global_circular_buffer")
_STRANGERS_NOTE = "the program used memory of a device that it opened in a way that is not recorded; it is left out"
_THREADS_NOTE = (
    "more than one thread called operations: memory that one thread frees while another thread's operation runs counts "
    "until that operation ends"
)
_BROKEN_NOTE = "the recording ends at operation {index} ({name}): ttmem failed there with {error}"


class Recorder:
    """Records a program's operations, in the process that created it: forked children are not recorded."""

    def __init__(
        self,
        library: Library,
        send: Send,
        *,
        options: OpenOptions,
        measure_programs: bool = True,
        edits: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._library = library
        self._send = send
        self._options = options
        self._process = getpid()
        self._lock = threading.RLock()
        self._depth = threading.local()
        self._sites = CallSites((library.folder, str(Path(__file__).resolve().parent)))
        self._index = 0
        self._last_operations: dict[int, int] = {}
        """Index of the last operation of each device, by rank."""
        self._captures = GraphCaptures(library)
        self._dispatcher = EventDispatcher(self._captures)
        self._devices = OpenDevices(library, self._dispatcher, measure_programs=measure_programs)
        self._described: set[tuple[int, int]] = set()
        """Buffers whose tensor was described already, by rank and number."""
        self._next_walk = _FIRST_WALK
        """Index of the operation before which the program's objects are searched for names again."""
        self._buffer_of: dict[int, tuple[int, int]] = {}
        """Tensor objects by identity -> their last buffer: a freed tensor cannot tell it."""
        self._is_broken = False
        """A fault of ttmem ended the recording."""
        self._noted: set[str] = set()
        """Notes that were sent; each is sent once."""
        self._threads: set[int] = set()
        self._patches = Patches()
        self._origins = UploadOrigins(library)
        self._editor = CallEditor(library, edits, self._note_once)
        self._gaps = MockGaps(library, lambda text: self._send({"note": text}))
        self.on_result: Callable[[str, tuple[Any, ...], Any], None] = lambda *_: None
        """Called with the arguments and result of every operation."""

    def install(self) -> None:
        decorators = self._library.ttnn.decorators
        for operation in (decorators.FastOperation, decorators.Operation):
            self._wrap(operation, "__call__")
        for method in _TENSOR_METHODS:
            self._wrap(self._library.ttnn.Tensor, method, f"ttnn.Tensor.{method}")
        for function in _FUNCTIONS:
            self._wrap_function(function)
        self._captures.patch_program_captures(self._library, self._patches)
        self._gaps.install(self._patches)
        self._library.patch_cache_misses(self._patches)

        patch_device_calls(
            self._library, self._options, self._patches, on_open=self.follow_device, on_close=self.unfollow_device
        )

    def follow_here(self) -> None:
        """Record this process from now on: a fork of the one that created the recorder, before it opened any device."""
        self._process = getpid()

    def uninstall(self) -> None:
        self._patches.undo()

    def _wrap(self, owner: Any, method: str, name: str = "") -> None:
        """Record calls of a method, under this name or that of its operation."""
        recorder = self

        def make(original: Any) -> Any:
            @functools.wraps(original, updated=())
            def run_recorded(self_: Any, *arguments: Any, **options: Any) -> Any:
                __tracebackhide__ = True  # pytest shows the test's frames and the library's, not ours
                call_once = name or self_.python_fully_qualified_name
                return recorder.operation(call_once, original, (self_, *arguments), options)

            return run_recorded

        self._patches.replace(owner, method, make)

    def _wrap_function(self, name: str) -> None:
        """Record calls of a function that allocates and is no registered operation, under all its names."""
        ttnn = self._library.ttnn
        original = getattr(ttnn, name, None)
        if original is None:
            return

        @functools.wraps(original, updated=())
        def run_recorded(*arguments: Any, **options: Any) -> Any:
            __tracebackhide__ = True
            return self.operation(f"ttnn.{name}", original, arguments, options)

        replace_everywhere(self._patches, {original}, run_recorded)

    def follow_device(self, device: Any, parent: Any) -> None:
        """Monitor a device, or a submesh, which has its own allocator."""
        if getpid() != self._process or self._is_broken:
            return
        with self._lock, self._guard("opening a device"):
            monitor = self._devices.open(device, parent)
            if monitor is not None:
                self._forget(monitor)
                facts = {"rank": monitor.rank, "parent": self._devices.find_parent_rank(monitor)}
                self._send({"device": {**read_device_facts(self._library, device), **facts}})

    def unfollow_device(self, device: Any) -> None:
        """Send the last view of a device that is about to close, and of its submeshes."""
        with self._lock, self._guard("closing a device"):
            if getpid() == self._process and not self._is_broken:
                for place, monitor in enumerate(self._devices.close(device)):
                    state = monitor.read_state()
                    # Freed tensors have no name: most tests have dropped everything by now.
                    if not place and any(any(one.ledger.live.values()) for one in self._devices.list_monitors()):
                        self._send_paths()
                    self._send({"closed": True, "rank": monitor.rank, **encode_state(state)})
                    self._gaps.forget_device(monitor.device)

    def finish(self) -> None:
        """Send the devices that the program left open as they are."""
        for monitor in self._devices.list_monitors():
            self.unfollow_device(monitor.device)

    def _forget(self, monitor: DeviceMonitor) -> None:
        """Forget the buffers of an earlier device of this rank: numbers start at 0 again."""
        self._described = {key for key in self._described if key[0] != monitor.rank}
        self._buffer_of = {tensor: key for tensor, key in self._buffer_of.items() if key[0] != monitor.rank}

    def _note_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._send({"note": text})

    def operation(
        self, name: str, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Call an operation and send its effect; operations that it calls itself are part of it."""
        __tracebackhide__ = True
        if getpid() != self._process or getattr(self._depth, "inside", False) or self._is_broken:
            return function(*arguments, **options)
        outcomes: list[tuple[Any, BaseException | None]] = []
        """Result or error of the first call; any other error is a fault of ttmem."""

        def call_once(*arguments: Any, **options: Any) -> Any:
            __tracebackhide__ = True
            try:
                returned = function(*arguments, **options)
            except BaseException as error:
                outcomes.append((None, error))
                raise
            outcomes.append((returned, None))
            return returned

        with self._lock:
            self._depth.inside = was_recorded = True
            try:
                results = self._record(name, call_once, arguments, options)
            except Exception as error:
                if (outcomes and outcomes[0][1] is error) or _is_raised_by_handler(error.__traceback__):
                    raise
                was_recorded = False
                self._break_off(name, error)
            finally:
                self._depth.inside = False
                first = outcomes[:1]
                outcomes.clear()  # an error holds the frames that hold it, and they hold tensors
            if not was_recorded:
                results = _return_outcome(first[0]) if first else function(*arguments, **options)
        self.on_result(name, (*arguments, *options.values()), results)
        return results

    @contextlib.contextmanager
    def _guard(self, name: str) -> Iterator[None]:
        """End the recording on a fault of ttmem within, and nothing else."""
        try:
            yield
        except Exception as error:
            if _is_raised_by_handler(error.__traceback__):
                raise
            self._break_off(name, error)

    def _break_off(self, name: str, error: Exception) -> None:
        """Stop recording after a fault of ttmem; the program continues."""
        self._is_broken = True
        with contextlib.suppress(Exception):
            self._send({"note": _BROKEN_NOTE.format(index=self._index - 1, name=name, error=format_typed_error(error))})
        with contextlib.suppress(Exception):
            self._dispatcher.flush()

    def _find_site(self, name: str) -> CallSite:
        return self._sites.find_caller(name)

    def _record(
        self, name: str, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        __tracebackhide__ = True
        index, self._index = self._index, self._index + 1
        if (thread := get_ident()) not in self._threads:
            self._threads.add(thread)
            if len(self._threads) > 1:
                self._note_once(_THREADS_NOTE)
        site = self._find_site(name)
        arguments, options = self._editor.resolve((arguments, options))
        monitor = self._devices.find_called((arguments, options))
        started: dict[str, Any] = {"start": index, "name": name, "file": site.file, "line": site.line}
        started |= {"path": site.path, "named_at": site.named_at, "options": list(options)}
        started["origin"] = self._origins.find_origin((*arguments, *options.values()))
        if monitor is None:
            self._last_operations[0] = self._last_operations.get(0, -1) + 1  # without a device it counts for the first
            self._send(started)
            try:
                results = function(*arguments, **options)
            except BaseException as error:
                self._send({"end": index, "error": format_typed_error(error)})
                raise
            self._origins.inherit(results, started["origin"])
            self._send({"end": index})
            return results
        place = self._last_operations[monitor.rank] = self._last_operations.get(monitor.rank, -1) + 1
        is_edited = monitor.rank == self._editor.rank
        if is_edited:
            self._editor.allocate_early(monitor.device)
        state = encode_state(monitor.read_state())
        self._send({**started, "rank": monitor.rank, **state, **self._describe_inputs(monitor, (arguments, options))})
        if index >= self._next_walk:
            self._next_walk = int(index * _WALK_GROWTH) + 1
            self._send_paths()
        if self._library.is_mock and name in READ_AS_ZERO:
            self._note_once(READ_AS_ZERO[name])
        arguments, options = self._gaps.map_sub_devices(arguments), self._gaps.map_sub_devices(options)
        replacement = self._gaps.find_replacement(name, arguments)

        def finish_call(record: CallRecord) -> None:
            self._send_end(
                index, monitor, site, record._replace(problem=POINT_TO_POINT_NOTE) if replacement else record
            )
            overlap = self._gaps.traces.count_overwritten(monitor.device, record.effect.born)
            if overlap and TRACE_OVERLAP_NOTE not in self._noted:
                self._noted.add(TRACE_OVERLAP_NOTE)
                place = f" ({site.file}:{site.line})" if site.file else ""
                self._send({"note": TRACE_OVERLAP_NOTE.format(name=name, place=place, size=overlap)})

        function = replacement or function
        if is_edited:
            function, arguments, options = self._editor.edit_call(place, function, arguments, options)
        results = monitor.call(function, arguments, options, finish_call, after_state=True)
        if is_edited:
            self._editor.free_tensors(place, results)
        return results

    def _send_end(self, index: int, monitor: DeviceMonitor, site: CallSite, record: CallRecord) -> None:
        needs = [-1 if need is None else sum(need[1:]) for need in record.needs]
        message = encode_end(index, record.effect, [*record.l1, 0 if record.problem else 1], needs)
        if record.problem:
            message["unmeasured"] = record.problem
        if record.error is not None:
            message["error"] = format_typed_error(record.error)
        else:
            message["tensors"], message["names"] = self._describe_results(monitor, record, site)
        self._send(message)
        if self._dispatcher.saw_unknown_device:
            self._note_once(_STRANGERS_NOTE)
        if OVERLAP_NOTE not in self._noted and self._devices.has_overlap(monitor, record.effect.born):
            self._note_once(OVERLAP_NOTE)

    def _send_paths(self) -> None:
        """Send the paths at which the program keeps its tensors."""
        paths: dict[int, dict[int, list[Any]]] = {}
        for found in find_tensors(self._library.ttnn.Tensor, self._sites.is_user_file, sys._getframe(1)):
            if owner := self._devices.find_buffer(found.tensor):
                monitor, buffer = owner
                row = [buffer.number, found.path, found.is_lasting]
                paths.setdefault(monitor.rank, {}).setdefault(buffer.number, row)
        for rank, rows in paths.items():
            self._send({"paths": list(rows.values()), "rank": rank})

    def _describe_inputs(self, monitor: DeviceMonitor, values: Any) -> dict[str, Any]:
        """Return the buffers that an operation reads, descriptions of new ones, and inputs that were freed before.

        The latter are sent before the call: some operations crash on such an input instead of refusing it.
        """
        uses, described, freed = [], [], []
        for tensor in self._library.find_tensors(values):
            if self._library.is_freed(tensor):
                _, number = self._buffer_of.get(id(tensor), (0, -1))
                freed.append([number, list(tensor.shape), tensor.dtype.name.lower()])
            owner, buffer = self._devices.find_buffer(tensor) or (monitor, None)
            if buffer is None or owner is not monitor:
                continue
            key = (monitor.rank, buffer.number)
            uses.append(buffer.number)
            self._buffer_of[id(tensor)] = key
            if key not in self._described:
                self._described.add(key)
                described.append([buffer.number, describe_tensor(tensor)])
        return {"uses": uses, "tensors": described, **({"freed": freed} if freed else {})}

    def _describe_results(
        self, monitor: DeviceMonitor, record: CallRecord, site: CallSite
    ) -> tuple[list[list[Any]], list[list[Any]]]:
        """Return descriptions and names of the buffers of new results."""
        born = {buffer.number for buffer in record.effect.born}
        described, names = [], []
        tensors = list(self._library.find_tensors(record.results))
        for position, tensor in enumerate(tensors):
            owner, buffer = self._devices.find_buffer(tensor) or (monitor, None)
            if buffer is None:
                continue
            key = (owner.rank, buffer.number)
            self._buffer_of[id(tensor)] = key
            if owner is not monitor or buffer.number not in born or key in self._described:
                continue
            self._described.add(key)
            described.append([buffer.number, describe_tensor(tensor)])
            name = _name_result(site.names, position, len(tensors), is_single=tensors[0] is record.results)
            if name:
                names.append([buffer.number, name])
        return described, names


def _return_outcome(outcomes: tuple[Any, BaseException | None]) -> Any:
    returned, error = outcomes
    if error is not None:
        raise error
    return returned


def _is_raised_by_handler(frames: TracebackType | None) -> bool:
    """Return whether a signal handler of the program raised it: handlers run anywhere, in our code too."""
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()} - {None}
    while frames is not None:
        if frames.tb_frame.f_code in handlers:
            return True
        frames = frames.tb_next
    return False


def encode_end(index: int, effect: CallEffect, l1: list[int], needs: Sequence[int]) -> dict[str, Any]:
    """Encode the effect of an operation; ``l1`` has its parts, and whether all are known.

    ``needs`` are the static bytes per core of the launched programs, -1 where unknown.
    """
    return {
        "end": index,
        "born": [_encode_buffer(buffer) for buffer in effect.born],
        "gone": list(effect.gone),
        "fullest": {memory: list(top) for memory, top in effect.fullest.items()},
        "l1": l1,
        "order": list(effect.order),
        "needs": list(needs),
    }


def _encode_buffer(buffer: LedgerBuffer) -> list[Any]:
    return [buffer.number, MEMORIES.index(buffer.memory), buffer.address, buffer.bytes_per_bank, buffer.total_bytes]


def encode_state(state: MemoryState) -> dict[str, Any]:
    return {
        "state": [list(view) for view in state.views],
        "came": [_encode_buffer(buffer) for buffer in state.came],
        "gone": state.gone,
        "order": state.order,
        "brief": [_encode_buffer(buffer) for buffer in state.brief],
    }


def _name_result(names: tuple[str, ...], position: int, count: int, *, is_single: bool) -> str:
    """Return the program's name for a result; empty when its statement has none."""
    if is_single:
        return names[0] if len(names) == 1 else ""
    if len(names) == count:
        return names[position]
    return f"{names[0]}[{position}]" if len(names) == 1 else ""
