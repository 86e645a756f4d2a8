# SPDX-License-Identifier: Apache-2.0
"""How fast the real ttnn answers on a mock board: start, cases per second, against a new process per case.

    python bench/engines.py [--quick]

All figures come from one run on one machine, so the ratio is fair. The cases are softmax on distinct shapes: every one
makes a new program, and the kernel cache is warm. Skipped, with the reason, where no interpreter has ttnn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import Row
from ttmem import TtmemError
from ttmem.engines.interpreters import find_interpreter
from ttmem.engines.run_script import RunSettings, run_script
from ttmem.engines.ttnn import TtnnEngine

BLOCK = Path(__file__).resolve().parents[1] / "examples" / "transformer_block.py"
LEAST_RATIO = 5.0
"""Below that a fork server would not be worth its code."""

Steps = list[dict[str, Any]]


def cases(count: int) -> list[Steps]:
    """Allocate, then one operation, each with a shape of its own."""
    return [
        [
            {"alloc": "a", "shape": [1, 1, 32 * (1 + number % 8), 32 * (1 + number // 8)], "dtype": "bfloat16"},
            {"call": "ttnn.softmax", "args": [{"tensor": "a"}], "kwargs": {"dim": -1}},
        ]
        for number in range(count)
    ]


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def all_pass(engine: TtnnEngine, some: list[Steps], *, shared: bool = True, isolated: bool = True) -> None:
    if shared:
        outcomes = list(engine.ask_all(some, isolated=isolated))
    else:
        outcomes = [engine.ask(steps, isolated=isolated) for steps in some]
    assert all(outcome.ok for outcome in outcomes)


def fresh_process(steps: Steps) -> None:
    with TtnnEngine(measure_programs=False) as engine:
        all_pass(engine, [steps], isolated=False)


def measure(count: int) -> list[Row]:
    """The table."""
    some = cases(count)
    with TtnnEngine(measure_programs=False) as engine:
        all_pass(engine, some)  # a warm kernel cache for all that follows
    engine = TtnnEngine(measure_programs=False)
    start = seconds(engine.start)
    shared = count / seconds(lambda: all_pass(engine, some))
    single = count / seconds(lambda: all_pass(engine, some, shared=False))
    engine.close()
    with TtnnEngine() as measuring:
        sized = count / seconds(lambda: all_pass(measuring, some))
    few = some[: max(count // 20, 3)]
    fresh = len(few) / seconds(lambda: [fresh_process(steps) for steps in few])
    run = seconds(lambda: run_script(BLOCK))
    plain = seconds(lambda: run_script(BLOCK, settings=RunSettings(measure_programs=False)))
    return [
        Row("start a worker: import, open, hello", start, "s"),
        Row("cases that share a copy while they leave nothing behind", shared, "cases/s"),
        Row("a copy per case", single, "cases/s"),
        Row("sharing a copy, program sizes measured too", sized, "cases/s"),
        Row("a new process per case", fresh, "cases/s"),
        Row("sharing a copy / a new process per case", shared / fresh, "x", LEAST_RATIO, at_least=True),
        Row("a copy per case / a new process per case", single / fresh, "x"),
        Row("run of the example block, 45 operations", run, "s"),
        Row("the same without program sizes", plain, "s"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Speed of the real ttnn on a mock board.")
    parser.add_argument("--quick", action="store_true", help="fewer cases")
    options = parser.parse_args()
    try:
        interpreter = find_interpreter()
    except TtmemError as error:
        print(f"skipped: {error} ({error.hint})")
        return 0
    print(f"ttnn {interpreter.ttnn_version}, Python {interpreter.python_version}, mock n150")
    rows = measure(20 if options.quick else 120)
    for row in rows:
        print(row)
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
