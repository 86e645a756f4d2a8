# SPDX-License-Identifier: Apache-2.0
"""Results that are neither pass nor failure: what the twin knows from below only, or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import ttmem
from ttmem.operators.case import Case, CaseTensor
from ttmem.operators.sweeps.findings import summarize_results
from ttmem.operators.sweeps.limits import find_limits
from ttmem.operators.sweeps.plan import SweepSettings
from ttmem.reports import sweep, sweep_report
from ttmem.twin.operations import RECORDS, Call, Plan
from ttmem.twin.operations.plan import PlanBuilder

LEFT_OPEN = "relu may have temporaries in this test"


def estimated_relu_plan(wanted: Call, plan: PlanBuilder) -> Plan:
    spec = wanted.inputs[0]
    slot = plan.allocate(spec)
    plan.estimate(LEFT_OPEN)
    plan.launch([4096])
    return plan.finish(slot, spec)


@pytest.fixture
def estimated_relu() -> Iterator[None]:
    """The twin knows of relu only that it needs two tensors or more."""
    known = RECORDS.find("relu")
    RECORDS.remove("relu")
    RECORDS.add(replace(known, plan=estimated_relu_plan))
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


@pytest.mark.usefixtures("estimated_relu")
def test_an_estimate_that_fits_is_not_judged_and_one_that_does_not_fit_fails(tmp_path: Path) -> None:
    # GIVEN an operation that the twin knows exactly, a tensor of which two fit into a bank, and a larger one
    cases = [Case("neg", (CaseTensor((1, 1, 32, 2048)),)), relu(32 * 300), relu(32 * 400)]
    # WHEN they are swept THEN the estimate that fits is no pass, and the one that does not fit fails
    run = ttmem.sweep(cases, tmp_path / "run", memories=["L1"])
    rows = {row.id: row for row in run.results}
    first, second, third = (rows[case.id] for case in cases)
    assert (first.status, first.confidence) == ("pass", "exact")
    assert (second.status, second.is_judged, second.confidence) == ("unsupported", False, "bounded")
    assert second.message == f"not judged: {LEFT_OPEN}; ask --engine mock"
    assert (third.status, third.is_judged) == ("oom", True)
    # AND what is not judged is counted as such, in the answer and in every report
    assert run.to_json()["not_judged"] == 1
    told = [json.loads(line) for line in (tmp_path / "run" / "results.jsonl").read_text().splitlines()]
    assert [line.get("not_judged") for line in told] == [None, True, None]
    # AND its peak is the least that it needs: two tensors
    assert [line["peak_bytes_per_bank"] for line in told[1:]] == [2 * 2048 * 300, 2048 * 400]
    files = sweep_report.render_all(summarize_results(tmp_path / "run", generated="today"))
    metrics = json.loads(files["subset_test_analysis.json"])
    assert [metrics[name] for name in ("total_tests", "passed", "oom", "failed", "not_judged")] == [3, 1, 1, 0, 1]
    assert metrics["success_rate"] == 50.0
    assert metrics["operators"]["relu"]["not_judged"] == 1
    assert "| **Not judged** | 1 | 33.3% |" in files["OPERATOR_MEMORY_ANALYSIS_SUMMARY.md"]
    assert "Not judged" in files["sweep_report.html"]
    assert "not judged" in files["oom_analysis_report.md"]


@pytest.mark.usefixtures("estimated_relu")
def test_an_operator_without_a_failure_is_not_called_a_pass_while_something_is_open(tmp_path: Path) -> None:
    ttmem.sweep([relu(32 * 200), relu(32 * 300)], tmp_path, memories=["L1"])
    (operator,) = summarize_results(tmp_path, generated="today").summary.operators
    assert (operator.status, operator.passed, operator.not_judged) == ("NOT JUDGED", 0, 2)


@pytest.mark.usefixtures("estimated_relu")
def test_the_terminal_counts_them_and_strict_does_not_take_them_for_passes(tmp_path: Path) -> None:
    run = ttmem.sweep([relu(32 * 300)], tmp_path, memories=["L1"], strict=True)
    assert [deviation.result.status for deviation in run.unexpected] == ["unsupported"]
    assert "1 result not judged" in sweep.render_run(run.results, run.finished, run.unexpected)


@pytest.mark.usefixtures("estimated_relu")
def test_a_limit_of_estimates_names_what_fails_alone() -> None:
    # GIVEN sizes between which nothing is known WHEN the limit is searched
    (limit,) = find_limits([relu(32)], settings=SweepSettings(), boards=["n150"], memories=["L1"], widths=())
    # THEN where two tensors and 4,096 bytes do not fit it fails, and below that nothing is certain
    assert limit.shape is None
    assert limit.not_judged_at == (1, 1, 1, 2048)
    assert (limit.fails_at, limit.status) == ((1, 1, 32 * 331 + 1, 2048), "clash")
    assert "not judged from [1, 1, 1, 2048], then clash" in sweep.render_limits_terminal([limit])


@pytest.mark.usefixtures("no_relu")
def test_without_a_rule_an_elementwise_operator_makes_at_least_its_result(tmp_path: Path) -> None:
    ttmem.sweep([relu(32 * 200)], tmp_path, memories=["L1"])
    (line,) = map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())
    assert (line["status"], line["peak_bytes_per_bank"]) == ("unsupported", 2 * 2048 * 200)


@pytest.mark.usefixtures("no_relu")
def test_a_search_without_a_verdict_names_no_size_that_passes() -> None:
    (limit,) = find_limits([relu(32)], settings=SweepSettings(), boards=["n150"], memories=["L1"], widths=())
    assert (limit.shape, limit.not_judged_at, limit.status) == (None, (1, 1, 1, 2048), "oom")
