# SPDX-License-Identifier: Apache-2.0
"""Opening and closing devices as the user's program does it, with what a mock or an option changes of it."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from .library import Library, Patches


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
