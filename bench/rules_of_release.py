# SPDX-License-Identifier: Apache-2.0
"""Which rules of operations hold for another ttnn release: random calls of every record, on the twin and on its mock.

    python bench/rules_of_release.py --python venv-of-0.80/bin/python           # shows
    python bench/rules_of_release.py --python ... --write                       # and notes it in checked.toml

A rule holds when enough calls that the twin calls exact were compared and none differs: status, figures of a failure,
peaks, results with their addresses. L1 is filled to different heights first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench"), str(ROOT / "tests")]

from oracle.draws import draw_call  # noqa: E402
from oracle.draws.choose import RandomChoose  # noqa: E402
from ttmem.base import toml  # noqa: E402
from ttmem.engines.engine import EngineSettings  # noqa: E402
from ttmem.engines.ttnn import TtnnEngine  # noqa: E402
from ttmem.engines.twin import TwinEngine  # noqa: E402
from ttmem.failures.outcome import Outcome  # noqa: E402
from ttmem.hardware import RELEASES  # noqa: E402
from ttmem.twin.operations import EXACT, RECORDS, OperationRecord, registry  # noqa: E402
from twin_coverage import differences  # noqa: E402

CHECKED = ROOT / "src" / "ttmem" / "twin" / "operations" / "checked.toml"
BOARDS = ("n150", "p150")
LEAST_CALLS = 20
_FILLERS = (0, 0, 64, 200, 400, 600)
"""Tiles of each bank that are taken before."""
_L1_SMALL_BYTES = 32768


@dataclass(slots=True)
class Compared:
    calls: int = 0
    different: int = 0
    example: str = ""


def drawn(record: OperationRecord, count: int) -> Iterator[list[dict[str, Any]]]:
    choose = RandomChoose(record.name)
    for _ in range(count):
        tiles = choose.one_of(_FILLERS)
        filler = {"shape": [1, 1, 32 * 64, 32 * tiles], "dtype": "bfloat16", "layout": "tile", "memory": "L1"}
        yield [*([{"alloc": "filler", **filler}] if tiles else []), *draw_call(record, choose)]


def compare(record: OperationRecord, real: TtnnEngine, twin: TwinEngine, count: int, into: Compared) -> None:
    cases = [(steps, outcome) for steps in drawn(record, count) if (outcome := twin.ask(steps, stop=True)) is not None]
    exact = [(steps, outcome) for steps, outcome in cases if outcome.confidence == EXACT]
    for (steps, told), mock in zip(exact, real.ask_all([steps for steps, _ in exact], stop=True), strict=True):
        into.calls += 1
        if wrong := differences(told, _comparable(mock), measured=False):
            into.different += 1
            into.example = into.example or f"{wrong[0]} {steps}"


def _comparable(mock: Outcome) -> Outcome:
    """Of results what the twin says of them."""
    names = ("shape", "padded", "dtype", "layout", "memory", "page_bytes", "pages", "aligned_page_bytes", "address")
    answers = [
        {**answer, "results": [{name: one[name] for name in names} for one in answer.get("results", ())]}
        for answer in mock.answers
    ]
    return mock._replace(answers=tuple(answers))


def note_down(release: str, found: dict[str, Compared]) -> None:
    """The release's paragraph of the file, in place of the one that was there."""
    listed = [one for one in toml.loads(CHECKED.read_text("utf-8"))["release"] if one["name"] != release]
    agreeing = [name for name, one in found.items() if one.calls >= LEAST_CALLS and not one.different]
    listed.append({"name": release, "calls": sum(one.calls for one in found.values()), "operations": sorted(agreeing)})
    head = [line for line in CHECKED.read_text("utf-8").splitlines() if line.startswith("#")]
    lines = list(head)
    for one in sorted(listed, key=lambda one: one["name"], reverse=True):
        lines += ["", "[[release]]", f'name = "{one["name"]}"', f"calls = {one['calls']}", "operations = ["]
        lines += [f'    "{name}",' for name in one["operations"]] + ["]"]
    CHECKED.write_text("\n".join(lines) + "\n", "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Which rules of operations hold for another ttnn release.")
    parser.add_argument("--python", required=True, help="an interpreter that has the release")
    parser.add_argument("--calls", type=int, default=60, help="random calls of each operation on each board")
    parser.add_argument("--operation", default="", help="only these, with commas")
    parser.add_argument("--write", action="store_true", help="note it in checked.toml")
    options = parser.parse_args()
    every = [record.name for record in RECORDS if not record.needs_mesh]
    wanted = options.operation.split(",") if options.operation else every
    found = {name: Compared() for name in wanted}
    release = ""
    for board in BOARDS:
        with TtnnEngine(
            EngineSettings(board=board, python=options.python, l1_small_bytes=_L1_SMALL_BYTES, measure_programs=False)
        ) as real:
            release = RELEASES.find(real.ttnn_version).name
            # The rules are those of the newest: here they are asked as if they had been compared already.
            registry.load_checked_operations = lambda _: frozenset(RECORDS.names())  # type: ignore[assignment]
            twin = TwinEngine(EngineSettings(board=board, l1_small_bytes=_L1_SMALL_BYTES, release=release))
            for name in wanted:
                compare(RECORDS.find(name), real, twin, options.calls, found[name])
    for name, one in found.items():
        if one.different or one.calls < LEAST_CALLS:
            print(f"{name:40} {one.calls:4} calls, {one.different} differ  {one.example[:900]}")
    agree = sum(one.calls >= LEAST_CALLS and not one.different for one in found.values())
    print(f"ttnn {release}: {agree} of {len(found)} rules hold in {sum(one.calls for one in found.values()):,} calls")
    if options.write:
        note_down(release, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
