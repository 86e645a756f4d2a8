# SPDX-License-Identifier: Apache-2.0
"""How fast the twin is, against the real ttnn doing the same in the same run.

    python bench/twin.py [--steps N] [--specs N] [--json]

Step by step: one allocation script, with names, on the twin and in ttnn, the addresses compared. Placements: bytes
per bank of many shapes. Ratios count: both sides share one machine.
Without an interpreter that has ttnn (tools/ttnn_env.py makes one) only the twin's own rates are printed.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from oracle.real import find_ttnn, mock_environment  # noqa: E402
from ttmem.hardware import BFLOAT16, DRAM, open_board  # noqa: E402
from ttmem.twin.device import Device  # noqa: E402
from ttmem.twin.placement import place  # noqa: E402
from ttmem.twin.replay import ScriptRunner  # noqa: E402
from ttmem.twin.tensor_spec import TILE, TensorSpec  # noqa: E402

T = TypeVar("T")
COMPARED_SHAPES = 20_000


def script(steps: int) -> list[dict[str, Any]]:
    """A model-like script: a few dozen shapes come and go, some stay for long."""
    choose = random.Random(1)
    shapes = [[1, choose.choice([1, 8, 32]), 32 * choose.randint(1, 16), 32 * choose.randint(1, 24)] for _ in range(40)]
    live: list[str] = []
    made: list[dict[str, Any]] = []
    while len(made) < steps:
        if live and (len(live) > 60 or choose.random() < 0.45):
            made.append({"free": live.pop(choose.randrange(len(live)))})
            continue
        small = choose.random() < 0.3
        shape = [1, 1, 32, 32 * choose.randint(1, 8)] if small else choose.choice(shapes)
        made.append(
            {
                "alloc": f"t{len(made)}",
                "shape": shape,
                "dtype": "bfloat16",
                "layout": "tile",
                "memory": "L1" if small else "DRAM",
            }
        )
        live.append(made[-1]["alloc"])
    return made


def best_of(work: Callable[[], T], repeats: int = 9) -> tuple[float, T]:
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - begin)
    return best, result


def replay(steps: list[dict[str, Any]]) -> list[int]:
    runner = ScriptRunner(Device(open_board("n150")))
    results = [runner.step(step) for step in steps]
    return [result.buffer.address for result in results if result.buffer is not None]


def measure(steps_wanted: int, specs_wanted: int) -> dict[str, Any]:
    steps = script(steps_wanted)
    choose = random.Random(1)
    shapes = [tuple(choose.randint(1, 299) for _ in range(4)) for _ in range(specs_wanted)]
    specs = [TensorSpec(shape, BFLOAT16, TILE, DRAM) for shape in shapes]
    memory_map = open_board("n150")
    twin_replay, addresses = best_of(lambda: replay(steps))
    twin_place, placements = best_of(lambda: [place(spec, memory_map) for spec in specs], repeats=3)
    report: dict[str, Any] = {
        "replay": {"steps": len(steps), "twin_steps_per_second": len(steps) / twin_replay},
        "place": {"specs": len(specs), "twin_specs_per_second": len(specs) / twin_place},
        "ttnn": None,
    }
    interpreter, reason = find_ttnn()
    if interpreter is None:
        report["why_no_ttnn"] = reason
        return report
    compared = [one for one in placements[:COMPARED_SHAPES] if one.fits_empty]
    with tempfile.TemporaryDirectory() as folder, mock_environment(interpreter, "n150") as environment:
        steps_file, shapes_file = Path(folder) / "steps.json", Path(folder) / "shapes.json"
        steps_file.write_text(json.dumps(steps))
        shapes_file.write_text(json.dumps([one.spec.shape for one in compared]))
        child = [interpreter.path, str(ROOT / "bench" / "twin_in_ttnn.py"), str(steps_file), str(shapes_file)]
        done = subprocess.run(child, capture_output=True, text=True, check=True, cwd=folder, env=environment)
    real = json.loads(done.stdout)
    if real["addresses"] != addresses:
        raise SystemExit("the twin and ttnn disagree on addresses: not a benchmark but a bug")
    if real["bytes_per_bank"] != [one.taken_bytes_per_bank for one in compared]:
        raise SystemExit("the twin and ttnn disagree on bytes per bank: not a benchmark but a bug")
    report["ttnn"] = interpreter.ttnn_version
    report["replay"]["ttnn_steps_per_second"] = len(steps) / real["replay_seconds"]
    report["place"]["ttnn_specs_per_second"] = len(compared) / real["sizes_seconds"]
    report["replay"]["ratio"] = report["replay"]["twin_steps_per_second"] / report["replay"]["ttnn_steps_per_second"]
    report["place"]["ratio"] = report["place"]["twin_specs_per_second"] / report["place"]["ttnn_specs_per_second"]
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description="Speed of the twin against the real ttnn.")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--specs", type=int, default=100_000)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    share = 10 if options.quick else 1
    report = measure(options.steps // share, options.specs // share)
    if options.json:
        print(json.dumps(report))
        return 0
    for name, unit in (("replay", "steps"), ("place", "specs")):
        row = report[name]
        line = f"{name:7s} {row[unit]:>10,} {unit}   twin {row[f'twin_{unit}_per_second']:>13,.0f} /s"
        if "ratio" in row:
            line += f"   ttnn {row[f'ttnn_{unit}_per_second']:>10,.0f} /s   ratio {row['ratio']:>8.1f}"
        print(line)
    if report["ttnn"] is None:
        print(f"no ttnn to compare with: {report['why_no_ttnn']}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
