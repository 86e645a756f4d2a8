# SPDX-License-Identifier: Apache-2.0
"""Replacements for calls that crash on a mock board: traces, waiting for queues, sub-devices.

None of these calls changes the buffers, so a program may continue: the operations of a trace run once, untraced; its
replays do nothing; all queues are one; a sub-device manager counts as loaded. Unknown results are noted.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .ledger import LedgerBuffer
from .library import Library, Patches, describe_tensor, replace_everywhere

Note = Callable[[str], None]

TRACE_NOTE = (
    "a trace was captured: its operations ran once, untraced, and its replays did nothing; its size in the trace "
    "region is not known; its buffers ({kept}) must stay: a replay overwrites their addresses"
)
TRACE_OVERLAP_NOTE = (
    "memory was allocated where the replays of a captured trace write, first by {name}{place} ({size} B per bank): the "
    "next replay overwrites it"
)
POINT_TO_POINT = "ttnn.point_to_point"
POINT_TO_POINT_NOTE = (
    "a program for some chips of a mesh only, which a mock cannot launch: its buffers were taken without it"
)
READ_AS_ZERO = {
    "ttnn.nonzero": (
        "a mock cannot count the elements that are not zero, the count reads as 0: ttnn.nonzero allocates room for "
        "all, and what the program cuts from its result has size 0"
    )
}
"""Operations whose results programs read to choose shapes, with the assumption that holds then."""
SUB_DEVICE_NOTE = (
    "sub-devices are not followed: all cores count as one device, memory of their own allocators is missing"
)


class MockGaps:
    def __init__(self, library: Library, note: Note) -> None:
        self._library = library
        self._note = note
        self._numbers = itertools.count(1)
        self.traces = CapturedTraces()
        self._has_sub_devices = False
        """The program divided its device."""
        self._semaphores: dict[str, Any] = {}
        """For transfers between chips: the library keeps one with each program."""

    def install(self, patches: Patches) -> None:
        """Install the replacements on a mock; a card does all this itself."""
        if not self._library.is_mock:
            return
        ttnn, core = self._library.ttnn, self._library.core
        trace = core.operations.trace
        for name, replacement in (
            ("begin_trace_capture", self._begin),
            ("end_trace_capture", self._end),
            ("execute_trace", _do_nothing),
            ("release_trace", self._release),
        ):
            replace_everywhere(patches, {getattr(trace, name, None), getattr(ttnn, name, None)}, replacement)
        replace_everywhere(patches, {getattr(core.device, "is_trace_capture_active", None)}, self.traces.is_open)
        replace_everywhere(patches, {getattr(ttnn, "wait_for_event", None)}, _do_nothing)
        push = getattr(ttnn.decorators, "push_current_command_queue_id_for_thread", None)
        if push is not None:
            replace_everywhere(patches, {push}, lambda *_, **__: push(0))
        device = getattr(ttnn, "MeshDevice", None)
        synchronize: Any = getattr(ttnn, "synchronize_device", None)
        replace_everywhere(
            patches,
            {synchronize},
            lambda *arguments, **named: synchronize(*self.map_sub_devices(arguments), **self.map_sub_devices(named)),
        )
        for name in ("load_sub_device_manager", "clear_loaded_sub_device_manager", "remove_sub_device_manager"):
            patches.replace(device, name, lambda _: self._load_sub_devices)
        for name in ("set_sub_device_stall_group", "reset_sub_device_stall_group"):
            patches.replace(device, name, lambda _: _do_nothing)

    def _begin(self, mesh_device: Any, *_: Any, **__: Any) -> Any:
        trace = self._library.ttnn.MeshTraceId(next(self._numbers))
        self.traces.begin(mesh_device, trace)
        return trace

    def _end(self, mesh_device: Any, *_: Any, **__: Any) -> None:
        kept = self.traces.end(mesh_device)
        self._note(TRACE_NOTE.format(kept=kept or "none were made"))

    def _release(self, mesh_device: Any, trace_id: Any, *_: Any, **__: Any) -> None:
        self.traces.release(mesh_device, trace_id)

    def find_replacement(self, name: str, arguments: tuple[Any, ...]) -> Callable[..., Any] | None:
        """Return the replacement of an operation that crashes here; None for other operations."""
        if name != POINT_TO_POINT or not self._library.is_mock:
            return None
        device = next((tensor.device() for tensor in self._library.find_device_tensors(arguments)), None)
        return self._allocate_transfer if device is not None and device.get_num_devices() > 2 else None

    def _allocate_transfer(
        self, _: Any, source: Any, sender_coord: Any, receiver_coord: Any, *, topology: Any, **given: Any
    ) -> Any:
        """Allocate the buffers of a transfer between two chips in the library's order: intermediate, result,
        semaphore."""
        ttnn, device, spec = self._library.ttnn, source.device(), source.spec
        between = given.get("intermediate_tensor")
        if between is None and sender_coord != receiver_coord:
            size = self._library.core.operations.point_to_point.p2p_compute_intermediate_tensor_spec
            needed = size(source, sender_coord, receiver_coord, topology)
            between = ttnn.allocate_tensor_on_device(needed, device)
        result = given.get("output_tensor")
        result = ttnn.allocate_tensor_on_device(spec, device) if result is None else result
        program = f"{device.id()} {describe_tensor(source)} {list(sender_coord)} {list(receiver_coord)} {topology}"
        if sender_coord != receiver_coord and program not in self._semaphores:
            first = ttnn.CoreCoord(0, 0)
            cores = ttnn.CoreRangeSet([ttnn.CoreRange(first, first)])
            self._semaphores[program] = ttnn.create_global_semaphore(device, cores, 0)
        return result

    def forget_device(self, device: Any) -> None:
        self._semaphores.clear()
        self.traces.forget_device(device)

    def map_sub_devices(self, value: Any) -> Any:
        """Replace the program's sub-devices in arguments by the only one that exists."""
        kind = getattr(self._library.ttnn, "SubDeviceId", None)
        if not self._has_sub_devices or kind is None:
            return value
        if isinstance(value, kind):
            return kind(0)
        if type(value) is dict:
            return {name: self.map_sub_devices(item) for name, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)(map(self.map_sub_devices, value))
        return value

    def _load_sub_devices(self, *_: Any, **__: Any) -> None:
        self._has_sub_devices = True
        self._note(SUB_DEVICE_NOTE)


def _do_nothing(*_: Any, **__: Any) -> None:
    return None


class _AddressRange(NamedTuple):
    memory: str
    begin: int
    end: int


class CapturedTraces:
    """Memory that replays of traces overwrite, for all devices of a process. A trace keeps addresses, not buffers: what
    its capture freed can be allocated to others, and a replay then overwrites it."""

    def __init__(self) -> None:
        self._capturing: dict[int, Any] = {}
        """The trace being captured, by the number of its device."""
        self._ranges: dict[tuple[int, str], list[_AddressRange]] = {}
        """By device and trace."""

    def begin(self, device: Any, trace: Any) -> None:
        self._capturing[device.id()] = trace
        self._ranges[device.id(), str(trace)] = []

    def end(self, device: Any) -> str:
        """End a capture and describe the memory that must stay; empty when nothing was captured."""
        number = device.id()
        trace = self._capturing.pop(number, None)
        total: Counter[str] = Counter()
        for one in _merge_ranges(self._ranges.get((number, str(trace)), [])):
            total[one.memory] += one.end - one.begin
        return ", ".join(f"{size} B per bank of {memory}" for memory, size in sorted(total.items()))

    def is_open(self, device: Any) -> bool:
        """Return whether a trace is being captured on a device."""
        return device.id() in self._capturing

    def release(self, device: Any, trace: Any) -> None:
        self._ranges.pop((device.id(), str(trace)), None)

    def forget_device(self, device: Any) -> None:
        number = device.id()
        self._capturing.pop(number, None)
        self._ranges = {key: ranges for key, ranges in self._ranges.items() if key[0] != number}

    def count_overwritten(self, device: Any, born: Iterable[LedgerBuffer]) -> int:
        """Return the bytes per bank of new buffers that a replay of an earlier trace overwrites."""
        if not self._ranges:
            return 0
        number = device.id()
        new = [_AddressRange(one.memory, one.address, one.address + one.bytes_per_bank) for one in born]
        own = (number, str(self._capturing[number])) if number in self._capturing else None
        endangered = sum(
            max(0, min(there.end, one.end) - max(there.begin, one.begin))
            for key, ranges in self._ranges.items()
            if key[0] == number and key != own
            for there in _merge_ranges(ranges)
            for one in new
            if one.memory == there.memory
        )
        if own is not None:
            self._ranges[own] += new
        return endangered


def _merge_ranges(ranges: Iterable[_AddressRange]) -> list[_AddressRange]:
    joined: list[_AddressRange] = []
    for one in sorted(ranges):
        if joined and joined[-1].memory == one.memory and one.begin <= joined[-1].end:
            joined[-1] = joined[-1]._replace(end=max(joined[-1].end, one.end))
        else:
            joined.append(one)
    return joined
