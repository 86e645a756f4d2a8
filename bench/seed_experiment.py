# SPDX-License-Identifier: Apache-2.0
"""The experiment of the older operator reports, repeated on a mock n150: their shapes, both memories, our numbers.

    python bench/seed_experiment.py docs/seed-experiment.md

Needs an interpreter with ttnn. The shapes, counts and sizes of the older reports are data in tests/data/sweep.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttmem.failures.outcome import MEMORY_STATUSES
from ttmem.operators.case import Case, CaseTensor
from ttmem.operators.catalogue_entries import catalogue
from ttmem.operators.sweeps.journal import read_results
from ttmem.operators.sweeps.plan import SweepSettings, make_plan
from ttmem.operators.sweeps.result import Result
from ttmem.operators.sweeps.run import run_sweep

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "sweep" / "older_reports.json"
MIB = 1 << 20
Rows = dict[tuple[str, str], Result]
PAGE = """\
# The older experiment, repeated

Three older reports tested vision operators on a Wormhole card and drew conclusions from what ran out of memory. This
page repeats their shapes on the real library with a mock n150, in L1 **and** in DRAM, each case alone on an empty
device (`ttmem sweep run --engine mock`, ttnn {version}, `l1_small_size` 32768, bfloat16 tiles). It is written by
`python bench/seed_experiment.py docs/seed-experiment.md`.

## The 41 failures of the final report

"As tested" is what those tests really ran: every rank-4 tensor permuted to channels-last first, in L1, which they
hard-coded. "As recorded" is the shape as the model has it.

| | L1 | DRAM |
|---|---|---|
| out of memory, as tested | **{tested_l1} of {total}** | **{tested_dram} of {total}** |
| out of memory, as recorded | {recorded_l1} of {total} | {recorded_dram} of {total} |

- Bytes of the allocation that failed: the same as theirs in {same} of {total} (as tested, L1).
- Their figures sum up right: smallest {smallest} MB, largest {largest} MB, mean {mean} MB, {different} shapes.
- What they mean is another matter. The figure is the one allocation that failed, not what the operator needs, and
  {only_l1} of {total} failures exist only because the tests chose L1.

{failure_table}

## The operators of the large reports

{names} operator names of the 2176x3840 reports, each with the 13 shapes that most of them share, as recorded (channels
first); matrix products, softmax and split_with_sizes with those that the reports name for them. Arguments that those
tests did not pass, the reason why many could never pass, are filled in by the catalogue and listed in each result.
Their counts hold every failure twice, once from the log and once from pytest's summary: halve them. "Memory" counts
out-of-memory and clashes of static buffers with L1 tensors.

In all: in L1 {all_l1} run out of memory, in DRAM {all_dram}.

{operator_table}

Our cases differ from theirs where their test permuted to channels-last first: `[1, 3, 2176, 3840]` is 47.8 MB as
recorded and 510 MB with its 3 channels padded to 32.
"""


def older() -> dict[str, Any]:
    """What the older reports say."""
    found: dict[str, Any] = json.loads(DATA.read_text())
    return found


def channels_last(shape: list[int]) -> tuple[int, ...]:
    """The older tests moved the channels of every rank-4 tensor to the end before anything else."""
    return (shape[0], shape[2], shape[3], shape[1]) if len(shape) == 4 else tuple(shape)


def as_tested(operator: str, shape: list[int]) -> Case:
    """A case of the 41 failures as the older test ran it: channels last, a view and a permutation back from there."""
    first = CaseTensor(channels_last(shape))
    if operator == "view":
        return Case("view", (first,), {"size": shape})
    if operator == "permute" and len(shape) == 4:
        return Case("permute", (first,), {"dims": [0, 3, 1, 2]})
    return Case(operator, (first,))


def as_recorded(operator: str, shape: list[int]) -> Case:
    """The same as the model has it."""
    return Case(operator, (CaseTensor(tuple(shape)),), {"size": shape} if operator == "view" else {})


def operator_cases() -> dict[str, list[Case]]:
    """The operators of the large report with its shapes, by the name it gives them."""
    told = older()
    found: dict[str, list[Case]] = {}
    for name, entry in told["operators"].items():
        aten = catalogue().aten_name(name)
        shapes = entry.get("shapes") or told["shapes"]
        found[name] = [_operator_case(aten, shape, entry.get("args", {})) for shape in shapes]
    return found


def _operator_case(aten: str, shape: list[int], args: dict[str, Any]) -> Case:
    """Operators that make a tensor have its size as an argument."""
    operator = catalogue().find(aten)
    if operator is not None and operator.kind == "creation":
        return Case(aten, (), {"size": shape})
    return Case(aten, (CaseTensor(tuple(shape)),), args)


def run(cases: list[Case], engine: str = "mock", workers: int | None = None) -> dict[tuple[str, str], Result]:
    """Rows by case id and memory."""
    with tempfile.TemporaryDirectory() as folder:
        plan = make_plan(cases, settings=SweepSettings(engine), boards=("n150",))
        run_sweep(plan, Path(folder), workers=workers)
        return {(row.id, row.memory): row for row in read_results(Path(folder))[0]}


@dataclass(frozen=True, slots=True)
class Failure:
    """One of the 41, theirs and ours."""

    operator: str
    shape: list[int]
    said_bytes: int
    tested: dict[str, Result]
    recorded: dict[str, Result]


def failures(engine: str = "mock") -> list[Failure]:
    """The 41 failures of the third report, run again in both memories."""
    told = older()["failures"]
    tested = [as_tested(one["operator"], one["shape"]) for one in told]
    recorded = [as_recorded(one["operator"], one["shape"]) for one in told]
    rows = run([*tested, *recorded], engine)
    return [
        Failure(
            one["operator"],
            one["shape"],
            one["bytes"],
            {memory: rows[first.id, memory] for memory in ("L1", "DRAM")},
            {memory: rows[second.id, memory] for memory in ("L1", "DRAM")},
        )
        for one, first, second in zip(told, tested, recorded, strict=True)
    ]


def is_out_of_memory(row: Result) -> bool:
    return row.status in MEMORY_STATUSES


def _mb(amount: int | None) -> str:
    return "-" if amount is None else f"{amount / MIB:,.2f}"


def _failure_table(found: list[Failure]) -> list[str]:
    lines = [
        "| operator | shape | said MiB | L1, as tested | MiB asked | DRAM, as tested | L1, recorded | DRAM, recorded |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        l1 = one.tested["L1"]
        cells = (
            one.operator,
            f"`{one.shape}`",
            _mb(one.said_bytes),
            l1.status,
            _mb(l1.needed_bytes) + (" (same)" if l1.needed_bytes == one.said_bytes else ""),
            one.tested["DRAM"].status,
            one.recorded["L1"].status,
            one.recorded["DRAM"].status,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _operator_table(cases: dict[str, list[Case]], rows: Rows) -> tuple[list[str], dict[str, int]]:
    lines = [
        "| operator | ours | shapes | their OOMs | halved | L1: memory / pass / other | DRAM: the same | first other |",
        "|---|---|---|---|---|---|---|---|",
    ]
    totals = dict.fromkeys(("L1", "DRAM", "L1 all", "DRAM all"), 0)
    told = older()["operators"]
    for name, own in cases.items():
        counts, reasons = [], []
        for memory in ("L1", "DRAM"):
            found = [rows[case.id, memory] for case in own]
            out = sum(map(is_out_of_memory, found))
            passed = sum(row.status == "pass" for row in found)
            reasons += [
                f"{row.status}: {row.message[:90]}"
                for row in found
                if not is_out_of_memory(row) and row.status != "pass"
            ]
            totals[memory] += out
            totals[f"{memory} all"] += len(found)
            counts.append(f"{out} / {passed} / {len(found) - out - passed}")
        said = told[name].get("oom")
        halved = "-" if said is None else str(said // 2)
        reason = reasons[0].replace("|", "/") if reasons else ""
        cells = (name, own[0].op, str(len(own)), "-" if said is None else str(said), halved, *counts, reason)
        lines.append("| " + " | ".join(cells) + " |")
    return lines, totals


def report(found: list[Failure], cases: dict[str, list[Case]], rows: Rows, version: str) -> str:
    """The page."""
    same = sum(one.tested["L1"].needed_bytes == one.said_bytes for one in found)
    out = {
        (how, memory): sum(is_out_of_memory(getattr(one, how)[memory]) for one in found)
        for how in ("tested", "recorded")
        for memory in ("L1", "DRAM")
    }
    mean = sum(one.said_bytes for one in found) / len(found) / MIB
    table, totals = _operator_table(cases, rows)
    total = len(found)
    figures = {
        "version": version,
        "total": total,
        "same": same,
        "only_l1": total - out["tested", "DRAM"],
        "smallest": _mb(min(one.said_bytes for one in found)),
        "largest": _mb(max(one.said_bytes for one in found)),
        "mean": f"{mean:,.2f}",
        "different": len({tuple(one.shape) for one in found}),
        "names": len(cases),
        "tested_l1": out["tested", "L1"],
        "tested_dram": out["tested", "DRAM"],
        "recorded_l1": out["recorded", "L1"],
        "recorded_dram": out["recorded", "DRAM"],
        "all_l1": f"{totals['L1']} of {totals['L1 all']}",
        "all_dram": f"{totals['DRAM']} of {totals['DRAM all']}",
        "failure_table": "\n".join(_failure_table(found)),
        "operator_table": "\n".join(table),
    }
    return PAGE.format(**figures)


def main(words: list[str]) -> int:
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    from ttmem.engines.interpreters import find_interpreter

    found = failures()
    cases = operator_cases()
    rows = run([case for own in cases.values() for case in own])
    Path(words[0]).write_text(report(found, cases, rows, find_interpreter().ttnn_version))
    print(f"wrote {words[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
