# SPDX-License-Identifier: Apache-2.0
"""The open devices, meshes and submeshes of a program: each has an allocator and a monitor of its own.

Chips of a mesh move in lock step, so one ledger serves all of them. A submesh has its own allocator over the same chips
and addresses as its mesh.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .device_monitor import DeviceMonitor
from .event_dispatch import EventDispatcher
from .ledger import LedgerBuffer
from .library import Library, Patches, find_address

OVERLAP_NOTE = (
    "a mesh and a submesh of it, or two submeshes, hold buffers at the same addresses of the same chips: each has an "
    "allocator of its own that does not know of the other, and one overwrites what the other keeps there"
)


class OpenDevices:
    def __init__(self, library: Library, dispatcher: EventDispatcher, *, measure_programs: bool) -> None:
        self._library = library
        self._dispatcher = dispatcher
        self._is_measuring = measure_programs
        self._monitors: dict[int, DeviceMonitor] = {}
        self._parents: dict[int, int] = {}
        self._latest: DeviceMonitor | None = None
        """The monitor of the last operation."""

    def open(self, device: Any, parent: Any = None) -> DeviceMonitor | None:
        """Monitor a device; return None when it is monitored already. Ranks are the lowest free numbers."""
        number = device.id()
        if number in self._monitors:
            return None
        taken = {monitor.rank for monitor in self._monitors.values()}
        rank = next(rank for rank in range(len(taken) + 1) if rank not in taken)
        monitor = DeviceMonitor(
            self._library, device, dispatcher=self._dispatcher, measure_programs=self._is_measuring, rank=rank
        )
        self._monitors[number] = monitor
        if parent is not None:
            self._parents[number] = parent.id()
        return monitor

    def find_parent_rank(self, monitor: DeviceMonitor) -> int | None:
        """Return the rank of the mesh that a submesh belongs to."""
        parent = self._monitors.get(self._parents.get(monitor.device.id(), -1))
        return None if parent is None else parent.rank

    def close(self, device: Any) -> Iterator[DeviceMonitor]:
        """Yield the monitors that close with a device, submeshes first; each is dropped before the next one is
        yielded."""
        number = device.id()
        for child in [child for child, parent in self._parents.items() if parent == number]:
            if child in self._monitors:
                yield from self.close(self._monitors[child].device)
        monitor = self._monitors.get(number)
        if monitor is not None:
            yield monitor
            monitor.close()
            del self._monitors[number]
            self._parents.pop(number, None)
            if monitor is self._latest:
                self._latest = None

    def list_monitors(self) -> list[DeviceMonitor]:
        """Return the monitors in the order of opening."""
        return list(self._monitors.values())

    def find_called(self, values: Any) -> DeviceMonitor | None:
        """Return the monitor of a call's first tensor or device, else that of the call before it."""
        if len(self._monitors) > 1:
            devices = (value.device() if isinstance(value, self._library.ttnn.Tensor) else value
                       for value in self._library.find_values(values))  # fmt: skip
            found = next((self._monitors[device.id()] for device in devices if self._has_device(device)), None)
            self._latest = found or self._latest
        if self._latest is None and self._monitors:
            self._latest = next(iter(self._monitors.values()))
        return self._latest

    def _has_device(self, device: Any) -> bool:
        return device is not None and device.id() in self._monitors

    def find_buffer(self, tensor: Any) -> tuple[DeviceMonitor, LedgerBuffer] | None:
        """Return the monitor and buffer of a tensor; None for host tensors and unknown devices."""
        if not self._library.is_on_device(tensor):
            return None
        if len(self._monitors) > 1:
            device = tensor.device()
            monitor = self._monitors[device.id()] if self._has_device(device) else None
        else:
            monitor = next(iter(self._monitors.values()), None)
        if monitor is None:
            return None
        memory, address = find_address(tensor)
        buffer = monitor.ledger.live.get(memory, {}).get(address)
        return None if buffer is None else (monitor, buffer)

    def has_overlap(self, monitor: DeviceMonitor, born: tuple[LedgerBuffer, ...]) -> bool:
        """Return whether a buffer overlaps one of another allocator on the same chips."""
        others = [other for other in self._monitors.values() if other is not monitor and other.chips & monitor.chips]
        return any(
            there.address < buffer.address + buffer.bytes_per_bank
            and buffer.address < there.address + there.bytes_per_bank
            for other in others
            for buffer in born
            for there in other.ledger.live[buffer.memory].values()
        )


class OpenOptions(NamedTuple):
    """Values passed to the library instead of the program's; None leaves the program's own."""

    l1_small_size: int | None = None
    trace_region_size: int | None = None
    worker_l1_size: int | None = None

    def to_arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the library's opening calls."""
        return {name: value for name, value in self._asdict().items() if value is not None}


_REGIONS = ("l1_small_size", "trace_region_size")
_ORDER = {
    "open_device": (),
    "CreateDevice": ("device_id", "num_command_queues", *_REGIONS, "dispatch_core_config"),
    "CreateDevices": ("device_ids", "num_command_queues", *_REGIONS, "dispatch_core_config"),
    "open_mesh_device": ("mesh_shape", *_REGIONS, "num_command_queues", "dispatch_core_config"),
}
"""Positions of the arguments when given without a name."""


def patch_device_calls(
    library: Library,
    options: OpenOptions,
    patches: Patches,
    *,
    on_open: Callable[[Any, Any], None],
    on_close: Callable[[Any], None],
) -> None:
    """Call back when the program opens or closes a device, or creates a submesh (with its parent mesh)."""
    changed = options.to_arguments()

    def wrap_open(name: str, original: Any) -> Any:
        @functools.wraps(original, updated=())
        def open_it(*arguments: Any, **named: Any) -> Any:
            positional = list(arguments)
            for argument, value in changed.items():
                position = _ORDER[name].index(argument) if argument in _ORDER[name] else len(positional)
                if position < len(positional):
                    positional[position] = value
                else:
                    named[argument] = value
            device = original(*positional, **named)
            for one in _list_devices(device):
                on_open(one, None)
            return device

        return open_it

    def wrap_submesh(original: Any) -> Any:
        @functools.wraps(original, updated=())
        def cut(mesh: Any, *arguments: Any, **named: Any) -> Any:
            devices = original(mesh, *arguments, **named)
            for one in devices if isinstance(devices, (list, tuple)) else [devices]:
                on_open(one, mesh)
            return devices

        return cut

    def wrap_close(original: Any) -> Any:
        @functools.wraps(original, updated=())
        def close_it(*arguments: Any, **named: Any) -> Any:
            for device in (*arguments, *named.values()):
                for one in _list_devices(device):
                    on_close(one)
            return original(*arguments, **named)

        return close_it

    for owner in (library.ttnn, library.ttnn.device, library.ttnn.distributed):
        for name in _ORDER:
            patches.replace(owner, name, functools.partial(wrap_open, name))
        for name in ("close_device", "close_mesh_device", "CloseDevice", "CloseDevices"):
            patches.replace(owner, name, wrap_close)
    for name in ("create_submesh", "create_submeshes"):
        patches.replace(library.ttnn.MeshDevice, name, wrap_submesh)


def _list_devices(device: Any) -> list[Any]:
    """Return the device, or all that ``CreateDevices`` returned."""
    return list(device.values()) if isinstance(device, dict) else [device]


def read_device_facts(library: Library, device: Any) -> dict[str, Any]:
    grid = device.compute_with_storage_grid_size()
    return {
        "arch": str(device.arch()).rpartition(".")[2].lower(),
        "grid": [grid.x, grid.y],
        "chips": device.get_num_devices(),
        "mesh": list(device.shape),
        "chip_ids": list(device.get_device_ids()),
        "pools": {name: list(pool) for name, pool in library.read_regions(device).items()},
    }
