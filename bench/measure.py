# SPDX-License-Identifier: Apache-2.0
"""Time and memory of whole commands, and rows of a benchmark table.

Only ratios between commands of the same run mean anything: machines differ, and so does what else they do.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Measured:
    """One command, run several times: medians of wall and CPU seconds, the largest resident set."""

    wall_seconds: float
    cpu_seconds: float
    rss_mib: float


@dataclass(frozen=True)
class Row:
    """One line of the table; a row without a limit informs, one with a limit passes or fails."""

    what: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False

    @property
    def ok(self) -> bool:
        """Whether the value keeps its limit."""
        if self.limit is None:
            return True
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        limit = "" if self.limit is None else f"{'>=' if self.at_least else '<='} {self.limit:g}"
        verdict = "" if self.limit is None else ("ok" if self.ok else "OVER")
        return f"{self.what:64} {self.value:12.3f} {self.unit:10} {limit:>10} {verdict}"


def run(command: Sequence[str], *, repeat: int = 3, env: dict[str, str] | None = None) -> Measured:
    """Run a command ``repeat`` times with its output read and dropped; children count in CPU time and in memory."""
    walls, cpus, rss = [], [], 0.0
    for _ in range(repeat):
        wall, cpu, peak = _once(command, {**os.environ, **(env or {})})
        walls.append(wall)
        cpus.append(cpu)
        rss = max(rss, peak)
    return Measured(statistics.median(walls), statistics.median(cpus), rss)


# A fresh interpreter runs the command, so that RUSAGE_CHILDREN holds this command (and its children) alone. Output
# goes into a pipe: grep stops at the first match when it sees that nobody reads (/dev/null).
_PROBE = """
import resource, subprocess, sys, time
start = time.perf_counter()
status = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).returncode
wall = time.perf_counter() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(status, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def _once(command: Sequence[str], env: dict[str, str]) -> tuple[float, float, float]:
    probe = subprocess.run(
        [sys.executable, "-c", _PROBE, *command], capture_output=True, text=True, check=True, env=env
    ).stdout.split()
    if int(probe[0]) != 0:
        raise SystemExit(f"{' '.join(command)} ended with status {probe[0]}")
    return float(probe[1]), float(probe[2]), float(probe[3])


def print_table(rows: Callable[..., list[Row]], *, about: str | None, quick_means: str) -> int:
    """The command line of a benchmark that works in a folder: print its rows; 1 when a limit is not kept."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick_means)
    parser.add_argument("--folder", type=Path, default=Path(os.environ.get("TTMEM_BENCH_DIR", ".cache/bench")))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    table = rows(arguments.folder, quick=arguments.quick)
    print(*table, sep="\n")
    return 0 if all(row.ok for row in table) else 1
