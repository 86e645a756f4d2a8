# SPDX-License-Identifier: Apache-2.0
"""Which values of a test came from the device: on a mock they are zeros, and whatever was made of them means nothing.

Tensors of torch are followed from where the library hands them out, through everything that torch makes of them, until
Python looks at one (``bool(x)``, ``x.item()``). Arrays of numpy and Python's own numbers are not followed: from then on
the source is asked what they were made of (`provenance`). What was never read stays the test's own, and comparing it is
real.
"""

import functools
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from .library import Patches

READS = ("ttnn.to_torch", "ttnn.from_device", "ttnn.to_numpy", "ttnn.Tensor.cpu", "ttnn.Tensor.to")
"""Operations that may bring values to the host."""
_METHODS = ("to_torch", "to_numpy", "to_list", "item")
"""Ways to read that are not registered operations."""
_LOOKS = {
    "__bool__", "__float__", "__int__", "__index__", "__complex__", "__contains__", "is_nonzero", "item", "equal",
    "allclose", "__format__",
}  # fmt: skip
_LEAVES = {"numpy", "__array__", "tolist", "__iter__"}
"""What torch's functions are called that show Python a value, or many of them."""
_DEEPEST = 3


class DeviceValues:
    """Of one test; ``begin`` starts the next one."""

    def __init__(self, ttnn: Any) -> None:
        self._ttnn = ttnn
        self._tensors: dict[int, weakref.ref[Any]] = {}
        self._modes: ExitStack | None = None
        self._thread = threading.get_ident()
        self.begin()

    def begin(self) -> None:
        """Nothing was read yet."""
        self.has_read = False
        """Values came to the host, in whichever form."""
        self._has_run = False
        """Something was done on a device: tensors of the library's on the host may hold what came of it."""
        self.looked_at = False
        """Python saw one: what it decides may depend on it."""
        self.in_arrays = False
        """Arrays and lists may hold some."""
        self._is_everywhere = False
        """They cannot be followed: any tensor may hold some."""
        self._tensors.clear()

    @contextmanager
    def followed(self) -> Iterator[None]:
        """While a test runs."""
        patches = Patches()
        self._thread = threading.get_ident()
        for name in _METHODS:
            patches.replace(self._ttnn.Tensor, name, functools.partial(self._reading, name))
        try:
            with ExitStack() as self._modes:
                yield
        finally:
            self._modes = None
            patches.undo()

    def _reading(self, name: str, original: Any) -> Any:
        @functools.wraps(original, updated=())
        def read(tensor: Any, *arguments: Any, **options: Any) -> Any:
            __tracebackhide__ = True
            result = original(tensor, *arguments, **options)
            self.came(f"ttnn.Tensor.{name}", (tensor,), result)
            return result

        return read

    def came(self, name: str, arguments: tuple[Any, ...], result: Any) -> None:
        """An operation of the library that may have read values has given this."""
        if name not in READS and name.rpartition(".")[2] not in _METHODS:
            self._has_run = self._has_run or any(map(self._is_on_device, (result, *arguments)))
            return
        source = next((one for one in arguments if isinstance(one, self._ttnn.Tensor)), None)
        if source is None or not (self._has_run or self._is_on_device(source)):
            return
        if isinstance(result, self._ttnn.Tensor):
            self.has_read |= not self._is_on_device(result)
        elif type(result).__module__.partition(".")[0] == "torch":
            self.has_read = True
            self._follow_torch()
            self._keep(result)
        else:
            self.has_read = self.looked_at = self.in_arrays = True

    def _is_on_device(self, value: Any) -> bool:
        return isinstance(value, self._ttnn.Tensor) and bool(value.storage_type() == self._ttnn.DEVICE_STORAGE_TYPE)

    def holds(self, value: Any) -> bool:
        """Whether a tensor or an array may hold values from the device."""
        kind = type(value).__module__.partition(".")[0]
        if kind == "torch":
            known = self._tensors.get(id(value))
            return self._is_everywhere or (known is not None and known() is value)
        return self.has_read if kind == "ttnn" else self.in_arrays

    def tells(self, value: Any) -> bool | None:
        """Whether a value came from the device; None where that cannot be seen, because it is not followed."""
        kind = type(value).__module__.partition(".")[0]
        if kind == "torch" and hasattr(value, "untyped_storage"):
            return self.holds(value)
        if kind == "ttnn" or self.is_of_device(value):
            return self.is_of_device(value) or isinstance(value, self._ttnn.Tensor)
        return False if kind == "numpy" and hasattr(value, "shape") and not self.in_arrays else None

    def tells_of_copies(self, value: Any) -> bool | None:
        """The same where a tensor that seems to be the test's own is doubted: some ways to copy are not followed."""
        return self.tells(value) or (None if hasattr(value, "untyped_storage") else self.tells(value))

    def is_of_device(self, value: Any) -> bool:
        """Whether it is a device, or a tensor that lies on one."""
        device = getattr(self._ttnn, "MeshDevice", None)
        return self._is_on_device(value) or (device is not None and isinstance(value, device))

    def _keep(self, tensor: Any) -> None:
        key = id(tensor)
        self._tensors[key] = weakref.ref(tensor, lambda dead: self._forget(key, dead))

    def _forget(self, key: int, dead: Any) -> None:
        if self._tensors.get(key) is dead:
            del self._tensors[key]

    def _follow_torch(self) -> None:
        """From the first read on: what a test computes before it costs nothing."""
        if threading.get_ident() != self._thread:  # torch would follow that thread alone
            self.looked_at = self._is_everywhere = True
        if self._modes is None or self._is_everywhere or not (torch := sys.modules.get("torch")):
            return
        stack, self._modes = self._modes, None
        values = self

        class Following(torch.overrides.TorchFunctionMode):  # type: ignore[name-defined, misc]
            def __torch_function__(self, function: Any, _: Any, arguments: Any = (), options: Any = None) -> Any:
                __tracebackhide__ = True
                result = function(*arguments, **(options or {}))
                values._made(function, arguments, options or {}, result)
                return result

        stack.enter_context(Following())

    def _made(self, function: Any, arguments: Any, options: Any, result: Any) -> None:
        """torch made a result: it holds values from the device if an argument does."""
        given = (*arguments, *options.values()) if options else arguments
        if not any(map(self._has_any, given)):
            return
        name = getattr(function, "__name__", "")
        if name in _LOOKS or name in _LEAVES:
            self.looked_at = True
            self.in_arrays |= name in _LEAVES
        if name == "__setitem__" or (name.endswith("_") and not name.endswith("__")):
            self._keep_all(arguments[:1])
        self._keep_all((options.get("out"), result))

    def _has_any(self, value: Any, depth: int = 0) -> bool:
        if type(value) in (list, tuple) and depth < _DEEPEST:
            return any(self._has_any(item, depth + 1) for item in value)
        if type(value).__module__ == "numpy":
            return self.in_arrays and hasattr(value, "shape")
        return id(value) in self._tensors and self._tensors[id(value)]() is value

    def _keep_all(self, value: Any, depth: int = 0) -> None:
        if isinstance(value, (list, tuple)) and depth < _DEEPEST:
            for item in value:
                self._keep_all(item, depth + 1)
        elif hasattr(value, "untyped_storage"):
            self._keep(value)
