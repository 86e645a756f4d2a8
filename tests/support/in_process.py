# SPDX-License-Identifier: Apache-2.0
"""The real command line in this process, always with a store and a working folder of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.command_line import Result
from ttmem.commands.program import main


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nobody's real store is touched, and no setting of the person who runs the tests leaks in."""
    for variable in ("TTMEM_DEBUG", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTMLIR_RUNTIME_LOGGER_FILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TTMEM_HOME", str(tmp_path / "home"))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return tmp_path / "home"


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """``run("profile", path)``: exit code, stdout and stderr."""

    def invoke(*arguments: object) -> Result:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Result(code, captured.out, captured.err)

    return invoke
