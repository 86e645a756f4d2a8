# SPDX-License-Identifier: Apache-2.0
"""Every benchmark, one table after the other: `make bench` (`QUICK=1` for the small inputs)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
BENCHMARKS = (
    "profile_speed.py",
    "twin.py",
    "engines.py",
    "explain_speed.py",
    "cb_simulate.py",
    "cb_scan.py",
    "ops_extract.py",
    "sweep.py",
    "page.py",
    "growth.py",
)


def main(arguments: list[str]) -> int:
    """Run those that exist; the worst status counts."""
    worst = 0
    for name in BENCHMARKS:
        benchmark = HERE / name
        if not benchmark.exists():
            continue
        known = [argument for argument in arguments if argument in benchmark.read_text(encoding="utf-8")]
        print(f"\n== {name} {' '.join(known)}", flush=True)
        worst = max(worst, subprocess.run([sys.executable, str(benchmark), *known], check=False).returncode)
    return worst


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
