# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ttmem.engines.interpreters import Interpreter
from ttmem.engines.ttnn import EngineSettings, TtnnEngine


@pytest.fixture(scope="session")
def engines_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all tests of a run, so that they share a kernel cache and leave the user's alone."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    folder = shared / "engines-home"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def with_ttnn(ttnn_interpreter: Interpreter, engines_home: Path, monkeypatch: pytest.MonkeyPatch) -> Interpreter:
    """The surroundings of a test that starts workers."""
    monkeypatch.setenv("TTMEM_HOME", str(engines_home))
    monkeypatch.setenv("TTMEM_TTNN_PYTHON", ttnn_interpreter.path)
    return ttnn_interpreter


@pytest.fixture(scope="module")
def engine(ttnn_interpreter: Interpreter, engines_home: Path) -> Iterator[Callable[..., TtnnEngine]]:
    """Engines by their settings, kept for the tests of a module."""
    started: dict[EngineSettings, TtnnEngine] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TTMEM_HOME", str(engines_home))

        def get(**changes: Any) -> TtnnEngine:
            settings = EngineSettings(python=ttnn_interpreter.path, **changes)
            if settings not in started:
                started[settings] = TtnnEngine(settings)
                started[settings].start()
            return started[settings]

        yield get
        for one in started.values():
            one.close()
