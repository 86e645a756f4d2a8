# SPDX-License-Identifier: Apache-2.0
"""The real command line in a process of its own, where exit codes, pipes and signals are what they are."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ttmem

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
FIVE_RUNS = EXAMPLES / "transformer-five-runs.log.gz"
BLACKHOLE_OOM = EXAMPLES / "blackhole-oom-ansi.log.gz"
REAL_OOM = EXAMPLES / "real-oom.log"

_MODULES = {"ttmem": "ttmem.commands.main", "tt-memory-profiler": "ttmem.commands.tt_memory_profiler"}


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


def call(*arguments: object, program: str = "ttmem", **options: Any) -> Result:
    """Run it to its end."""
    settings = {"env": environment(), "capture_output": True, "text": True, "timeout": 120, **options}
    done = subprocess.run(command_line(*arguments, program=program), check=False, **settings)
    return Result(done.returncode, done.stdout, done.stderr)


def start(*arguments: object, program: str = "ttmem", **options: Any) -> subprocess.Popen[str]:
    """Start it and let it run."""
    settings = {"env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen(command_line(*arguments, program=program), **settings)
