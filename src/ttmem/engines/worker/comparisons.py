# SPDX-License-Identifier: Apache-2.0
"""Value comparisons on a mock board are answered, not judged.

They cannot hold there: a mock computes no values, and reading back gives zeros. So once values were read from the
device, a known comparison succeeds and is counted, and a failing assertion of the user's own is not judged. A comparing
function gets its first array twice, so that it reports agreement in its own way. A library function that compares
values of different types or shapes (an array with a number, a list, a row) gets zeros instead: it decides itself which
shapes it accepts.
"""

import functools
import importlib
import numbers
import re
import sys
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any

from .library import Patches
from .value_assertions import is_own_assertion, is_user_file

_LIBRARIES = {
    "math": ("isclose",),
    "torch": ("allclose", "equal", "isclose"),
    "torch.testing": ("assert_close", "assert_allclose"),
    "ttnn": ("pearson_correlation_coefficient",),
    "numpy": ("allclose", "array_equal", "array_equiv", "isclose", "corrcoef"),
    "numpy.testing": (
        "assert_allclose", "assert_array_equal", "assert_array_almost_equal", "assert_almost_equal", "assert_equal",
        "assert_array_less",
    ),
}  # fmt: skip
_COMPARES = re.compile(r"_*(assert|comp|check|compare|verify|validate)_\w+|is_close|compute_pcc|get_pcc")
"""Names under which suites define comparing functions of their own."""
_OWN_HOMES = re.compile(
    r"\w*(utils|utils_for_testing|utility_functions|comparison_funcs|metrics|check)|test_\w+|conftest|__main__"
)
"""The last part of the names of modules in which they define them."""
_ALWAYS_DIFFER = "assert_array_less"
_COMPARED_NAMES = frozenset(("actual", "desired", "expected", "input", "other", "x", "y", "a", "b", "a1", "a2"))
"""Parameter names of the two compared values in libraries."""


class Comparisons:
    """Answers a program's comparisons and counts them."""

    def __init__(self, ttnn: Any, tell: Callable[[int], None] = lambda _: None) -> None:
        """``tell`` receives the count after each skipped comparison: a test may die before its end."""
        self.reads = DeviceReads(ttnn, self._find_new_functions)
        self._report = tell
        self.skipped = 0
        self._depth = 0
        """Depth of answered comparisons: those that they call themselves are not counted again."""
        self._patches = Patches()
        self._known: dict[int, Any] = {}
        """Wrappers, by the identity of the function and of the wrapper."""
        self._sizes: dict[int, tuple[ModuleType, int]] = {}
        """Number of names in each module when it was last searched."""
        self._loaded = (0, 0)

    def install(self) -> None:
        self.reads.install(self._patches)
        self.find_functions()

    def uninstall(self) -> None:
        self._patches.undo()
        self._known.clear()
        self._sizes.clear()

    def begin_test(self, *, has_read: bool = False) -> None:
        """Start a new test, which may use what a fixture has read before."""
        self.skipped = 0
        self.reads.has_read = has_read
        self.find_functions()

    def _find_new_functions(self) -> None:
        """Search again after modules were loaded or the script defined something; programs may read often."""
        if "numpy" in sys.modules:
            importlib.import_module("numpy.testing")  # numpy loads it at its first use, too late for us
        loaded = len(sys.modules), len(vars(sys.modules["__main__"]))
        if loaded != self._loaded:
            self._loaded = loaded
            self.find_functions()

    def find_functions(self) -> None:
        """Search modules that were loaded, or got more names, since the last search."""
        for library, names in _LIBRARIES.items():
            if (module := sys.modules.get(library)) and self._has_grown(module):
                for name in names:
                    self._replace(module, name, is_library=True)
        for full_name, module in list(sys.modules.items()):
            if not isinstance(module, ModuleType) or not self._has_grown(module):
                continue
            if not is_user_file(getattr(module, "__file__", None) or ""):
                continue
            is_home = bool(_OWN_HOMES.fullmatch(full_name.rpartition(".")[2]))
            for name, value in list(vars(module).items()):
                is_own = is_home and isinstance(value, FunctionType) and _COMPARES.fullmatch(name)
                if is_own or id(value) in self._known:
                    self._replace(module, name, is_library=False)

    def _has_grown(self, module: ModuleType) -> bool:
        size = len(vars(module))
        if self._sizes.get(id(module), (None, -1)) == (module, size):
            return False
        self._sizes[id(module)] = (module, size)
        return True

    def _replace(self, owner: ModuleType, name: str, *, is_library: bool) -> None:
        """Install one wrapper per function, under all its names."""
        value = getattr(owner, name, None)
        if value is None or isinstance(value, type):
            return
        if id(value) not in self._known:
            wrapper = self._wrap(value, is_library=is_library)
            self._known[id(value)] = self._known[id(wrapper)] = wrapper
        wrapper = self._known[id(value)]
        if wrapper is not value:
            self._patches.replace(owner, name, lambda _: wrapper)

    def _wrap(self, original: Callable[..., Any], *, is_library: bool) -> Callable[..., Any]:
        @functools.wraps(original, updated=())
        def compare(*arguments: Any, **named: Any) -> Any:
            __tracebackhide__ = True
            asks = self.reads.has_read and not self._depth and is_user_file(sys._getframe(1).f_code.co_filename)
            is_less = getattr(original, "__name__", "") == _ALWAYS_DIFFER
            agreeing = (
                self._find_substitutes(arguments, named, is_library=is_library, is_less=is_less) if asks else None
            )
            if agreeing is None:
                return original(*arguments, **named)
            self._depth += 1
            try:
                result = original(
                    *(agreeing.get(place, value) for place, value in enumerate(arguments)),
                    **{name: agreeing.get(name, value) for name, value in named.items()},
                )
            finally:
                self._depth -= 1
            if result is not False:  # False: other shapes, which a mock does know
                self._skip()
            return result

        return compare

    def _find_substitutes(
        self, arguments: tuple[Any, ...], named: Mapping[str, Any], *, is_library: bool, is_less: bool
    ) -> dict[int | str, Any] | None:
        """Return the values to compare instead, by position or name; None when this is no comparison."""
        if any(map(self.reads.is_device_value, (*arguments, *named.values()))):
            return None  # a function of the program that reads the device itself
        given: list[tuple[int | str, Any]] = [*enumerate(arguments), *named.items()]
        named_so = [one for one in given if one[0] in _COMPARED_NAMES or one[0] in (0, 1)]
        compared = [one for one in named_so if _is_comparable(one[1])] if is_library else []
        if len(compared) != 2:
            compared = [one for one in given if _is_array(one[1])][:2]
        if len(compared) != 2:
            return None
        (place, first), (other_place, second) = compared
        if not is_less and _are_alike(first, second):
            return {other_place: first}
        if is_library:
            return {place: _fill(first, 0), other_place: _fill(second, int(is_less))}
        return None

    def excuse(self, error: BaseException) -> bool:
        """Return whether an error is the program's own assertion after it read values, which a mock does not compute;
        count it."""
        if not (self.reads.has_read and is_own_assertion(error)):
            return False
        self._skip()
        return True

    def _skip(self) -> None:
        self.skipped += 1
        self._report(self.skipped)


def _is_array(value: Any) -> bool:
    kinds = {kind.__name__ for kind in type(value).__mro__}
    return not kinds.isdisjoint(("Tensor", "ndarray", "generic")) and hasattr(value, "shape")


def _is_comparable(value: Any) -> bool:
    return isinstance(value, (numbers.Number, list, tuple, dict)) or _is_array(value)


def _are_alike(first: Any, second: Any) -> bool:
    if _is_array(first) and _is_array(second):
        return tuple(first.shape) == tuple(second.shape)
    if isinstance(first, (list, tuple)):
        return type(first) is type(second) and len(first) == len(second)
    return isinstance(first, numbers.Number) and isinstance(second, numbers.Number)


def _fill(value: Any, number: int) -> Any:
    """Return the same structure, types and shapes with one number everywhere; anything but numbers is kept."""
    if isinstance(value, (list, tuple)):
        filled = [_fill(one, number) for one in value]
        return tuple(filled) if isinstance(value, tuple) else filled
    if isinstance(value, dict):
        return {key: _fill(one, number) for key, one in value.items()}
    if _is_array(value):
        library = sys.modules.get("torch" if hasattr(value, "requires_grad") else "numpy")
        return library.full_like(value, number) if library and hasattr(value, "ndim") else value
    return number if isinstance(value, numbers.Number) else value


_READS = frozenset(
    ("to_torch", "to_numpy", "to_list", "item", "from_device", "cpu", "to", "copy_device_to_host_tensor")
)
"""Last part of the names of operations and methods that may bring values to the host."""
_METHODS = ("to_torch", "to_numpy", "to_list", "item")
"""Methods that read and are not registered operations."""


class DeviceReads:
    """Detects reads of values from the device: on a mock board those are zeros, not results."""

    def __init__(self, ttnn: Any, on_read: Callable[[], None] = lambda: None) -> None:
        self._ttnn = ttnn
        self._on_read = on_read
        self.has_read = False
        """Values came to the host, in any form."""

    def install(self, patches: Patches) -> None:
        for name in _METHODS:
            patches.replace(self._ttnn.Tensor, name, functools.partial(self._wrap_read, name))

    def _wrap_read(self, name: str, original: Any) -> Any:
        @functools.wraps(original, updated=())
        def read(tensor: Any, *arguments: Any, **options: Any) -> Any:
            __tracebackhide__ = True
            result = original(tensor, *arguments, **options)
            self.notice_call(name, (tensor,), result)
            return result

        return read

    def notice_call(self, name: str, arguments: tuple[Any, ...], result: Any) -> None:
        """Record the call of an operation, with its arguments and result."""
        if name.rpartition(".")[2] not in _READS or not any(map(self.is_on_device, arguments)):
            return
        if isinstance(result, self._ttnn.Tensor) and self.is_on_device(result):
            return
        self.has_read = True
        self._on_read()

    def is_on_device(self, value: Any) -> bool:
        return isinstance(value, self._ttnn.Tensor) and bool(value.storage_type() == self._ttnn.DEVICE_STORAGE_TYPE)

    def is_device_value(self, value: Any) -> bool:
        """Return whether a value is a device, or a tensor in device memory."""
        device = getattr(self._ttnn, "MeshDevice", None)
        return self.is_on_device(value) or (device is not None and isinstance(value, device))
