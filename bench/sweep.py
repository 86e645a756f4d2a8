# SPDX-License-Identifier: Apache-2.0
"""How many cases a sweep settles per second: on the twin, and on the mock with two workers.

    python bench/sweep.py [--quick]

The mock is asked twice, into two folders: the first run fills the kernel cache, the second, warm one counts. Goals:
5,000 elementwise twin cases, 2,000 twin cases of models and 300 mock cases per second. The goals are held against
processor time (of two processors for two workers, their start and end included), so that other work on the machine does
not decide.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from math import prod
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench"), str(ROOT / "tests" / "unit" / "twin")]

from test_copy_table import Shape, by_definition  # noqa: E402

from measure import Row, run  # noqa: E402
from ttmem import TtmemError  # noqa: E402
from ttmem.engines.interpreters import find_interpreter  # noqa: E402
from ttmem.operators.case import (  # noqa: E402
    Case,
    CaseTensor,
    write_cases,
)
from ttmem.operators.sweeps.ask_engine import CaseRunner  # noqa: E402
from ttmem.operators.sweeps.plan import SweepSettings, make_plan  # noqa: E402
from ttmem.operators.sweeps.result import tile_count  # noqa: E402
from ttmem.operators.sweeps.run import run_sweep  # noqa: E402
from ttmem.twin.operations.reshape_mapping_table import count_segments_per_tile  # noqa: E402
from twin_coverage import find_cases  # noqa: E402

OPERATORS = ("silu", "relu", "gelu", "sigmoid", "add", "mul")


def three_dimensions(shape: tuple[int, ...]) -> Shape:
    *outer, height, width = (1, 1, *shape)
    return prod(outer), height, width


def cases(count: int, *, largest: int) -> list[Case]:
    """Elementwise operators over random images, as most calls of vision models are."""
    draw = random.Random(7)
    return [
        Case(
            OPERATORS[n % len(OPERATORS)],
            (CaseTensor((1, draw.choice((3, 32, 64, 96)), draw.randint(1, largest), draw.randint(1, largest))),),
        )
        for n in range(count)
    ]


def twin_rows(count: int) -> list[Row]:
    """Two rates: cases alone, and a whole run with its journal."""
    settings = SweepSettings()
    plan = make_plan(cases(count, largest=1000), settings=settings, memories=("L1",))
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        finished = run_sweep(plan, Path(folder))
        kept = finished.asked / (time.process_time() - started)
    started = time.process_time()
    alone = sum(1 for _ in CaseRunner(settings).ask(plan.points))
    rate = alone / (time.process_time() - started)
    return [
        Row("twin, elementwise cases", rate, "cases/s", 5000, at_least=True),
        Row("twin, whole run with journal and results.jsonl", kept, "cases/s"),
    ]


def model_rows(count: int) -> list[Row]:
    """The twin on cases as models have them, whole commands, start-up and journal included."""
    found = find_cases(None)
    chosen = found if count >= len(found) else random.Random(7).sample(found, count)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.jsonl"
        write_cases(path, chosen)
        command = [sys.executable, "-m", "ttmem", "sweep", "run", str(path), "-q", "-o"]
        # A folder of its own for each: a second call into one would resume, which is to say do nothing.
        folders = [f"{folder}/results-{number}" for number in range(4)]
        # Compiled once, as an installed package is.
        compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{folder}/compiled"}
        environment = {"PYTHONPATH": str(ROOT / "src"), **compiled}
        seconds = min(run([*command, into], repeat=1, env=environment).cpu_seconds for into in folders)
    asked = 2 * len(chosen)  # in DRAM and in L1
    what = f"twin, {len(chosen):,} cases of models in DRAM and L1, start-up included"
    return [Row(what, asked / seconds, "cases/s", 2000, at_least=True)]


def reshape_rows(count: int) -> list[Row]:
    """The table of a reshape, which once took nine tenths of such a sweep: by its definition, and as it is done."""
    shapes: list[tuple[Shape, Shape]] = []
    for case in find_cases(None):
        if case.op == "view" and case.outputs:
            before, after = (three_dimensions(tensor.shape) for tensor in (case.tensors[0], case.outputs[0]))
            if after[0] * tile_count(after[1:]) <= 400 and before[1:] != after[1:]:
                shapes.append((before, after))
    shapes = random.Random(7).sample(list(dict.fromkeys(shapes)), count)
    rates = []
    for rule in (by_definition, count_segments_per_tile.__wrapped__):
        started = time.process_time()
        for before, after in shapes:
            rule(before, after)
        rates.append(len(shapes) / (time.process_time() - started))
    return [
        Row(f"reshape, {count} of at most 400 tiles, by its definition", rates[0], "tables/s"),
        Row("reshape, the same from the tiles that differ", rates[1], "tables/s"),
    ]


def mock_rows(count: int) -> list[Row]:
    """Two workers, warm, from the first row on: starting them is a matter of seconds, however long the sweep."""
    plan = make_plan(cases(count, largest=500), settings=SweepSettings("mock"))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cold", "warm"):
            seen: list[tuple[float, int]] = []
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            own = time.process_time()
            run_sweep(
                plan,
                Path(folder) / name,
                workers=2,
                watch=lambda progress, seen=seen: seen.append((time.perf_counter(), progress.done_now)),
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            own = time.process_time() - own
    used = own + after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    first = next(moment for moment, done in seen if done)
    return [
        Row("mock, two workers, warm, on this machine as busy as it is", len(plan) / (seen[-1][0] - first), "cases/s"),
        Row("mock, two workers, warm, per two processors' time", 2 * len(plan) / used, "cases/s", 300, at_least=True),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="small inputs")
    quick: bool = parser.parse_args().quick
    rows = twin_rows(5_000 if quick else 50_000)
    try:
        for count in (1000,) if quick else (1000, 1 << 20):
            rows += model_rows(count)
        rows += reshape_rows(40 if quick else 150)
    except (TtmemError, subprocess.CalledProcessError) as error:
        print(f"the cases of models were not asked: {error}", file=sys.stderr)
    try:
        find_interpreter()
        rows += mock_rows(300 if quick else 2000)
    except TtmemError as error:
        print(f"the mock was not asked: {error}", file=sys.stderr)
    print(*rows, sep="\n")
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
