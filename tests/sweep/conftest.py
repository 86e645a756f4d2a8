# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from ttmem.engines.interpreters import Interpreter


@pytest.fixture(scope="session")
def sweep_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all tests of a run, so that they share a kernel cache and leave the user's alone."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    folder = shared / "engines-home"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def with_ttnn(ttnn_interpreter: Interpreter, sweep_home: Path, monkeypatch: pytest.MonkeyPatch) -> Interpreter:
    """The surroundings of a test that starts workers."""
    monkeypatch.setenv("TTMEM_HOME", str(sweep_home))
    monkeypatch.setenv("TTMEM_TTNN_PYTHON", ttnn_interpreter.path)
    return ttnn_interpreter
