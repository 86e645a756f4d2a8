# SPDX-License-Identifier: Apache-2.0
"""Finds an interpreter that has ttnn and talks to the child process that holds it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PINNED = "0.81.1"


def managed_python() -> Path:
    """Where tools/ttnn_env.py puts the interpreter."""
    home = Path(os.environ.get("TTMEM_HOME") or Path.home() / ".ttmem")
    return home / "device" / "bin" / "python"


@functools.cache
def find_python() -> tuple[str | None, str]:
    """An interpreter with the pinned ttnn, or the reason why there is none."""
    named = os.environ.get("TTMEM_TTNN_PYTHON")
    candidate = Path(named) if named else managed_python()
    if not candidate.exists():
        return None, f"{candidate} does not exist"
    probe = "import importlib.metadata as m; print(m.version('ttnn'))"
    try:
        found = subprocess.run([str(candidate), "-c", probe], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return None, f"{candidate} does not run: {error}"
    if found.returncode:
        return None, f"{candidate} has no ttnn"
    if found.stdout.strip() != PINNED:
        return None, f"{candidate} has ttnn {found.stdout.strip()}, the bank tables under test are those of {PINNED}"
    return str(candidate), ""


class RealDeviceDiedError(RuntimeError):
    """The child ended: the library crashed on the last request."""


class RealDevice:
    """One child process: one board (a process can open one cluster only), opened as often as wanted."""

    def __init__(self, board: str, folder: Path, python: str) -> None:
        self.board = board
        self._settings: dict[str, Any] | None = None
        self.opened: dict[str, Any] = {}
        self._child = subprocess.Popen(
            [python, str(HERE / "ttnn_process.py"), board, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=HERE,
        )

    def ask(self, request: dict[str, Any]) -> Any:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RealDeviceDiedError(f"{self.board}: ttnn ended with {self._child.wait()} on {request}")
        return json.loads(line)

    @property
    def is_alive(self) -> bool:
        return self._child.poll() is None

    def open(self, **settings: Any) -> dict[str, Any]:
        """Open the board, or keep it open when the settings are the same."""
        if settings != self._settings:
            self._settings = None
            self.opened = self.ask({"open": settings})
            if "error" not in self.opened:
                self._settings = settings
        return self.opened

    def run(self, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        answer = self.ask({"run": steps})
        assert isinstance(answer, list), answer
        return answer

    def close(self) -> None:
        if self._child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._child.stdin.close()
        if self._child.stdout is not None:
            self._child.stdout.close()
        try:
            self._child.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
