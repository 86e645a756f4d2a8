# SPDX-License-Identifier: Apache-2.0
"""One tracing process for all tests of a module: importing torch takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ttmem.operators.tracing import keep_tracer


@pytest.fixture(autouse=True, scope="module")
def _one_tracer() -> Iterator[None]:
    with keep_tracer():
        yield
