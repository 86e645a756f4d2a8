# SPDX-License-Identifier: Apache-2.0
"""tt-metal's own tests, unedited, under ``ttmem test`` on a mock board: how many pass, and why the others do not.

    python bench/real_code.py CHECKOUT --python PATH [--files 62] [--tests 12] [--seed 1] [--board n150] [-o FILE]

CHECKOUT is a checkout of tt-metal (fetched for the measurement, never committed), PATH an interpreter that has ttnn,
torch and what its tests import. A seeded sample of test files over all families of operations, and of tests in each,
is run. What fails is run once more with plain ttnn on the same mock: a failure that it has too is the test's own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from ttmem.engines.interpreters import find_interpreter
from ttmem.engines.workspace import workspace

SAMPLER = """
import os, random


def pytest_collection_modifyitems(config, items):
    chosen = os.environ.get("SAMPLE_IDS")
    if chosen:
        wanted = set(chosen.split("\\n"))
        items[:] = [item for item in items if item.nodeid in wanted]
        return
    most, seed = int(os.environ["SAMPLE_TESTS"]), os.environ["SAMPLE_SEED"]
    if len(items) > most:
        keep = set(random.Random(seed + items[0].nodeid.partition("::")[0]).sample(range(len(items)), most))
        items[:] = [item for place, item in enumerate(items) if place in keep]
"""
PYTEST = ("-o", "addopts=--import-mode=importlib", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "sample_tests")
VALUES = ("AssertionError", "assert ", "PCC", "allclose", "ULP")
FAMILIES = "tests/ttnn/unit_tests"


def main() -> int:
    """Run the sample and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--python", required=True)
    parser.add_argument("--files", type=int, default=62)
    parser.add_argument("--tests", type=int, default=12)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--board", default="n150")
    parser.add_argument("--cap", type=float, default=240.0, help="seconds per file")
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sample_tests.py").write_text(SAMPLER)
        surroundings = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(asked.checkout), folder)),
            "SAMPLE_TESTS": str(asked.tests),
            "SAMPLE_SEED": asked.seed,
        }
        for file in _files(asked):
            row = _run(file, asked, surroundings)
            rows.append(row)
            print(json.dumps({name: row[name] for name in ("file", "counts", "seconds", "theirs", "ours")}), flush=True)
    print(table(rows))
    if asked.output:
        asked.output.write_text(json.dumps(rows, indent=1))
    return 1 if any(row["ours"] for row in rows) else 0


def _files(asked: argparse.Namespace) -> list[Path]:
    found = sorted((asked.checkout / FAMILIES).rglob("test_*.py"))
    return sorted(random.Random(asked.seed).sample(found, min(asked.files, len(found))))


def _run(file: Path, asked: argparse.Namespace, surroundings: dict[str, str]) -> dict[str, Any]:
    began = time.monotonic()
    name = str(file.relative_to(asked.checkout))
    code = "import sys; from ttmem.commands import main; sys.exit(main())"
    source = str(Path(__file__).resolve().parents[1] / "src")
    words = ["test", name, "--board", asked.board, "--python", asked.python, "--json", "--timeout", str(asked.cap)]
    # This process's own code must not shadow what the tests import, so only the start of it knows where it is.
    start = f"import sys; sys.path.insert(0, {source!r}); {code}"
    done = subprocess.run(
        [sys.executable, "-c", start, *words, *PYTEST],
        cwd=asked.checkout,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        suite = json.loads(done.stdout)
    except ValueError:
        suite = {"tests": [], "status": done.returncode}
    failed = [test for test in suite["tests"] if test["outcome"] not in ("passed", "skipped")]
    plain = _plain(name, [test["id"] for test in failed], asked, surroundings)
    ours = [test for test in failed if plain.get(test["id"]) == "passed"]
    return {
        "file": name,
        "counts": dict(Counter(test["outcome"] for test in suite["tests"])),
        "seconds": round(time.monotonic() - began, 1),
        "status": suite["status"],
        "unmeasured": sum(test["unmeasured_programs"] or 0 for test in suite["tests"]),
        "skipped_comparisons": sum(test["skipped_comparisons"] or 0 for test in suite["tests"]),
        "theirs": len(failed) - len(ours),
        "ours": [
            f"{test['id'].partition('::')[2]}: {(test['failure'] or {}).get('message', '')[:200]}" for test in ours
        ],
        "stderr": "" if suite["tests"] else done.stderr[-1500:],
    }


def _why(test: dict[str, Any]) -> str:
    return str((test["failure"] or {}).get("message", ""))[:200]


def _plain(name: str, ids: list[str], asked: argparse.Namespace, surroundings: dict[str, str]) -> dict[str, str]:
    """How these tests end without ttmem; a failure by a value counts as passed, because a mock has no values."""
    outcomes: dict[str, str] = {}
    interpreter = find_interpreter(asked.python)
    for one in ids:  # each alone: some kill the process
        with workspace(interpreter, board=asked.board) as place, tempfile.TemporaryDirectory() as folder:
            junit = Path(folder) / "out.xml"
            done = subprocess.run(
                [asked.python, "-m", "pytest", name, *PYTEST, f"--junit-xml={junit}"],
                cwd=asked.checkout,
                env={**place.environment(surroundings), "SAMPLE_IDS": one},
                capture_output=True,
                text=True,
                timeout=asked.cap,
                check=False,
            )
            by_value = done.returncode == 1 and any(words in done.stdout for words in VALUES)
            outcomes[one] = "passed" if done.returncode == 0 or by_value else "failed"
    return outcomes


def table(rows: list[dict[str, Any]]) -> str:
    """Counts by outcome, and every failure that plain ttnn does not have."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(row["counts"])
    judged = sum(count for outcome, count in counts.items() if outcome != "skipped")
    ours = [f"- {row['file']}: {text}" for row in rows for text in row["ours"]]
    good = judged - len(ours)
    lines = [
        f"{len(rows)} files, {sum(counts.values())} tests: {dict(counts)}",
        f"pass, or fail for a reason of their own: {good} of {judged} ({100 * good / max(judged, 1):.1f} %)",
        f"operations with unmeasured programs: {sum(row['unmeasured'] for row in rows)}",
        f"comparisons of values skipped: {sum(row['skipped_comparisons'] for row in rows)}",
        f"files without a result (set-up, imports): {sum(not row['counts'] for row in rows)}",
        *ours,
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
