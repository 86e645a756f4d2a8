# SPDX-License-Identifier: Apache-2.0
"""Value comparisons on a mock board: they cannot hold, because it computes no values and reading back gives zeros.

One rule for scripts and tests: once values were read from the device, a comparison that is known here succeeds and is
counted, and an assertion of the user's own that fails is not judged. A comparing function gets its first array twice,
so that it answers in its own way that they agree; shapes that differ are compared as they are.
"""

import functools
import importlib
import re
import sys
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any

from .device_reads import DeviceReads
from .library import Patches
from .verdicts import is_own_assertion, is_users_file

_LIBRARIES = {
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


class Comparisons:
    """Answers the comparisons of a program, and counts them."""

    def __init__(self, ttnn: Any, tell: Callable[[int], None] = lambda _: None) -> None:
        """``tell`` gets the count at every comparison that is skipped: a test may not live to its end."""
        self.reads = DeviceReads(ttnn, self._find_if_grown)
        self._tell = tell
        self.skipped = 0
        self._depth = 0
        """Of comparisons that were answered: what they call themselves is no other one."""
        self._patches = Patches()
        self._known: dict[int, Any] = {}
        """Wrappers, by the identities of the functions and of themselves."""
        self._sizes: dict[int, tuple[ModuleType, int]] = {}
        """How many names each module had when it was looked through."""
        self._loaded = (0, 0)

    def install(self) -> None:
        """Begin to notice reads and to answer comparisons."""
        self.reads.install(self._patches)
        self.find()

    def uninstall(self) -> None:
        """Leave the program's modules as they were."""
        self._patches.undo()
        self._known.clear()
        self._sizes.clear()

    def begin(self, *, has_read: bool = False) -> None:
        """Start a new test, which may use what a fixture has read before."""
        self.skipped = 0
        self.reads.has_read = has_read
        self.find()

    def _find_if_grown(self) -> None:
        """Look again where modules were loaded, or the script has defined something; a program may read often."""
        if "numpy" in sys.modules:
            importlib.import_module("numpy.testing")  # numpy loads it when it is used first: later than we look
        loaded = len(sys.modules), len(vars(sys.modules["__main__"]))
        if loaded != self._loaded:
            self._loaded = loaded
            self.find()

    def find(self) -> None:
        """Look for comparing functions in modules that were loaded, or have got more names, since the last time."""
        for library, names in _LIBRARIES.items():
            if (module := sys.modules.get(library)) and self._has_grown(module):
                for name in names:
                    self._replace(module, name, is_library=True)
        for full_name, module in list(sys.modules.items()):
            if not isinstance(module, ModuleType) or not self._has_grown(module):
                continue
            if not is_users_file(getattr(module, "__file__", None) or ""):
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
        """One wrapper per function, under all its names."""
        value = getattr(owner, name, None)
        if value is None or isinstance(value, type):
            return
        if id(value) not in self._known:
            wrapper = self._with_itself(value, is_library=is_library)
            self._known[id(value)] = self._known[id(wrapper)] = wrapper
        wrapper = self._known[id(value)]
        if wrapper is not value:
            self._patches.replace(owner, name, lambda _: wrapper)

    def _with_itself(self, original: Callable[..., Any], *, is_library: bool) -> Callable[..., Any]:
        @functools.wraps(original, updated=())
        def compare(*arguments: Any, **named: Any) -> Any:
            __tracebackhide__ = True
            asks = self.reads.has_read and not self._depth and is_users_file(sys._getframe(1).f_code.co_filename)
            pair = self._pair(arguments, named, also_numbers=is_library) if asks else None
            if pair is None:
                return original(*arguments, **named)
            first, place = pair
            self._skip()
            if getattr(original, "__name__", "") == _ALWAYS_DIFFER:
                return None
            self._depth += 1
            try:
                if isinstance(place, str):
                    return original(*arguments, **{**named, place: first})
                return original(*arguments[:place], first, *arguments[place + 1 :], **named)
            finally:
                self._depth -= 1

        return compare

    def _pair(
        self, arguments: tuple[Any, ...], named: Mapping[str, Any], *, also_numbers: bool
    ) -> tuple[Any, int | str] | None:
        """The first of two values that are compared, and the place of the second; None where this is no comparison."""
        if any(map(self.reads.is_of_device, (*arguments, *named.values()))):
            return None  # a function of the program's that compares what it reads itself
        given: list[tuple[Any, int | str]] = [(value, place) for place, value in enumerate(arguments)]
        given += [(value, name) for name, value in named.items()]
        arrays = [one for one in given if _is_array(one[0])]
        if len(arrays) >= 2:
            (first, _), (second, place) = arrays[:2]
            return (first, place) if tuple(first.shape) == tuple(second.shape) else None
        if also_numbers and len(arguments) >= 2:
            first, second = arguments[:2]
            if isinstance(first, (bool, int, float, complex)) and isinstance(second, (bool, int, float, complex)):
                return first, 1
            if isinstance(first, (list, tuple)) and type(first) is type(second) and len(first) == len(second):
                return first, 1
        return None

    def cannot_judge(self, error: BaseException) -> bool:
        """Whether a program ended by an assertion of its own after it had read values, which a mock does not have."""
        if not (self.reads.has_read and is_own_assertion(error)):
            return False
        self._skip()
        return True

    def _skip(self) -> None:
        self.skipped += 1
        self._tell(self.skipped)


def _is_array(value: Any) -> bool:
    return type(value).__name__ in ("Tensor", "ndarray", "Parameter") and hasattr(value, "shape")
