# SPDX-License-Identifier: Apache-2.0
"""The real command line in a process of its own, with real exit codes, pipes and signals."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ttmem
from support.fork_server import ForkServer

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
FIVE_RUNS = EXAMPLES / "transformer-five-runs.log.gz"
BLACKHOLE_OOM = EXAMPLES / "blackhole-oom-ansi.log.gz"
REAL_OOM = EXAMPLES / "real-oom.log"

_MODULES = {"ttmem": "ttmem.commands.program", "tt-memory-profiler": "ttmem.commands.tt_memory_profiler"}


@dataclass(frozen=True)
class Result:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


def command_line(*arguments: object, program: str = "ttmem") -> list[str]:
    """What to start, without needing the console script to be installed."""
    start = f"import sys; from {_MODULES[program]} import main; sys.exit(main())"
    return [sys.executable, "-c", start, *map(str, arguments)]


def environment(**changes: str) -> dict[str, str]:
    """The ttmem under test, wherever it is installed."""
    return {**os.environ, "PYTHONPATH": str(Path(ttmem.__file__).parents[1]), **changes}


@functools.cache
def _fork_server() -> ForkServer:
    return ForkServer(environment())


def call(*arguments: object, program: str = "ttmem", new_process: bool = False, **options: Any) -> Result:
    """Run a command line to its end: in a fork of a warm process, or in a new one where the test is about that."""
    if program != "ttmem" or new_process or not options.keys() <= {"env", "cwd", "input", "timeout"}:
        settings = {"env": environment(), "capture_output": True, "text": True, "timeout": 120, **options}
        done = subprocess.run(command_line(*arguments, program=program), check=False, **settings)
        return Result(done.returncode, done.stdout, done.stderr)
    code, out, err = _fork_server().run(
        list(map(str, arguments)),
        environment=options.get("env") or environment(),
        folder=str(options.get("cwd") or Path.cwd()),
        stdin=(options.get("input") or "").encode("utf-8", "surrogateescape"),
        timeout=options.get("timeout") or 120,
    )
    return Result(code, _decode(out), _decode(err))


def _decode(output: bytes) -> str:
    return output.decode("utf-8").replace("\r\n", "\n")


def start(*arguments: object, program: str = "ttmem", **options: Any) -> subprocess.Popen[str]:
    """Start it and let it run."""
    settings = {"env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen(command_line(*arguments, program=program), **settings)
