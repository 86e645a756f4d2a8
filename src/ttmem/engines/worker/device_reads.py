# SPDX-License-Identifier: Apache-2.0
"""Whether a program has read values from the device: on a mock board those are zeros, not results."""

import functools
from collections.abc import Callable
from typing import Any

from .library import Patches

_READS = frozenset(
    ("to_torch", "to_numpy", "to_list", "item", "from_device", "cpu", "to", "copy_device_to_host_tensor")
)
"""The last part of the names of operations and methods that may bring values to the host."""
_METHODS = ("to_torch", "to_numpy", "to_list", "item")
"""Ways to read that are not registered operations."""


class DeviceReads:
    """Notices when values come from the device to the host."""

    def __init__(self, ttnn: Any, on_read: Callable[[], None] = lambda: None) -> None:
        self._ttnn = ttnn
        self._on_read = on_read
        self.has_read = False
        """Values came to the host, in whichever form."""

    def install(self, patches: Patches) -> None:
        """Notice reads through methods of tensors too."""
        for name in _METHODS:
            patches.replace(self._ttnn.Tensor, name, functools.partial(self._reading, name))

    def _reading(self, name: str, original: Any) -> Any:
        @functools.wraps(original, updated=())
        def read(tensor: Any, *arguments: Any, **options: Any) -> Any:
            __tracebackhide__ = True
            result = original(tensor, *arguments, **options)
            self.came(name, (tensor,), result)
            return result

        return read

    def came(self, name: str, arguments: tuple[Any, ...], result: Any) -> None:
        """An operation of the library was called with these arguments and gave this result."""
        if name.rpartition(".")[2] not in _READS or not any(map(self.is_on_device, arguments)):
            return
        if isinstance(result, self._ttnn.Tensor) and self.is_on_device(result):
            return
        self.has_read = True
        self._on_read()

    def is_on_device(self, value: Any) -> bool:
        """Whether this is a tensor in the memory of a device."""
        return isinstance(value, self._ttnn.Tensor) and bool(value.storage_type() == self._ttnn.DEVICE_STORAGE_TYPE)

    def is_of_device(self, value: Any) -> bool:
        """Whether this is a device, or a tensor in its memory."""
        device = getattr(self._ttnn, "MeshDevice", None)
        return self.is_on_device(value) or (device is not None and isinstance(value, device))
