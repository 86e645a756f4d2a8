# SPDX-License-Identifier: Apache-2.0
"""The devices, meshes and submeshes that a program has open: each has an allocator of its own and is followed.

Chips of one mesh move in lock step, so one account holds for all of them. A submesh has its own allocator over the same
chips and the same addresses as the mesh that it was cut from.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .device_monitor import Watch
from .event_dispatch import Listener
from .ledger import Buffer
from .library import Library, Patches, address_key

OVERLAP_NOTE = (
    "a mesh and a submesh of it, or two submeshes, hold buffers at the same addresses of the same chips: each has an "
    "allocator of its own that does not know of the other, and one overwrites what the other keeps there"
)


class Followed:
    """Finds the one that a tensor or a call belongs to."""

    def __init__(self, library: Library, listener: Listener, *, measure_programs: bool) -> None:
        self._library = library
        self._listener = listener
        self._measures = measure_programs
        self._watches: dict[int, Watch] = {}
        self._parents: dict[int, int] = {}
        self._latest: Watch | None = None
        """The one that the last operation ran on."""

    def open(self, device: Any, parent: Any = None) -> Watch | None:
        """Follow it from now on; None when it is followed already. Ranks are the lowest that are free."""
        number = device.id()
        if number in self._watches:
            return None
        taken = {watch.rank for watch in self._watches.values()}
        rank = next(rank for rank in range(len(taken) + 1) if rank not in taken)
        watch = Watch(self._library, device, listener=self._listener, measure_programs=self._measures, rank=rank)
        self._watches[number] = watch
        if parent is not None:
            self._parents[number] = parent.id()
        return watch

    def parent_rank(self, watch: Watch) -> int | None:
        """The rank of the mesh that it is a part of."""
        parent = self._watches.get(self._parents.get(watch.device.id(), -1))
        return None if parent is None else parent.rank

    def closing(self, device: Any) -> Iterator[Watch]:
        """Those that end with it, its submeshes first; each is forgotten when the next one is asked for."""
        number = device.id()
        for child in [child for child, parent in self._parents.items() if parent == number]:
            if child in self._watches:
                yield from self.closing(self._watches[child].device)
        watch = self._watches.get(number)
        if watch is not None:
            yield watch
            watch.close()
            del self._watches[number]
            self._parents.pop(number, None)
            if watch is self._latest:
                self._latest = None

    def all(self) -> list[Watch]:
        """In the order in which they were opened."""
        return list(self._watches.values())

    def of_call(self, values: Any) -> Watch | None:
        """The one that a call is about: of its first tensor or device, else of the call before it."""
        if len(self._watches) > 1:
            devices = (value.device() if isinstance(value, self._library.ttnn.Tensor) else value
                       for value in self._library.things_in(values))  # fmt: skip
            found = next((self._watches[device.id()] for device in devices if self._knows(device)), None)
            self._latest = found or self._latest
        if self._latest is None and self._watches:
            self._latest = next(iter(self._watches.values()))
        return self._latest

    def _knows(self, device: Any) -> bool:
        return device is not None and device.id() in self._watches

    def buffer_of(self, tensor: Any) -> tuple[Watch, Buffer] | None:
        """Whose it is and which; None when it is on the host or nobody follows it."""
        if not self._library.is_on_device(tensor):
            return None
        if len(self._watches) > 1:
            device = tensor.device()
            watch = self._watches[device.id()] if self._knows(device) else None
        else:
            watch = next(iter(self._watches.values()), None)
        if watch is None:
            return None
        memory, address = address_key(tensor)
        buffer = watch.account.live.get(memory, {}).get(address)
        return None if buffer is None else (watch, buffer)

    def overlaps(self, watch: Watch, born: tuple[Buffer, ...]) -> bool:
        """Whether one of these lies where another allocator of the same chips has put a buffer."""
        others = [other for other in self._watches.values() if other is not watch and other.chips & watch.chips]
        return any(
            there.address < buffer.address + buffer.bytes_per_bank
            and buffer.address < there.address + there.bytes_per_bank
            for other in others
            for buffer in born
            for there in other.account.live[buffer.memory].values()
        )


class OpenOptions(NamedTuple):
    """What is passed to the library whatever the program asks for; None leaves the program's own choice."""

    l1_small_size: int | None = None
    trace_region_size: int | None = None
    worker_l1_size: int | None = None

    def arguments(self) -> dict[str, Any]:
        """As keyword arguments of the library's opening calls."""
        return {name: value for name, value in self._asdict().items() if value is not None}


_REGIONS = ("l1_small_size", "trace_region_size")
_ORDER = {
    "open_device": (),
    "CreateDevice": ("device_id", "num_command_queues", *_REGIONS, "dispatch_core_config"),
    "CreateDevices": ("device_ids", "num_command_queues", *_REGIONS, "dispatch_core_config"),
    "open_mesh_device": ("mesh_shape", *_REGIONS, "num_command_queues", "dispatch_core_config"),
}
"""Which argument stands where when it is given without its name."""


def watch_devices(
    library: Library,
    options: OpenOptions,
    patches: Patches,
    *,
    opened: Callable[[Any, Any], None],
    closing: Callable[[Any], None],
) -> None:
    """Call back when the program opens or closes a device, or makes a submesh (then with the mesh it is cut from)."""
    changed = options.arguments()

    def opening(name: str, original: Any) -> Any:
        @functools.wraps(original, updated=())
        def open_it(*arguments: Any, **named: Any) -> Any:
            positional = list(arguments)
            for argument, value in changed.items():
                place = _ORDER[name].index(argument) if argument in _ORDER[name] else len(positional)
                if place < len(positional):
                    positional[place] = value
                else:
                    named[argument] = value
            device = original(*positional, **named)
            for one in _devices_in(device):
                opened(one, None)
            return device

        return open_it

    def cutting(original: Any) -> Any:
        @functools.wraps(original, updated=())
        def cut(mesh: Any, *arguments: Any, **named: Any) -> Any:
            made = original(mesh, *arguments, **named)
            for one in made if isinstance(made, (list, tuple)) else [made]:
                opened(one, mesh)
            return made

        return cut

    def ending(original: Any) -> Any:
        @functools.wraps(original, updated=())
        def close_it(*arguments: Any, **named: Any) -> Any:
            for device in (*arguments, *named.values()):
                for one in _devices_in(device):
                    closing(one)
            return original(*arguments, **named)

        return close_it

    for owner in (library.ttnn, library.ttnn.device, library.ttnn.distributed):
        for name in _ORDER:
            patches.replace(owner, name, functools.partial(opening, name))
        for name in ("close_device", "close_mesh_device", "CloseDevice", "CloseDevices"):
            patches.replace(owner, name, ending)
    for name in ("create_submesh", "create_submeshes"):
        patches.replace(library.ttnn.MeshDevice, name, cutting)


def _devices_in(device: Any) -> list[Any]:
    """The one, or all that ``CreateDevices`` gave."""
    return list(device.values()) if isinstance(device, dict) else [device]


def device_facts(library: Library, device: Any) -> dict[str, Any]:
    """What a profile says of the device."""
    grid = device.compute_with_storage_grid_size()
    return {
        "arch": str(device.arch()).rpartition(".")[2].lower(),
        "grid": [grid.x, grid.y],
        "chips": device.get_num_devices(),
        "mesh": list(device.shape),
        "chip_ids": list(device.get_device_ids()),
        "pools": {name: list(pool) for name, pool in library.pools(device).items()},
    }
