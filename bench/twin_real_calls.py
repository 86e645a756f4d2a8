# SPDX-License-Identifier: Apache-2.0
"""Calls that code which nobody here wrote makes: tt-metal's own tests on a mock board, asked of twin and mock.

    python bench/twin_real_calls.py calls.jsonl --record CHECKOUT --python PATH [--tests tests/ttnn/unit_tests ...]
    python bench/twin_real_calls.py calls.jsonl --board n150 [--only slice,matmul] [--calls 500]

CHECKOUT is a checkout of tt-metal (never committed), PATH an interpreter that has ttnn, torch and what its tests
import. Every call of a test on a device becomes a step with its tensors allocated before it (``recorded_calls.py``),
and a line of the file, to which more may be added. Without ``--record`` the distinct calls of the file are asked, each
on an empty board, and counted by operation. Exit 1 where the twin is wrong.
"""

from __future__ import annotations

# ruff: noqa: I001 - what is imported first chooses the checkout
import argparse
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from real_code import linked_checkout
from twin_shards import judged

from ttmem.engines.engine import EngineSettings
from ttmem.engines.ttnn import TtnnEngine
from ttmem.engines.twin import TwinEngine

HERE = Path(__file__).resolve().parent
PYTEST = (
    *("--no-store", "--no-programs", "--test-timeout", "40", "-p", "no:cacheprovider", "-p", "recorded_calls"),
    "--continue-on-collection-errors",
)
LEVELS = ("exact", "bounded", "not judged", "unknown", "wrong", "not taken")
_L1_SMALL_BYTES = 32768
Step = dict[str, Any]


def record(options: argparse.Namespace) -> None:
    """Run tests under ``ttmem test`` with the plugin that writes their calls."""
    checkout = linked_checkout(options.record.resolve(), options.calls_file.resolve().parent / "tree")
    # This process's own code must not shadow what the tests import, so only the start of it knows where it is.
    source = str(HERE.parent / "src")
    start = f"import sys; sys.path.insert(0, {source!r}); from ttmem.commands.program import main; sys.exit(main())"
    words = ["test", *_test_files(checkout, options.tests), "--board", options.board, "--python", options.python]
    environment = {
        **os.environ,
        "CALLS_FILE": str(options.calls_file.resolve()),
        "CALLS_TESTS": str(options.sample),
        "CALLS_SEED": options.seed,
        "PYTHONPATH": os.pathsep.join((str(checkout), str(HERE))),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        # Processors that announce AMX without the right to use it: torch's bfloat16 matmul dies of it.
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    }
    subprocess.run([sys.executable, "-c", start, *words, *PYTEST], cwd=checkout, env=environment, check=False)


def _test_files(checkout: Path, names: Iterable[str]) -> list[str]:
    places = [checkout / name for name in names]
    files = [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("test_*.py")))]
    return [str(file.relative_to(checkout)) for file in files]


def distinct(lines: Iterable[str], only: list[str]) -> tuple[list[list[Step]], Counter[tuple[str, str]]]:
    """Calls once each, and why others could not be written."""
    found, unclear = dict[str, list[Step]](), Counter[tuple[str, str]]()
    for line in lines:
        told = json.loads(line)
        name = (told.get("call") or told["steps"][-1]["call"]).removeprefix("ttnn.")
        if only and name not in only:
            continue
        if "unclear" in told:
            unclear[name, told["unclear"]] += 1
        else:
            found.setdefault(json.dumps(told["steps"]), told["steps"])
    return list(found.values()), unclear


def compare(options: argparse.Namespace) -> bool:
    """Whether nothing was wrong."""
    with options.calls_file.open() as lines:
        cases, unclear = distinct(lines, options.only)
    cases = cases[: options.calls]
    settings = EngineSettings(board=options.board, l1_small_bytes=_L1_SMALL_BYTES)
    twin, table, reasons = TwinEngine(settings), defaultdict[str, Counter[str]](Counter), Counter[tuple[str, ...]]()
    with TtnnEngine(settings) as engine:
        for steps, mock in zip(cases, engine.ask_all(cases, timeout=60.0), strict=True):
            name, answer = steps[-1]["call"].removeprefix("ttnn."), twin.ask(steps)
            level = judged(steps, mock, answer) or "not taken"
            table[name]["wrong" if level.startswith("wrong") else level] += 1
            if level not in ("exact", "not taken"):
                reasons[level, name, answer.doubt or answer.message] += 1
            if level.startswith("wrong"):
                said = {"steps": steps, "mock": mock.message, "twin": answer.message}
                print(f"{level}: {json.dumps(said, default=dict)}", file=sys.stderr)
    for (level, name, why), times in reasons.most_common():
        print(f"{times:5} {level:13} {name} {why}")
    for (name, why), times in unclear.most_common():
        print(f"{times:5} not written   {name} {why}")
    print(f"| operation | {' | '.join(LEVELS)} |\n|---|{'--:|' * len(LEVELS)}")
    for name, counts in [("all", sum(table.values(), Counter[str]())), *sorted(table.items())]:
        print(f"| {name} | {' | '.join(str(counts[level]) for level in LEVELS)} |")
    return not any(counts["wrong"] for counts in table.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calls_file", type=Path, help="lines of recorded calls")
    parser.add_argument("--record", type=Path, metavar="CHECKOUT", help="run its tests and add their calls to the file")
    parser.add_argument(
        "--tests", nargs="+", default=["tests/ttnn/unit_tests/operations"], help="files or folders of it"
    )
    parser.add_argument("--python", default="", help="with --record: the interpreter of the tests")
    parser.add_argument("--sample", type=int, default=25, help="with --record: tests of each file")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--board", default="n150")
    parser.add_argument("--only", type=lambda names: names.split(","), default=[], help="operations")
    parser.add_argument("--calls", type=int, help="the first ones alone")
    options = parser.parse_args()
    if options.record:
        record(options)
        return 0
    return 0 if compare(options) else 1


if __name__ == "__main__":
    sys.exit(main())
