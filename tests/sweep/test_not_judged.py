# SPDX-License-Identifier: Apache-2.0
"""Results that are neither pass nor failure: what the twin knows from below only, or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import ttmem
from ttmem.hardware import OpenSettings, open_board
from ttmem.operators.case import Case, CaseTensor
from ttmem.operators.sweeps.findings import find_in
from ttmem.operators.sweeps.limits import find_limits
from ttmem.operators.sweeps.plan import Settings
from ttmem.reports.sweep import files as sweep_files
from ttmem.reports.sweep import limits, terminal
from ttmem.twin.operations import RECORDS, Call, Plan
from ttmem.twin.operations.plan import PlanWriter
from ttmem.twin.placement import place

LEFT_OPEN = "relu was given a temporary as large as its result for this test"


def relu_with_a_temporary(wanted: Call, plan: PlanWriter) -> Plan:
    spec = wanted.inputs[0]
    slot = plan.allocate(spec)
    plan.may_take(spec.memory, place(spec, open_board("n150")).taken_bytes_per_bank, LEFT_OPEN)
    plan.launch([4096], at_least=LEFT_OPEN, at_most_bytes=8192)
    return plan.finish(slot, spec)


@pytest.fixture
def bounded_relu() -> Iterator[None]:
    """The twin knows relu only between two and three tensors."""
    known = RECORDS.find("relu")
    RECORDS.remove("relu")
    RECORDS.add(replace(known, plan=relu_with_a_temporary, is_sized_by_elements=None))
    yield
    RECORDS.remove("relu")
    RECORDS.add(known)


@pytest.fixture
def no_relu() -> Iterator[None]:
    known = RECORDS.find("relu")
    RECORDS.remove("relu")
    yield
    RECORDS.add(known)


def relu(height: int) -> Case:
    """Rows of tiles over 64 banks of L1, which hold 1,360,544 bytes each: 664 tiles."""
    return Case("relu", (CaseTensor((1, 1, height, 2048)),))


@pytest.mark.usefixtures("bounded_relu")
def test_a_pass_needs_an_upper_bound_that_fits(tmp_path: Path) -> None:
    # GIVEN a tensor of which three fit into a bank, one of which two do and a third may be needed, and a larger one
    cases = [relu(32 * 200), relu(32 * 300), relu(32 * 400)]
    # WHEN they are swept THEN only the first passes, only the last fails
    run = ttmem.sweep(cases, tmp_path / "run", memories=["L1"])
    rows = {row.id: row for row in run.results}
    first, second, third = (rows[case.id] for case in cases)
    assert (first.status, first.confidence) == ("pass", "bounded")
    assert (second.status, second.is_judged) == ("unsupported", False)
    assert second.message == f"not judged: {LEFT_OPEN}; ask --engine mock"
    assert (third.status, third.is_judged) == ("oom", True)
    # AND what is not judged is counted as such, in the answer and in every report
    assert run.to_json()["not_judged"] == 1
    told = [json.loads(line) for line in (tmp_path / "run" / "results.jsonl").read_text().splitlines()]
    assert [line.get("not_judged") for line in told] == [None, True, None]
    # AND each has both bounds of its peak: two tensors and the third, or the bank where it may fail
    one, bank = 2048 * 200, open_board("n150", OpenSettings(l1_small_bytes=32768)).l1.bytes_per_bank
    bounds = [(line["peak_bytes_per_bank"], line["peak_at_most_bytes_per_bank"]) for line in told]
    assert bounds == [(2 * one, 3 * one), (3 * one, bank), (2 * one, bank)]
    files = sweep_files.render_all(find_in(tmp_path / "run", generated="today"))
    metrics = json.loads(files["subset_test_analysis.json"])
    assert [metrics[name] for name in ("total_tests", "passed", "oom", "failed", "not_judged")] == [3, 1, 1, 0, 1]
    assert metrics["success_rate"] == 50.0
    assert metrics["operators"]["relu"]["not_judged"] == 1
    assert "| **Not judged** | 1 | 33.3% |" in files["OPERATOR_MEMORY_ANALYSIS_SUMMARY.md"]
    assert "Not judged" in files["sweep_report.html"]
    assert "not judged" in files["oom_analysis_report.md"]


@pytest.mark.usefixtures("bounded_relu")
def test_an_operator_without_a_failure_is_not_called_a_pass_while_something_is_open(tmp_path: Path) -> None:
    ttmem.sweep([relu(32 * 200), relu(32 * 300)], tmp_path, memories=["L1"])
    (operator,) = find_in(tmp_path, generated="today").summary.operators
    assert (operator.status, operator.passed, operator.not_judged) == ("NOT JUDGED", 1, 1)


@pytest.mark.usefixtures("bounded_relu")
def test_the_terminal_counts_them_and_strict_does_not_take_them_for_passes(tmp_path: Path) -> None:
    run = ttmem.sweep([relu(32 * 300)], tmp_path, memories=["L1"], strict=True)
    assert [deviation.result.status for deviation in run.unexpected] == ["unsupported"]
    assert "1 result not judged" in terminal.render(run.results, run.finished, run.unexpected)


@pytest.mark.usefixtures("bounded_relu")
def test_limits_lie_between_what_passes_and_what_fails() -> None:
    # GIVEN sizes between which nothing is known WHEN the limit is searched
    (limit,) = find_limits([relu(32)], settings=Settings(), boards=["n150"], memories=["L1"], widths=())
    # THEN three tensors and 8,192 bytes surely fit, two and 4,096 surely do not, and between them nobody knows
    assert limit.shape == (1, 1, 32 * 220, 2048)
    assert limit.not_judged_at == (1, 1, 32 * 220 + 1, 2048)
    assert (limit.fails_at, limit.status) == ((1, 1, 32 * 331 + 1, 2048), "clash")
    assert f"not judged from [1, 1, {32 * 220 + 1}, 2048], then clash" in limits.text([limit])


@pytest.mark.usefixtures("no_relu")
def test_without_a_rule_an_elementwise_operator_makes_at_least_its_result(tmp_path: Path) -> None:
    ttmem.sweep([relu(32 * 200)], tmp_path, memories=["L1"])
    (line,) = map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())
    assert (line["status"], line["peak_bytes_per_bank"]) == ("unsupported", 2 * 2048 * 200)
    assert line["peak_at_most_bytes_per_bank"] > 1_300_000


@pytest.mark.usefixtures("no_relu")
def test_a_search_without_a_verdict_names_no_size_that_passes() -> None:
    (limit,) = find_limits([relu(32)], settings=Settings(), boards=["n150"], memories=["L1"], widths=())
    assert (limit.shape, limit.not_judged_at, limit.status) == (None, (1, 1, 1, 2048), "oom")
