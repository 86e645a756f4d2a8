# SPDX-License-Identifier: Apache-2.0
"""Opening and closing devices as the user's program does it, with what a mock or an option changes of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from .library import Library


class OpenOptions(NamedTuple):
    """What is passed to the library whatever the program asks for; None leaves the program's own choice."""

    l1_small_size: int | None = None
    trace_region_size: int | None = None
    worker_l1_size: int | None = None
    worker_dispatch: bool = False
    """Dispatch on worker cores: a mock n300 has its true 8x8 grid only so."""

    def arguments(self, library: Library) -> dict[str, Any]:
        """As keyword arguments of the library's opening calls."""
        changed: dict[str, Any] = {
            name: value for name, value in self._asdict().items() if name != "worker_dispatch" and value is not None
        }
        if self.worker_dispatch:
            device = library.ttnn.device
            changed["dispatch_core_config"] = device.DispatchCoreConfig(type=device.DispatchCoreType.WORKER)
        return changed


_ORDER = {
    "open_device": (),
    "CreateDevice": ("device_id", "num_command_queues", "l1_small_size", "trace_region_size", "dispatch_core_config"),
    "CreateDevices": ("device_ids", "num_command_queues", "l1_small_size", "trace_region_size", "dispatch_core_config"),
    "open_mesh_device": (
        "mesh_shape",
        "l1_small_size",
        "trace_region_size",
        "num_command_queues",
        "dispatch_core_config",
    ),
}
"""Which argument stands where when it is given without its name."""


def watch_devices(
    library: Library, options: OpenOptions, *, opened: Callable[[Any], None], closing: Callable[[Any], None]
) -> Callable[[], None]:
    """Call back when the program opens or closes a device; returns what undoes it."""
    changed = options.arguments(library)
    undo: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name, None)
        if original is not None:
            undo.append((owner, name, original))
            setattr(owner, name, make(original))

    def opening(name: str) -> Callable[[Any], Any]:
        def make(original: Any) -> Any:
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
                for one in device.values() if isinstance(device, dict) else [device]:
                    opened(one)
                return device

            return open_it

        return make

    def ending(original: Any) -> Any:
        @functools.wraps(original, updated=())
        def close_it(*arguments: Any, **named: Any) -> Any:
            for device in (*arguments, *named.values()):
                for one in device.values() if isinstance(device, dict) else [device]:
                    closing(one)
            return original(*arguments, **named)

        return close_it

    ttnn = library.ttnn
    for owner in (ttnn, ttnn.device, ttnn.distributed):
        for name in _ORDER:
            replace(owner, name, opening(name))
        for name in ("close_device", "close_mesh_device", "CloseDevice", "CloseDevices"):
            replace(owner, name, ending)

    def restore() -> None:
        for owner, name, original in reversed(undo):
            setattr(owner, name, original)

    return restore


def device_facts(library: Library, device: Any) -> dict[str, Any]:
    """What a profile says of the device."""
    grid = device.compute_with_storage_grid_size()
    return {
        "arch": str(device.arch()).rpartition(".")[2].lower(),
        "grid": [grid.x, grid.y],
        "chips": device.get_num_devices(),
        "mesh": list(device.shape),
        "pools": {name: list(pool) for name, pool in library.pools(device).items()},
    }
