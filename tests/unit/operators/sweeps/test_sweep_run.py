# SPDX-License-Identifier: Apache-2.0
"""Sweeps on the twin: plan, journal, resume, expectations."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.results import without_time
from ttmem import TtmemError
from ttmem.failures.outcome import Outcome
from ttmem.operators.case import Case, CaseTensor, write_cases
from ttmem.operators.catalogue_entries import catalogue
from ttmem.operators.sweeps import comparison
from ttmem.operators.sweeps.ask_engine import CaseRunner
from ttmem.operators.sweeps.journal import Journal, read_results
from ttmem.operators.sweeps.plan import SweepSettings, make_plan
from ttmem.operators.sweeps.result import Result
from ttmem.operators.sweeps.run import run_sweep
from ttmem.twin.operations import NO_RECORD, combine_confidence


def silu(*shape: int) -> Case:
    return Case("silu", (CaseTensor(shape),))


def many_cases(count: int) -> list[Case]:
    operators = ("silu", "add", "relu_", "clone", "permute", "mean")
    return [Case(operators[n % 6], (CaseTensor((1, 8, 16 + n, 64 + 7 * n)),)) for n in range(count)]


def test_small_cases_come_first_in_every_memory() -> None:
    plan = make_plan([silu(1, 4096, 4096), silu(32, 32)], settings=SweepSettings(), layouts=("tile", "row-major"))

    found = [(p.case.tensors[0].shape, p.memory, p.layout) for p in plan.points]

    assert found[:4] == [
        ((32, 32), "DRAM", "tile"),
        ((32, 32), "DRAM", "row_major"),
        ((32, 32), "L1", "tile"),
        ((32, 32), "L1", "row_major"),
    ]
    assert [shape for shape, _, _ in found[4:]] == [(1, 4096, 4096)] * 4


def test_two_cases_under_one_id_are_refused() -> None:
    with pytest.raises(TtmemError, match="two different cases have the id 'x'"):
        make_plan(
            [Case("silu", (CaseTensor((1,)),), id="x"), Case("relu", (CaseTensor((1,)),), id="x")],
            settings=SweepSettings(),
        )


@pytest.mark.parametrize("memory", ["TRACE", "L1_SMALL", "nonsense"])
def test_memories_that_cannot_be_swept_are_refused(memory: str) -> None:
    with pytest.raises(TtmemError):
        make_plan([silu(32, 32)], settings=SweepSettings(), memories=(memory,))


def test_a_row_has_the_keys_of_the_contract(tmp_path: Path) -> None:
    # GIVEN a tensor whose copy does not fit into L1 beside it
    plan = make_plan([silu(1, 96, 1088, 960)], settings=SweepSettings(), memories=("L1",))

    # WHEN it is swept
    finished = run_sweep(plan, tmp_path / "results")

    # THEN the line says what the library would have said
    line = json.loads(finished.results.read_text())
    line.pop("seconds")
    total = 96 * 1088 * 960 * 2
    assert line == {
        "id": plan.points[0].case.id,
        "op": "silu",
        "board": "n150",
        "engine": "twin",
        "memory": "L1",
        "layout": "tile",
        "status": "oom",
        "needed_bytes": total,
        "bytes_per_bank": total // 64,
        "peak_bytes_per_bank": 0,
        "message": f"Out of Memory: Not enough space to allocate {total} B L1 buffer across 64 banks, where each bank "
        f"needs to store {total // 64} B, but bank size is 1360544 B (allocated: 0 B, free: 1360544 B, largest free "
        "block: 1360544 B).",
        "isolated": True,
        "class": "oom/too-big",
        "failed_memory": "L1",
        "logical_bytes": total,
        "padded_bytes": total,
        "confidence": "exact",
    }


def test_in_place_forms_need_no_second_buffer() -> None:
    shape = (1, 64, 640, 400)  # 32.5 MiB: two fit into L1, three do not
    rows = CaseRunner(SweepSettings()).ask(
        make_plan(
            [Case("add", (CaseTensor(shape),)), Case("add_", (CaseTensor(shape),))],
            settings=SweepSettings(),
            memories=("L1",),
        ).points
    )

    assert [(row.op, row.status) for row in rows] == [("add", "oom"), ("add_", "pass")]


def test_what_the_twin_does_not_know_is_not_called_a_pass() -> None:
    unknown = next(
        one for one in catalogue().operators.values() if one.called and combine_confidence(one.called) == NO_RECORD
    )
    row = next(CaseRunner(SweepSettings()).ask(make_plan([unknown.example_case()], settings=SweepSettings()).points))

    assert (row.status, row.is_judged) == ("unsupported", False)
    assert row.message.startswith("not judged: the twin has no rule for ttnn.")


def test_a_second_call_resumes_and_a_larger_plan_adds(tmp_path: Path) -> None:
    cases = many_cases(30)
    first = run_sweep(make_plan(cases[:10], settings=SweepSettings()), tmp_path)
    again = run_sweep(make_plan(cases[:10], settings=SweepSettings()), tmp_path)
    more = run_sweep(make_plan(cases, settings=SweepSettings()), tmp_path)

    assert (first.asked, again.asked, more.asked) == (20, 0, 40)
    assert (again.resumed, more.resumed) == (20, 20)
    assert len(read_results(tmp_path)[0]) == 60


def test_a_journal_of_other_settings_is_not_continued(tmp_path: Path) -> None:
    run_sweep(make_plan([silu(32, 32)], settings=SweepSettings()), tmp_path)

    with pytest.raises(TtmemError, match="has other settings"):
        run_sweep(make_plan([silu(32, 32)], settings=SweepSettings(l1_small_bytes=0)), tmp_path)


def test_two_sweeps_cannot_write_into_one_folder(tmp_path: Path) -> None:
    with Journal(tmp_path), pytest.raises(TtmemError, match="another sweep is writing there"):
        Journal(tmp_path)


def test_results_are_written_when_a_run_is_interrupted(tmp_path: Path) -> None:
    plan = make_plan(many_cases(400), settings=SweepSettings())

    def interrupt(progress: object) -> None:
        if progress.done_now:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(plan, tmp_path, watch=interrupt)

    rows = (tmp_path / "results.jsonl").read_text().splitlines()
    assert 0 < len(rows) < len(plan)
    assert len(rows) == len(read_results(tmp_path)[0])


@pytest.mark.slow
def test_killed_and_resumed_gives_the_journal_of_an_uninterrupted_run(tmp_path: Path) -> None:
    # GIVEN a sweep in a process of its own
    cases = [Case("permute", (CaseTensor((1, 3 + n % 61, 8 + n, 16)),)) for n in range(2500)]
    write_cases(tmp_path / "cases.jsonl", cases)
    command = [sys.executable, "-m", "ttmem", "sweep", "run", str(tmp_path / "cases.jsonl"), "-q", "-o"]
    child = subprocess.Popen([*command, str(tmp_path / "killed")], stdout=subprocess.DEVNULL)

    # WHEN it is killed in the middle
    journal = tmp_path / "killed" / "journal.sqlite"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if journal.exists() and _rows_in(journal):
            break
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    before = _rows_in(journal)
    assert 0 < before < 5000

    # THEN the next call asks what is missing, and the journals are the same
    run_sweep(make_plan(cases, settings=SweepSettings()), tmp_path / "killed")
    run_sweep(make_plan(cases, settings=SweepSettings()), tmp_path / "whole")
    killed, whole = (read_results(tmp_path / name)[0] for name in ("killed", "whole"))
    assert [without_time(row) for row in killed] == [without_time(row) for row in whole]


def _rows_in(journal: Path) -> int:
    try:
        return len(read_results(journal)[0])
    except TtmemError:
        return 0


def test_expectations(tmp_path: Path) -> None:
    plan = make_plan([silu(32, 32), silu(1, 96, 1088, 960)], settings=SweepSettings())
    run_sweep(plan, tmp_path / "r")
    rows = read_results(tmp_path / "r")[0]

    # what fails today, saved, is what is expected tomorrow
    comparison.write(tmp_path / "known.jsonl", rows)
    known = comparison.read(tmp_path / "known.jsonl")
    assert list(known.values()) == ["oom"]
    assert comparison.check_expectations(rows, known, strict=True) == []
    # without the list it is a surprise, if anyone asks
    assert [one.result.status for one in comparison.check_expectations(rows, None, strict=True)] == ["oom"]
    assert comparison.check_expectations(rows, None, strict=False) == []
    # and so is a pass that was expected to fail
    (key,) = [row.place for row in rows if row.memory == "DRAM" and "1088" in row.id]
    gone = {(key[0], "n150", "DRAM", "tile"): "oom"}
    assert {(d.result.memory, d.expected) for d in comparison.check_expectations(rows, gone, strict=False)} == {
        ("DRAM", "oom"),
        ("L1", "pass"),
    }


@pytest.mark.parametrize(
    ("line", "words"),
    [("{", "not JSON"), ('{"id": "x"}', "an expectation needs"), ("[]", "an expectation needs")],
)
def test_bad_expectations_are_refused_with_their_line(tmp_path: Path, line: str, words: str) -> None:
    (tmp_path / "e.jsonl").write_text(f"\n{line}\n")
    with pytest.raises(TtmemError, match=words) as caught:
        comparison.read(tmp_path / "e.jsonl")
    assert caught.value.where.endswith("e.jsonl:2")


@pytest.mark.parametrize("told", [{}, [], {"id": "x"}, {"status": "great"}])
def test_bad_results_are_refused(told: object) -> None:
    with pytest.raises(TtmemError):
        Result.from_json(told)


def test_results_survive_the_journal() -> None:
    outcome = Outcome("clash", "buffers/clash", "L1", "text", None, None, {"L1": 5}, seconds=0.25, doubt="why")
    result = Result("a", "silu", outcome, "n150", "mock", "L1", "tile", 1, 2, ("x=1",))
    assert Result.from_json(result.to_json()) == result
