# SPDX-License-Identifier: Apache-2.0
"""Random calls of all operations, their tensors put into shards: how often the twin is exact, and whether it is right.

    python bench/twin_shards.py --board n150 --calls 800 [--only slice,permute] [--before OTHER/src]

The mock is asked once; with ``--before`` the twin of another checkout judges the same calls. ``--mesh 1x2``: calls of
several chips instead; ``--as-drawn``: all calls as the oracle draws them, most of them of tensors in pages.
"""

from __future__ import annotations

# ruff: noqa: I001 - what is imported first chooses the checkout
import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twin_coverage import RESULT_KEYS, broken_bounds, differences

from ttmem.twin.operations import RECORDS
from ttmem.engines.engine import EngineSettings
from ttmem.engines.ttnn import TtnnEngine
from ttmem.engines.twin import TwinEngine
from ttmem.failures.outcome import Outcome

Step = dict[str, Any]
_LEFT_BYTES = (0, 0, 0, 700_000, 300_000, 100_000, 50_000, 20_000, 8_000)
_L1_SMALL_BYTES = 32768
_NOT_OF_SHARDS = ("conv",)
"""Families whose weights and images have forms of their own."""


def calls(
    count: int,
    seed: int,
    pool: Sequence[int],
    only: Sequence[str] = (),
    *,
    on_mesh: bool = False,
    as_drawn: bool = False,
) -> list[list[Step]]:
    """Of any operation; tiles and rows of two dimensions or more mostly in shards, now and then the result too, L1
    filled to different heights.
    """
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
    from oracle.draws import draw_call, sample
    from oracle.draws.choose import RandomChoose

    dice, found = RandomChoose(seed), list[list[Step]]()
    records = [RECORDS.find(name) for name in only] or [
        record
        for record in RECORDS
        if record.needs_mesh == on_mesh and (as_drawn or not any(word in record.family for word in _NOT_OF_SHARDS))
    ]
    while len(found) < count:
        record = dice.one_of(records)
        *made, call = draw_call(record, dice)
        wish = call["kwargs"].get("memory_config")
        if wish and "shard" not in wish and not as_drawn and not dice.integer(0, 3):
            shape = next((tensor["shape"] for tensor in made if len(tensor.get("shape", ())) > 1), None)
            if shape:
                wish = sample.any_place(dice, shape, made[0].get("layout", "tile"), sharded=True)
                call = {**call, "kwargs": {**call["kwargs"], "memory_config": wish}}
        for number, tensor in enumerate(() if as_drawn else made):
            if "alloc" in tensor and len(tensor["shape"]) > 1 and not tensor.get("shard") and dice.integer(0, 3):
                made[number] = tensor | sample.any_place(dice, tensor["shape"], tensor["layout"], sharded=True)
        left = dice.one_of(_LEFT_BYTES)
        banks, _, size = pool
        filler = {"shape": [banks, size - left], "dtype": "uint8", "layout": "row_major", "memory": "L1"}
        found.append([*([{"alloc": "filler", **filler}] if left else []), *made, call])
    return found


def judged(steps: list[Step], mock: Outcome, twin: Outcome) -> str:
    """The twin's level, ``wrong`` where the mock says otherwise; empty where the library does not take the call."""
    if len(mock.answers) < len(steps) or mock.status == "invalid":
        return "wrong pass" if twin.ok and len(mock.answers) == len(steps) else ""
    answers = tuple(
        {**answer, "results": [{name: one[name] for name in RESULT_KEYS} for one in answer["results"]]}
        if "results" in answer
        else answer
        for answer in mock.answers
    )
    mock = mock._replace(answers=answers)
    wrong = (differences if twin.confidence == "exact" else broken_bounds)(twin, mock, True)
    if wrong or twin.status == "invalid":
        return f"wrong {twin.confidence}"
    return "not judged" if twin.status == "unsupported" and twin.confidence == "bounded" else twin.confidence


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--board", default="n150")
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=lambda names: names.split(","), default=[], help="operations")
    parser.add_argument("--as-drawn", action="store_true", help="do not put tensors into shards")
    parser.add_argument("--mesh", type=lambda text: tuple(map(int, text.split("x"))), help="1x2: of several chips")
    parser.add_argument("--before", type=Path, help="src of another checkout")
    parser.add_argument("--asked", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    settings = EngineSettings(board=options.board, mesh=options.mesh, l1_small_bytes=_L1_SMALL_BYTES)
    if options.asked:
        told = json.loads(options.asked.read_text())
    else:
        with TtnnEngine(settings) as engine:
            engine.start()
            pool, on_mesh = engine.device["pools"]["L1"], options.mesh is not None
            cases = calls(options.calls, options.seed, pool, options.only, on_mesh=on_mesh, as_drawn=options.as_drawn)
            told = [[c, m._asdict()] for c, m in zip(cases, engine.ask_all(cases, timeout=60.0), strict=True)]
    twin, found, reasons = TwinEngine(settings), Counter[str](), Counter[tuple[str, str, str]]()
    for steps, mock in told:
        outcome = Outcome(**{name: value for name, value in mock.items() if name in Outcome._fields})
        answer = twin.ask(steps)
        level = judged(steps, outcome, answer)
        found[level] += 1
        if level not in ("", "exact"):
            reasons[level, steps[-1]["call"], answer.doubt or answer.message] += 1
        if level.startswith("wrong"):
            said = {"steps": steps, "mock": outcome.message, "twin": answer.message}
            print(f"{level}: {json.dumps(said, default=dict)}", file=sys.stderr)
    found.pop("", None)
    for (level, name, why), times in reasons.most_common():
        print(f"{times:5} {level:12} {name} {why}")
    print(f"{'before' if options.asked else 'now'}: {dict(sorted(found.items()))} of {found.total()} calls")
    if options.before:
        with tempfile.TemporaryDirectory() as folder:
            asked = Path(folder) / "asked.json"
            asked.write_text(json.dumps(told, default=dict))
            environment = {**os.environ, "TTMEM_COVERAGE_SOURCE": str(options.before.resolve())}
            command = [sys.executable, __file__, "--board", options.board, "--asked", str(asked)]
            command += ["--mesh", "x".join(map(str, options.mesh))] if options.mesh else []
            subprocess.run(command, env=environment, check=False)
    return any(level.startswith("wrong") for level in found)


if __name__ == "__main__":
    sys.exit(main())
