# SPDX-License-Identifier: Apache-2.0
"""Value comparisons on a mock board: they cannot hold, because nothing is computed and reading back gives zeros.

A function that compares two tensors of the same shape, of which one came from the device, compares the first one with
itself, so that it answers in its own way that they agree, and shapes are still checked. What a test asserts about such
values in its own words cannot be answered: that ends the test, which is then not judged. Both are counted, so that a
test run for memory says how much it did not check. What a test compares of its own is compared.
"""

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from .device_values import DeviceValues
from .library import Patches
from .verdicts import ARITHMETIC, OF_ZEROS, is_said_of_values, is_users_file, may_speak_of_device, places_now, places_of

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
_OWN_HOMES = re.compile(r"\w*(utils|utils_for_testing|utility_functions|comparison_funcs|metrics|check)|test_\w+")
"""The last part of the names of modules in which they define them."""


class Comparisons:
    """Counts what was not compared in one test."""

    def __init__(self, values: DeviceValues, tell: Callable[[int], None] = lambda _: None) -> None:
        """``values`` knows what came from the device. ``tell`` hears of every comparison that was skipped, so that it
        is known of a test that does not come back."""
        self._values = values
        self._tell = tell
        self.skipped = 0
        self._depth = 0
        """Of comparisons that were answered: what they call themselves is no other one."""

    def begin(self) -> None:
        """A new test."""
        self.skipped = 0
        self._values.begin()

    @contextmanager
    def off(self, module: Any) -> Iterator[None]:
        """While a test of ``module`` runs, its comparisons hold."""
        patches, known = Patches(), dict[int, Any]()
        for library, names in _LIBRARIES.items():
            for name in names:
                self._replace(patches, known, sys.modules.get(library), name)
        homes = [found for name, found in list(sys.modules.items()) if _OWN_HOMES.fullmatch(name.rpartition(".")[2])]
        users = [home for home in (module, *homes) if is_users_file(getattr(home, "__file__", None) or "")]
        for owner in {id(home): home for home in users}.values():
            for name, value in list(vars(owner).items()):
                if id(value) in known or (_COMPARES.fullmatch(name) and callable(value)):
                    self._replace(patches, known, owner, name)
        try:
            with self._values.followed():
                yield
        finally:
            patches.undo()

    def _replace(self, patches: Patches, known: dict[int, Any], owner: Any, name: str) -> None:
        """One wrapper per function, under all its names."""
        value = getattr(owner, name, None)
        if callable(value) and not isinstance(value, type):
            wrapper = known.setdefault(id(value), self._with_itself(value))
            known[id(wrapper)] = wrapper
            patches.replace(owner, name, lambda _: wrapper)

    def _with_itself(self, original: Callable[..., Any]) -> Callable[..., Any]:
        if getattr(original, "_ttmem_compares_with_itself", False):
            return original

        @functools.wraps(original, updated=())
        def compare(*arguments: Any, **named: Any) -> Any:
            __tracebackhide__ = True
            asks = self._values.has_read and not self._depth
            pair = self._pair(original, arguments, named) if asks else None
            if pair is None:
                return original(*arguments, **named)
            first, place = pair
            self._skip()
            self._depth += 1
            try:
                if isinstance(place, str):
                    return original(*arguments, **{**named, place: first})
                return original(*arguments[:place], first, *arguments[place + 1 :], **named)
            finally:
                self._depth -= 1

        compare._ttmem_compares_with_itself = True  # type: ignore[attr-defined]
        return compare

    def _pair(
        self, original: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[Any, int | str] | None:
        """The first of two arrays of one shape, and where the second stands; None when this is no comparison with
        values from the device."""
        code = getattr(inspect.unwrap(original), "__code__", None)
        works_on_device = any(map(self._values.is_of_device, (*arguments, *named.values())))
        if works_on_device and code is not None and is_users_file(code.co_filename):
            return None  # a function of the test's that compares what it reads from there
        found: list[tuple[Any, int | str]] = [(one, place) for place, one in enumerate(arguments) if _is_array(one)]
        found += [(value, name) for name, value in named.items() if _is_array(value)]
        if len(found) < 2 or type(found[0][0]) is not type(found[1][0]):
            return None
        (first, _), (second, place) = found[:2]
        if tuple(first.shape) != tuple(second.shape):
            return None
        told = {self._values.tells(first), self._values.tells(second)}
        if True in told:
            return first, place
        if None not in told and _is_zero(first) == _is_zero(second):
            return None
        # Arrays, and copies that nobody could follow: the source says what they were made of.
        is_doubtful = may_speak_of_device(places_now(sys._getframe(2)), self._values.tells_of_copies)
        return (first, place) if is_doubtful else None

    def cannot_judge(self, error: BaseException, traceback: TracebackType | None) -> bool:
        """Whether a test ended by what it thinks of values that only a card has; it counts as one that was skipped."""
        if not self._values.has_read:
            return False
        if not (self.skipped or self._values.looked_at):
            is_about_values = is_said_of_values(
                error, traceback, counts=True, tells=self._values.tells, only_if=_is_array_of_zeros
            )
        elif isinstance(error, ARITHMETIC) or OF_ZEROS.search(str(error)):
            is_about_values = self._values.looked_at and may_speak_of_device(places_of(traceback), self._values.tells)
        elif "DID NOT RAISE" in str(error):
            is_about_values = self.skipped > 0 and "AssertionError" in str(error)
        else:
            is_about_values = is_said_of_values(error, traceback, counts=not self.skipped, tells=self._values.tells)
        if is_about_values:
            self._skip()
        return is_about_values

    def _skip(self) -> None:
        self.skipped += 1
        self._tell(self.skipped)


def _is_zero(value: Any) -> bool:
    """Nothing but zeros is what a mock gives, and what ways to copy it that nobody follows (``torch.Tensor(x)``, files,
    other threads) leave of it."""
    try:
        return not bool((value != 0).any())
    except Exception:  # an array of things that are no numbers
        return False


def _is_array_of_zeros(value: Any) -> bool:
    return _is_array(value) and _is_zero(value)


def _is_array(value: Any) -> bool:
    return type(value).__name__ in ("Tensor", "ndarray", "Parameter") and hasattr(value, "shape")
