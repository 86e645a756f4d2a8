# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: CPU and wall seconds of each test, with those of the processes that it started.

pytest -p support.cpu_times ...        # writes .cache/cpu-times.tsv, the most expensive test first
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROWS: list[tuple[float, float, float, str]] = []


def _used() -> tuple[float, float, float]:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime, time.perf_counter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """Measure a test with its fixtures."""
    before = _used()
    result = yield
    own, children, wall = (after - earlier for after, earlier in zip(_used(), before, strict=True))
    _ROWS.append((own, children, wall, item.nodeid))
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the table; a worker of xdist writes one of its own."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    table = Path(session.config.rootpath, ".cache", f"cpu-times{'-' if worker else ''}{worker}.tsv")
    table.parent.mkdir(exist_ok=True)
    rows = sorted(_ROWS, key=lambda row: -row[0] - row[1])
    lines = [f"{own:.2f}\t{children:.2f}\t{wall:.2f}\t{name}\n" for own, children, wall, name in rows]
    table.write_text("own\tchildren\twall\ttest\n" + "".join(lines))
