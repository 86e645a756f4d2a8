# SPDX-License-Identifier: Apache-2.0
"""Every verb as one call: plain values in, the verb's own document out, ``TtmemError`` for what goes wrong."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import ttmem
from support.build_profile import MIB, ProfileBuilder, tensor
from support.command_line import BLACKHOLE_OOM, FIVE_RUNS, REAL_OOM, call
from ttmem.profile import profile_file


def run_of(batch: int) -> ttmem.Profile:
    """A run whose DRAM peak grows with the batch: 100 MiB per bank, a tenth of a bank, for a batch of 600."""
    made = tensor(batch, 1024, 1024)
    per_bank = -(-made.padded_bytes // 2048 // 12) * 2048
    build = ProfileBuilder(f"batch{batch}")
    with build.program("main"):
        build.operation("ttnn.matmul", results={"%1": made}, operands={"%0": made}, dram=0, l1=0)
        build.operation("ttnn.deallocate", operands={"%1": made}, dram=per_bank, l1=MIB // 2)
    return build.build()


@pytest.mark.parametrize(
    ("verb", "arguments", "document"),
    [
        ("profile", ["--no-store"], lambda path: ttmem.read(path).to_json()),
        ("explain", [], lambda path: ttmem.explain(path).to_json()),
        ("check", ["--max-dram", "1%"], lambda path: ttmem.check(path, max_dram="1%").to_json()),
        ("diff", [FIVE_RUNS, "--fail-on", "5%"], lambda path: ttmem.diff(path, FIVE_RUNS, fail_on="5%").to_json()),
    ],
)
def test_a_call_gives_the_document_that_its_verb_prints(verb: str, arguments: list[Any], document: Any) -> None:
    shown = call(verb, BLACKHOLE_OOM, *arguments, "--json", "-q")
    assert json.loads(shown.out) == json.loads(json.dumps(document(BLACKHOLE_OOM)))


def test_a_source_is_a_path_a_text_or_a_profile_that_was_read_before(tmp_path: Path) -> None:
    profile = run_of(600)
    profile_file.save(profile, tmp_path / "saved.ttmem")
    saved = tmp_path / "saved.ttmem"
    by_path, by_text, again = ttmem.read(saved), ttmem.read(str(saved)), ttmem.read(profile)
    assert by_path.to_json() == by_text.to_json() == again.to_json()
    assert again is profile, "nothing is read twice"
    assert ttmem.read(profile, name="other").name == "other"
    assert ttmem.diff(profile, tmp_path / "saved.ttmem").changes.grew == ()


@pytest.mark.parametrize(
    ("fail_on", "regression"),
    [("4%", True), ("5.1%", False), (0.04, True), (0.051, False), (5242879, True), (5242880, False), (None, False)],
)
def test_limits_are_text_as_on_the_command_line_shares_or_bytes(fail_on: str | float | None, regression: bool) -> None:
    assert ttmem.diff(run_of(600), run_of(630), fail_on=fail_on).regression is regression


@pytest.mark.parametrize(("limit", "ok"), [(0.1, True), (0.0999, False), (100 * MIB, True), (100 * MIB - 1, False)])
def test_a_budget_of_numbers(limit: float, ok: bool) -> None:
    found = ttmem.check(run_of(600), max_dram=limit)
    assert found.ok is ok
    assert [verdict.rule for verdict in found.verdicts] == ["max-dram"]


def test_the_usual_targets_hold_without_a_limit_but_not_beside_a_baseline() -> None:
    assert [verdict.rule for verdict in ttmem.check(run_of(600)).verdicts] == ["max-dram", "max-l1"]
    grown = ttmem.check(run_of(630), baseline=run_of(600))
    assert [(verdict.rule, verdict.ok) for verdict in grown.verdicts] == [
        ("max-growth-dram", False),
        ("max-growth-l1", True),
    ]
    assert ttmem.check(run_of(630), baseline=run_of(600), max_growth="10%").ok


def test_a_wrong_limit_is_told_before_anything_is_read() -> None:
    with pytest.raises(ttmem.TtmemError, match="is no limit"):
        ttmem.diff("not there", "neither", fail_on="lots")
    with pytest.raises(ttmem.TtmemError, match="no export target 'excel'"):
        ttmem.export("not there", "excel", "out")
    with pytest.raises(ttmem.TtmemError, match="unknown board"):
        ttmem.explain(REAL_OOM, board="n15o")


def test_explaining_a_message_a_file_and_nothing() -> None:
    explained = ttmem.explain(REAL_OOM)
    [message] = [diagnosis.failure.message for diagnosis in explained.diagnoses]
    assert ttmem.explain(message).to_json()[0]["class"] == explained.to_json()[0]["class"] == "oom/fragmented"
    assert [entry["class"] for entry in ttmem.explain("all went well").to_json()] == ["none"]
    with pytest.raises(ttmem.TtmemError, match="no such file"):
        ttmem.explain("mistyped.log")


def test_a_sweep_resumes_and_finds_what_was_not_expected(tmp_path: Path) -> None:
    from ttmem.operators.case import Case, CaseTensor

    cases = [Case("silu", (CaseTensor((1, 96, 2176, 1920)),)), Case("silu", (CaseTensor((32, 32)),))]
    first = ttmem.sweep(cases, tmp_path / "results", memories=["L1"], strict=True)
    assert first.statuses == {"n150": {"L1": {"pass": 1, "oom": 1}}}
    assert [deviation.result.op for deviation in first.unexpected] == ["silu"]
    again = ttmem.sweep(cases, tmp_path / "results", memories=["L1"])
    assert (again.finished.asked, again.finished.resumed, again.unexpected) == (0, 2, ())
    assert again.results == first.results
    assert again.to_json()["statuses"] == first.statuses


def test_no_room_has_a_calls_name() -> None:
    """A package ``ttmem.explain`` would hide the call of that name as soon as somebody imports it."""
    rooms = {entry.stem for entry in Path(ttmem.__file__).parent.iterdir() if entry.suffix in ("", ".py")}
    assert rooms & set(ttmem.__all__) == set()


def test_the_calls_show_their_parameters() -> None:
    assert list(inspect.signature(ttmem.explain).parameters) == ["source", "board", "alive", "progress"]
    assert list(inspect.signature(ttmem.sweep).parameters)[:2] == ["cases", "out"]
