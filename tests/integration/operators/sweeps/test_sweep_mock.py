# SPDX-License-Identifier: Apache-2.0
"""Sweeps on the real library with mock boards: the twin's judge, crashes, kills, a Dask cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import seed_experiment
from support.results import in_order, without_time
from ttmem import TtmemError
from ttmem.engines.interpreters import Interpreter
from ttmem.operators.case import Case, CaseTensor, write_cases
from ttmem.operators.case_program import lower_case
from ttmem.operators.catalogue_entries import DEVICE, catalogue
from ttmem.operators.sweeps import ask_engine
from ttmem.operators.sweeps.ask_engine import CaseRunner
from ttmem.operators.sweeps.journal import read_results
from ttmem.operators.sweeps.plan import Point, SweepSettings, make_plan
from ttmem.operators.sweeps.result import Result
from ttmem.operators.sweeps.run import run_sweep

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("with_ttnn")]

LARGE = ([1, 96, 544, 960], [1, 42471, 512], [345, 8, 49, 49], [1, 3, 1088, 1920], [1, 64, 320, 200])
LARGE_OPERATORS = (
    "silu",
    "relu_",
    "add",
    "add_",
    "mul",
    "div",
    "clone",
    "permute",
    "transpose",
    "cat",
    "leaky_relu",
    "slice",
)


def figures(row: Result) -> tuple[Any, ...]:
    # How far a call that is refused came before that is nobody's concern.
    peak = row.peak_bytes_per_bank if row.status != "invalid" else None
    return row.status, row.failed_memory, row.needed_bytes, row.bytes_per_bank, peak


def ask_mock(points: Sequence[Point]) -> list[Result]:
    engine = CaseRunner(SweepSettings("mock"))
    try:
        return list(engine.ask(points))
    finally:
        engine.close()


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["tile", "row_major"])
def test_the_twin_is_right_wherever_it_says_exact(layout: str) -> None:
    cases = [operator.example_case() for operator in catalogue().operators.values() if operator.support == DEVICE]
    cases += [Case(op, (CaseTensor(tuple(shape)),)) for shape in LARGE for op in LARGE_OPERATORS]
    points = make_plan(cases, settings=SweepSettings("mock"), layouts=(layout,)).points

    twin = list(CaseRunner(SweepSettings()).ask(points))
    mock = ask_mock(points)

    exact = [(a, b) for a, b in zip(twin, mock, strict=True) if a.confidence == "exact"]
    assert len(exact) > 150, "the twin has lost its rules"
    assert [(a.place, figures(a)) for a, _ in exact] == [(a.place, figures(b)) for a, b in exact]
    # a bound is a lower one: what it says runs out of memory does
    for bound, told in zip(twin, mock, strict=True):
        if bound.confidence == "bounded" and bound.status == "oom":
            assert told.status == "oom", bound


@pytest.mark.slow
def test_the_older_experiment() -> None:
    found = seed_experiment.failures()

    assert len(found) == 41
    assert [one.tested["L1"].needed_bytes for one in found] == [one.said_bytes for one in found]
    out = {
        (how, memory): sum(seed_experiment.is_out_of_memory(getattr(one, how)[memory]) for one in found)
        for how in ("tested", "recorded")
        for memory in ("L1", "DRAM")
    }
    assert out == {("tested", "L1"): 41, ("tested", "DRAM"): 1, ("recorded", "L1"): 30, ("recorded", "DRAM"): 1}


def test_a_segfault_costs_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN one case among others that begins a trace, which makes ttnn crash in the next operation
    cases = [Case("relu", (CaseTensor((1, 1, 32, 32 + n)),)) for n in range(6)]
    poisoned = cases[2].id
    begins_trace = {"call": "ttnn.begin_trace_capture", "args": [{"device": 0}], "kwargs": {"cq_id": 0}}

    def recipe(case: Case, **options: Any) -> Any:
        good = lower_case(case, **options)
        first, call = good.steps
        return replace(good, steps=(first, call, begins_trace, call)) if case.id == poisoned else good

    monkeypatch.setattr(ask_engine, "lower_case", recipe)

    # WHEN they are swept
    run_sweep(make_plan(cases, settings=SweepSettings("mock"), memories=("DRAM",)), tmp_path, workers=1)

    # THEN that one crashed and nothing else did
    rows = read_results(tmp_path)[0]
    assert [(row.id == poisoned, row.status) for row in rows] == [
        (case.id == poisoned, "crash" if case.id == poisoned else "pass") for case in cases
    ]
    assert "SIGSEGV" in next(row.message for row in rows if row.status == "crash")


def test_killed_and_resumed_with_workers(tmp_path: Path) -> None:
    # GIVEN a sweep with two workers in a process of its own
    cases = [Case(op, (CaseTensor((1, 2, 32 + n, 64)),)) for n in range(100) for op in ("silu", "add")]
    write_cases(tmp_path / "cases.jsonl", cases)
    child = subprocess.Popen(
        [sys.executable, "-m", "ttmem", "sweep", "run", str(tmp_path / "cases.jsonl"), "--engine", "mock",
         "--workers", "2", "-q", "-o", str(tmp_path / "killed")],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip

    # WHEN it is killed in the middle
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and _rows_in(tmp_path / "killed") < 20:
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    before = _rows_in(tmp_path / "killed")
    assert 20 <= before < 400

    # THEN a second call finishes it, and the journal is that of an uninterrupted run
    plan = make_plan(cases, settings=SweepSettings("mock"))
    finished = run_sweep(plan, tmp_path / "killed", workers=2)
    assert (finished.resumed, finished.asked) == (before, 400 - before)
    run_sweep(plan, tmp_path / "whole", workers=2)
    killed, whole = (read_results(tmp_path / name)[0] for name in ("killed", "whole"))
    assert [without_time(row) for row in killed] == [without_time(row) for row in whole]


def _rows_in(folder: Path) -> int:
    try:
        return len(read_results(folder)[0])
    except (TtmemError, OSError):
        return 0


def test_two_boards_in_one_sweep(tmp_path: Path) -> None:
    shape = (1, 24, 1184, 1024)  # 55.5 MiB: a copy of it fits into the L1 of a p150 and not of an n150
    plan = make_plan(
        [Case("silu", (CaseTensor(shape),))], settings=SweepSettings("mock"), boards=("n150", "p150"), memories=("L1",)
    )

    run_sweep(plan, tmp_path, workers=2)

    rows = read_results(tmp_path)[0]
    assert {row.board: row.status for row in rows} == {"n150": "oom", "p150": "pass"}
    twin = CaseRunner(SweepSettings()).ask(plan.points)
    assert [figures(row) for row in twin] == [figures(row) for row in rows]


@pytest.mark.parametrize("engine", ["twin", "mock"])
# The scheduler's own threads and sockets are not ours to close down faster.
@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_gives_the_same_rows(tmp_path: Path, engine: str, with_ttnn: Interpreter) -> None:
    distributed = pytest.importorskip("distributed")
    cases = [Case(op, (CaseTensor((1, 4, 64 * n, 64 * n)),)) for n in (1, 2, 40) for op in ("silu", "add", "permute")]
    plan = make_plan(cases, settings=SweepSettings(engine))

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as cluster:
        finished = run_sweep(plan, tmp_path / "cluster", scheduler=cluster.scheduler_address)
    run_sweep(plan, tmp_path / "here", workers=1)

    assert finished.asked == 18
    there, here = (read_results(tmp_path / name)[0] for name in ("cluster", "here"))
    assert [without_time(row) for row in there] == [without_time(row) for row in here]
    assert in_order(here, plan.points) == here
