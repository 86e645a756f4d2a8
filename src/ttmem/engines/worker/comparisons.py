# SPDX-License-Identifier: Apache-2.0
"""Value comparisons on a mock board: they cannot hold, because nothing is computed and reading back gives zeros.

Known comparing functions are answered with "equal" while a test runs, and every such answer is counted, so that a test
run for memory says how much it did not check. A plain ``assert`` on a value is the test's own and stays as it is.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from .library import Patches

_LIBRARIES: dict[str, dict[str, Any]] = {
    "torch": {"allclose": True, "equal": True},
    "torch.testing": {"assert_close": None, "assert_allclose": None},
    "ttnn": {"pearson_correlation_coefficient": 1.0},
    "numpy": {"allclose": True, "array_equal": True, "array_equiv": True},
    "numpy.testing": dict.fromkeys(
        f"assert_{what}" for what in ("allclose", "array_equal", "array_almost_equal", "almost_equal", "equal")
    ),
}
"""By module: what a comparison that holds returns."""

_SKIPPED = (True, "not compared: a mock board computes nothing")
_OWN_NAMES: dict[str, Any] = {
    **dict.fromkeys(("assert_with_pcc", "assert_with_ulp", "assert_equal"), _SKIPPED),
    **dict.fromkeys(("assert_allclose", "assert_quality")),
    **dict.fromkeys(("check_with_pcc", "check_with_pcc_without_tensor_printout"), _SKIPPED),
    **dict.fromkeys(("comp_allclose", "comp_allclose_and_pcc", "comp_equal", "comp_ulp"), _SKIPPED),
    "comp_pcc": (True, 1.0),
}
"""Names under which ttnn's own test suites import their comparing functions."""

_OWN_HOMES = ("utils_for_testing", "utility_functions", "comparison_funcs")
"""Modules in which those suites define them. Their ``assert_...`` functions check shapes first and compare values with
a ``comp_...``: only the latter is answered for them, so the shapes are still checked."""


class Comparisons:
    """Counts what was not compared."""

    def __init__(self) -> None:
        self.skipped = 0

    @contextmanager
    def off(self, module: Any) -> Iterator[None]:
        """While a test of ``module`` runs, its comparisons hold."""
        patches, taken_over = Patches(), dict[int, Any]()
        for library, answers in _LIBRARIES.items():
            for name, answer in answers.items():
                original = getattr(sys.modules.get(library), name, None)
                taken_over[id(original)] = self._always(answer, original)
                patches.replace(sys.modules.get(library), name, lambda it: taken_over[id(it)])
        for name, value in list(vars(module).items()) if module is not None else ():
            if id(value) in taken_over:  # from torch import allclose
                patches.replace(module, name, lambda it: taken_over[id(it)])
        homes = [found for name, found in list(sys.modules.items()) if name.rpartition(".")[2] in _OWN_HOMES]
        for owner in (module, *homes):
            for name, answer in _OWN_NAMES.items():
                if name.startswith("comp_") or not _checks_shapes(getattr(owner, name, None)):
                    patches.replace(owner, name, partial(self._always, answer))
        try:
            yield
        finally:
            patches.undo()

    def _always(self, answer: Any, original: Any) -> Any:
        def compare(*_: Any, **__: Any) -> Any:
            self.skipped += 1
            return answer

        return compare if callable(original) else original


def _checks_shapes(function: Any) -> bool:
    """Whether it comes from one of the modules whose comparing functions are answered underneath it."""
    return str(getattr(function, "__module__", "")).rpartition(".")[2] in _OWN_HOMES
