# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import site
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.command_line import Result
from ttmem.commands.program import main
from ttmem.engines.interpreters import Interpreter
from ttmem.engines.ttnn import TtnnEngine

DATA = Path(__file__).resolve().parents[1] / "data" / "operators"


@pytest.fixture(scope="module")
def engine(ttnn_interpreter: Interpreter, engines_home: Path) -> Iterator[TtnnEngine]:
    """A mock n150, opened as sweeps open it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TTMEM_HOME", str(engines_home))
        with TtnnEngine(
            python=ttnn_interpreter.path, board="n150", l1_small_bytes=32768, measure_programs=False
        ) as opened:
            yield opened


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """``run("ops", "map")`` in a folder of its own: exit code, stdout and stderr."""
    for variable in ("TTMEM_DEBUG", "NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(variable, raising=False)
    if "TTMEM_TTNN_PYTHON" not in os.environ:
        monkeypatch.setenv("TTMEM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: object) -> Result:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Result(code, captured.out, captured.err)

    return invoke


@pytest.fixture
def linked_pytest(tmp_path: Path) -> Path:
    """pytest and what it needs, all pure Python, for an interpreter that has none of its own.

    Links and not the whole site-packages: its compiled packages belong to this Python's version.
    """
    folder = tmp_path / "pytest-links"
    folder.mkdir()
    places = [Path(sysconfig.get_paths()["purelib"]), *map(Path, site.getsitepackages())]
    wanted = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py.py", "exceptiongroup", "tomli")
    for name in (*wanted, "typing_extensions.py"):
        found = next((place / name for place in places if (place / name).exists()), None)
        if found is not None:
            (folder / name).symlink_to(found)
    for place in places:
        for found in [*place.glob("pytest-[0-9]*.dist-info"), *place.glob("pluggy-*.dist-info")]:
            if not (folder / found.name).exists():
                (folder / found.name).symlink_to(found)
    return folder
