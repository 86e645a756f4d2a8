# SPDX-License-Identifier: Apache-2.0
"""How long the pipeline simulation takes: steps per second, and whole questions.

python bench/cb_simulate.py
"""

from __future__ import annotations

import sys
import time

from ttmem.circular_buffers.kernels import pairs, throughput_over_depth
from ttmem.circular_buffers.pipeline import run
from ttmem.circular_buffers.simulate import simulate
from ttmem.circular_buffers.workload import Scenario, Workload, assume, multi

LIMIT_SECONDS = 10.0
"""Nobody waits longer for a table; generous, because machines differ."""


def _timed(what: str, question: object) -> float:
    start = time.perf_counter()
    question()  # type: ignore[operator]
    seconds = time.perf_counter() - start
    print(f"{what:<44} {seconds:8.3f} s")
    return seconds


def main() -> int:
    """Print the table; 1 when a question takes too long."""
    assumptions = assume()
    workload = Workload(32, 64)
    kernels = pairs(workload, assumptions, Scenario(200.0, 0.3, 1))
    steps = sum(len(kernel.steps) for kernel in kernels)
    depths = {"cb0": 4, "cb1": 4, "cb2": 2, "cb16": 2}
    start = time.perf_counter()
    run(kernels, depths)
    print(f"{'steps per second':<44} {steps / (time.perf_counter() - start):8,.0f}")
    seconds = [
        _timed("simulate 16 16", lambda: simulate(Workload(16, 16))),
        _timed("simulate 1000000 1000000", lambda: simulate(Workload(1_000_000, 1_000_000))),
        _timed("simulate --multi", lambda: [simulate(one) for one in multi()]),
        _timed("throughput over depth", lambda: throughput_over_depth(assumptions)),
    ]
    return int(max(seconds) > LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
