# SPDX-License-Identifier: Apache-2.0
"""Options of pytest plugins that are not installed: which plugin they belong to, and how to get it."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

_OPTIONS = {
    "pytest-xdist": r"-n.*|--numprocesses|--maxprocesses|--dist|--tx",
    "pytest-timeout": r"--(session-)?timeout.*",
    "pytest-rerunfailures": r"--(only-)?rerun.*",
    "pytest-repeat": r"--count|--repeat-scope",
    "pytest-cov": r"--(no-)?cov.*",
    "pytest-html": r"--html|--self-contained-html",
    "pytest-json-report": r"--json-report.*",
    "pytest-benchmark": r"--benchmark.*",
    "pytest-asyncio": r"--asyncio.*",
    "pytest-random-order": r"--random-order.*",
    "pytest-split": r"--splits|--group|--store-durations",
    "pytest-forked": r"--forked",
}
"""Their options on a command line, or in ``addopts`` of a suite's own ini file."""


class MissingPlugins:
    """Refuses options of plugins that are missing, with the command that installs them."""

    def __init__(self, install: str) -> None:
        """``install`` is a command that ends before the names of packages."""
        self._install = install

    @pytest.hookimpl(trylast=True)
    def pytest_load_initial_conftests(self, parser: Any, args: list[str]) -> None:
        """After the suite's conftest.py files were loaded, which may define options of their own."""
        unknown = parser.parse_known_and_unknown_args(args)[1]
        if missing := dict(_missing(unknown)):
            words = "; ".join(f"{option} needs {package}" for package, option in missing.items())
            names = ("," if "--with" in self._install else " ").join(missing)
            raise pytest.UsageError(f"{words}; install it next to ttnn: {self._install}{names}")


def _missing(words: list[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        option = word.partition("=")[0]
        for package, pattern in _OPTIONS.items():
            if re.fullmatch(pattern, option):
                yield package, option
