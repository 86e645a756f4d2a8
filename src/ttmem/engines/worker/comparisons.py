# SPDX-License-Identifier: Apache-2.0
"""Value comparisons on a mock board: they cannot hold, because nothing is computed and reading back gives zeros.

Once a test has read values from the device, a function that compares two tensors of the same shape compares the first
one with itself, so that it answers in its own way that they agree, and shapes are still checked. What a test asserts
about values in its own words cannot be answered: such an assertion ends the test, which is then not judged. Both are
counted, so that a test run for memory says how much it did not check. A test that reads nothing from the device is
left alone.
"""

import ast
import functools
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from .library import Patches

READS = ("ttnn.to_torch", "ttnn.from_device", "ttnn.to_numpy", "ttnn.Tensor.cpu", "ttnn.Tensor.to")
"""Operations after which a program may look at values."""

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
_FACTS = {
    "shape", "padded_shape", "dtype", "layout", "memory_config", "is_sharded", "storage_type", "is_allocated", "rank",
    "buffer_address", "num_program_cache_entries", "shard_spec", "buffer_type", "memory_layout", "volume", "numel",
    "device", "spec", "ndim", "size",
}  # fmt: skip
"""What a mock knows of a tensor: an assertion on these is the test's own."""


class Comparisons:
    """Counts what was not compared in one test."""

    def __init__(self) -> None:
        self.skipped = 0
        self.has_read = False
        """Whether values came from the device."""

    def begin(self) -> None:
        """A new test."""
        self.skipped, self.has_read = 0, False

    def heard(self, message: Mapping[str, Any]) -> None:
        """A message of the recorder."""
        if message.get("name") in READS:
            self.has_read = True

    @contextmanager
    def off(self, module: Any) -> Iterator[None]:
        """While a test of ``module`` runs, its comparisons hold."""
        patches, known = Patches(), dict[int, Any]()
        for library, names in _LIBRARIES.items():
            for name in names:
                self._replace(patches, known, sys.modules.get(library), name)
        homes = [found for name, found in list(sys.modules.items()) if _OWN_HOMES.fullmatch(name.rpartition(".")[2])]
        for owner in {id(home): home for home in (module, *homes) if _is_users(home)}.values():
            for name, value in list(vars(owner).items()):
                if id(value) in known or (_COMPARES.fullmatch(name) and callable(value)):
                    self._replace(patches, known, owner, name)
        try:
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
            pair = _alike(arguments, named) if self.has_read else None
            if pair is None:
                return original(*arguments, **named)
            first, place = pair
            self.skipped += 1
            if isinstance(place, str):
                return original(*arguments, **{**named, place: first})
            return original(*arguments[:place], first, *arguments[place + 1 :], **named)

        compare._ttmem_compares_with_itself = True  # type: ignore[attr-defined]
        return compare

    def cannot_judge(self, error: BaseException, traceback: TracebackType | None) -> bool:
        """Whether a test ended by an assertion on values that only a card has; it counts as one that was skipped."""
        if not self.has_read or not isinstance(error, AssertionError):
            return False
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        if traceback is None or _asserts_facts(traceback, counts=not self.skipped):
            return False
        self.skipped += 1
        return True


def _is_users(module: Any) -> bool:
    """Not an installed package: those have modules called ``utils`` too."""
    file = getattr(module, "__file__", None) or ""
    return bool(file) and "site-packages" not in file and not file.startswith(sys.base_prefix)


def _alike(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, int | str] | None:
    """The first of two arrays of one shape, and where the second stands."""
    found: list[tuple[Any, int | str]] = [(value, place) for place, value in enumerate(arguments) if _is_array(value)]
    found += [(value, name) for name, value in named.items() if _is_array(value)]
    if len(found) < 2 or type(found[0][0]) is not type(found[1][0]):
        return None
    first, second = found[0][0], found[1][0]
    return (first, found[1][1]) if tuple(first.shape) == tuple(second.shape) else None


def _is_array(value: Any) -> bool:
    return type(value).__name__ in ("Tensor", "ndarray", "Parameter") and hasattr(value, "shape")


def _asserts_facts(traceback: TracebackType, *, counts: bool) -> bool:
    """Whether the statement that failed asks for a shape, a layout, an address: what a mock does know.

    ``counts``: a number of things is one too; where comparisons were answered it may be that of those that differ.
    """
    code, line = traceback.tb_frame.f_code, traceback.tb_lineno
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename, traceback.tb_frame.f_globals)))
    except (SyntaxError, ValueError):
        return False
    asserted = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]  # fmt: skip
    return any(
        (isinstance(part, ast.Attribute) and part.attr in _FACTS)
        or (counts and isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "len")
        for node in asserted
        for part in ast.walk(node.test)
    )
