# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ttmem.base.home import home_folder
from ttmem.engines.interpreters import Interpreter
from ttmem.engines.ttnn import EngineSettings, TtnnEngine


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


_PACKAGES = {
    "xdist": ("pytest-xdist", "execnet"),
    "ttmem": ("msgspec", "click", "rich", "markdown-it-py", "mdurl", "pygments", "jinja2", "markupsafe", "zstandard"),
}


@pytest.fixture(scope="session")
def beside_ttnn(ttnn_interpreter: Interpreter) -> Callable[[str], str]:
    """Folders with packages for the interpreter that has ttnn: pytest-xdist, and what ttmem itself needs.

    Its own environment stays as 'ttmem device install' made it. They are installed once and kept.
    """
    kept = home_folder() / "cache" / f"tests-beside-ttnn-{ttnn_interpreter.python_version}"

    def folder(name: str) -> str:
        place = kept / name
        if not place.is_dir():
            kept.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=kept) as fresh:
                pip = [ttnn_interpreter.path, "-m", "pip", "install", "-q", "--no-deps", "--target", f"{fresh}/{name}"]
                done = subprocess.run([*pip, *_PACKAGES[name]], capture_output=True, text=True, check=False)
                if done.returncode:
                    pytest.skip(f"NOT TRIED: pip could not install {_PACKAGES[name]}: {done.stderr[-300:]}")
                with contextlib.suppress(OSError):  # another worker was quicker
                    Path(fresh, name).rename(place)
        return str(place)

    return folder
