# SPDX-License-Identifier: Apache-2.0
"""The table of releases: what is sampled, what is compared, and what is not believed."""

from __future__ import annotations

from releases import sample, steps, text, with_programs, without_dips
from ttmem.failures.outcome import Outcome
from ttmem.operators.case import Case, CaseTensor
from ttmem.operators.sweeps.comparison import NEEDS_MORE, NEWLY_FAILS
from ttmem.operators.sweeps.result import Result


def result(op: str, *, dram: int = 0, static: int = 0, status: str = "pass", problem: str = "") -> Result:
    parts = {"tensors": 0, "circular_buffers": static, "dataflow_buffers": 0, "scratchpads": 0}
    outcome = Outcome(status, peak_bytes_per_bank={"DRAM": dram}, l1_parts=parts, l1_problem=problem)
    return Result(f"{op}-1", op, outcome, "n150", "mock", "DRAM", "tile", shapes=((32, 32),))


def test_the_smallest_and_the_largest_of_every_operator_are_there() -> None:
    cases = [Case(op, (CaseTensor((32 * size, 32), "bfloat16"),)) for op in ("add", "mm") for size in range(1, 11)]
    chosen = sample(cases, 3)
    heights = [case.tensors[0].shape[0] for case in chosen]
    assert heights == [32, 160, 320, 32, 160, 320]
    assert len(sample(cases, 100)) == 20


def test_changes_of_tensors_and_of_programs_are_told_apart() -> None:
    before = [result("add", dram=100, static=10), result("mm", dram=100)]
    after = [result("add", dram=150, static=20), result("mm", dram=100, status="oom")]
    [(name, kinds, (compared, unknown))] = steps({"1.0": before, "1.1": after})
    assert (name, compared, unknown) == ("1.0 to 1.1", 2, 0)
    assert [change.after.op for change in kinds[NEEDS_MORE]] == ["add"]
    assert [change.after.op for change in kinds[NEWLY_FAILS]] == ["mm"]
    assert [change.growth_bytes_per_bank for change in kinds[f"{NEEDS_MORE} L1 with programs"]] == [10]
    shown = text({"1.0": before, "1.1": after}, "two cases")
    assert "| needs more | add | 1 | [32, 32] in DRAM | 100 B per bank | 150 B per bank |" in shown


def test_a_release_that_tells_less_of_programs_needs_no_less() -> None:
    # nothing told of a program that has buffers in the next release, or not measured
    assert with_programs([result("add")], [result("add", static=20)])[2] == 1
    assert with_programs([result("add", static=9, problem="no")], [result("add", static=20)])[2] == 1
    # less in one release alone
    told = {"1.0": [result("add", static=20)], "1.1": [result("add", static=8)], "1.2": [result("add", static=20)]}
    assert [unknown for _, _, (_, unknown) in steps(without_dips(told))] == [1, 1]
    lasting = {**told, "1.2": [result("add", static=8)]}
    assert [unknown for _, _, (_, unknown) in steps(without_dips(lasting))] == [0, 0]
