# SPDX-License-Identifier: Apache-2.0
"""One process that has ttmem loaded; every command line of these tests runs in a fork of it, measured and bounded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fuzz.children import Child


@pytest.fixture(scope="session")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    with Child(tmp_path_factory.mktemp("child")) as started:
        yield started
