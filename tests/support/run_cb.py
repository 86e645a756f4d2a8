# SPDX-License-Identifier: Apache-2.0
"""The real command line, with a store and a working folder of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.command_line import Result


@pytest.fixture
def run_cb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """``run_cb("simulate", 16, 16)``: exit code, stdout and stderr."""
    from ttmem.commands.program import main

    for variable in ("TTMEM_DEBUG", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TTMEM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: object) -> Result:
        capfd.readouterr()
        code = main(["cb", *map(str, arguments)])
        captured = capfd.readouterr()
        return Result(code, captured.out, captured.err)

    return invoke
