# SPDX-License-Identifier: Apache-2.0
"""Report files, advice and limits."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from support.page import Outline, blocks
from ttmem import TtmemError
from ttmem.commands.program import main
from ttmem.operators.case import Case, CaseTensor, ModelUse, write_cases
from ttmem.operators.sweeps.advice import Adviser
from ttmem.operators.sweeps.ask_engine import CaseRunner
from ttmem.operators.sweeps.findings import summarize_results
from ttmem.operators.sweeps.limits import base_case, find_limits
from ttmem.operators.sweeps.plan import Point, SweepSettings, make_plan
from ttmem.operators.sweeps.resize import resizable, resize
from ttmem.operators.sweeps.run import run_sweep
from ttmem.operators.sweeps.summary import Findings
from ttmem.reports import sweep, sweep_report

LOGS = Path(__file__).parents[3] / "data" / "sweep" / "older_logs"
NAMES = {
    "OPERATOR_MEMORY_ANALYSIS_SUMMARY.md",
    "comprehensive_analysis_report.txt",
    "detailed_analysis_data.json",
    "oom_analysis_report.md",
    "oom_detailed_data.json",
    "oom_operators_summary.csv",
    "OOM_OPERATORS_FINAL_SUMMARY.txt",
    "VISION_OPERATOR_FINAL_REPORT.md",
    "comprehensive_oom_report.json",
    "oom_failures_detailed.csv",
    "subset_test_analysis.json",
    "sweep_report.html",
}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """Three cases of two models in two memories: two L1 failures, one DRAM failure."""
    folder = tmp_path_factory.mktemp("own")
    cases = [
        Case("silu", (CaseTensor((1, 32, 64, 64)),), uses=(ModelUse("small-net", 2),)),
        Case("silu", (CaseTensor((1, 96, 1088, 960)),), uses=(ModelUse("large-net", 3),)),
        Case("add", (CaseTensor((160, 100, 512, 1, 1)),), uses=(ModelUse("large-net", 1),)),
    ]
    run_sweep(make_plan(cases, settings=SweepSettings()), folder)
    return summarize_results(folder, generated="today")


def test_own_results(own: Findings) -> None:
    files = sweep_report.render_all(own)

    assert set(files) == NAMES
    metrics = json.loads(files["subset_test_analysis.json"])
    assert (metrics["total_tests"], metrics["passed"], metrics["oom"], metrics["oom_by_memory"]) == (
        6,
        3,
        3,
        {"DRAM": 1, "L1": 2},
    )
    assert metrics["models"] == {
        "large-net": {"tests": 4, "oom_by_memory": {"DRAM": 1, "L1": 2}},
        "small-net": {"tests": 2, "oom_by_memory": {}},
    }
    assert metrics["operators"]["silu"] == {
        "total": 4, "passed": 3, "failed": 0, "skipped": 0, "not_judged": 0, "oom": 1, "oom_by_memory": {"L1": 1},
        "status": "OOM",
    }  # fmt: skip


def test_logical_and_padded_sizes_stand_side_by_side(own: Findings) -> None:
    told = json.loads(sweep_report.render_all(own)["oom_detailed_data.json"])

    worst = next(one for one in told if one["memory"] == "DRAM")
    assert worst["shape"] == [160, 100, 512, 1, 1]
    assert (worst["memory_bytes"], worst["padded_bytes"]) == (160 * 100 * 512 * 2, 160 * 100 * 512 * 32 * 32 * 2)
    assert (worst["memory_readable"], worst["padded_readable"]) == ("15.6MB", "15.62GB")
    assert (worst["severity"], worst["banks"], worst["class"]) == ("CRITICAL", 12, "oom/too-big")


def test_tables_and_json_agree(own: Findings) -> None:
    files = sweep_report.render_all(own)

    rows = list(csv.DictReader(io.StringIO(files["oom_operators_summary.csv"])))
    assert [(row["Operator"], row["OOM_Count"], row["DRAM_OOM"], row["L1_OOM"], row["Status"]) for row in rows] == [
        ("add", "2", "1", "1", "CRITICAL"),
        ("silu", "1", "0", "1", "HIGH"),
    ]
    failures = list(csv.DictReader(io.StringIO(files["oom_failures_detailed.csv"])))
    report = json.loads(files["comprehensive_oom_report.json"])
    assert len(failures) == len(report["all_failures"]) == report["summary"]["total_oom_failures"] == 3
    assert [int(row["Total_Memory_B"]) for row in failures] == [one["total_memory_B"] for one in report["all_failures"]]
    assert "| **add** | 2 | 0 | 0 | 2 | DRAM 1, L1 1 | 0 | OOM |" in files["OPERATOR_MEMORY_ANALYSIS_SUMMARY.md"]
    assert "TOTAL OOM OCCURRENCES: 3" in files["OOM_OPERATORS_FINAL_SUMMARY.txt"]


@pytest.fixture(scope="module")
def two_boards(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """An addmm with its bias first, and a silu that only one of two boards can hold in L1."""
    folder = tmp_path_factory.mktemp("boards")
    cases = [
        Case("addmm", (CaseTensor((4096,)), CaseTensor((16384, 8192)), CaseTensor((8192, 4096)))),
        Case("silu", (CaseTensor((1, 1, 32 * 64, 32 * 18)),), uses=(ModelUse("net", 1),)),
        Case("silu", (CaseTensor((1, 1, 8192, 3072)),), uses=(ModelUse("net", 1),)),
    ]
    run_sweep(make_plan(cases, settings=SweepSettings(), boards=["n150", "p150"], memories=["L1"]), folder)
    return summarize_results(folder, generated="today", most_advised=0)


def test_the_worst_shape_is_that_of_the_largest_tensor(two_boards: Findings) -> None:
    files = sweep_report.render_all(two_boards)

    (addmm, *_) = (one for one in json.loads(files["oom_detailed_data.json"]) if one["operator"] == "addmm")
    assert (addmm["shape"], addmm["memory_bytes"]) == ([16384, 8192], 16384 * 8192 * 2)
    advised = tables_of("Recommendations", files["OPERATOR_MEMORY_ANALYSIS_SUMMARY.md"])
    assert "worst [16384, 8192]" in advised
    assert "[4096]" not in advised
    assert "no change that was tried passes" not in advised  # none was


def tables_of(title: str, text: str) -> str:
    """A section of a Markdown report."""
    return text.partition(f"## {title}")[2].partition("\n## ")[0]


def test_boards_have_rows_of_their_own(two_boards: Findings) -> None:
    files = sweep_report.render_all(two_boards)

    status = tables_of("Operator Status Breakdown", files["OPERATOR_MEMORY_ANALYSIS_SUMMARY.md"])
    assert [line.split(" | ")[:6] for line in status.splitlines() if line.startswith("| **")] == [
        ["| **addmm**", "n150", "1", "0", "0", "1"],
        ["| **addmm**", "p150", "1", "0", "0", "1"],
        ["| **silu**", "n150", "2", "1", "0", "1"],
        ["| **silu**", "p150", "2", "2", "0", "0"],
    ]
    rows = list(csv.DictReader(io.StringIO(files["oom_operators_summary.csv"])))
    assert sorted((row["Operator"], row["Board"]) for row in rows) == [
        ("addmm", "n150"), ("addmm", "p150"), ("silu", "n150"),
    ]  # fmt: skip
    # THEN every table of failures names the board, and JSON still counts an operator or a model once
    for name in ("OPERATOR_MEMORY_ANALYSIS_SUMMARY.md", "oom_analysis_report.md", "VISION_OPERATOR_FINAL_REPORT.md"):
        heads = [line for line in files[name].splitlines() if line.startswith(("| Operator", "| Shape", "| Model"))]
        assert heads
        assert all("| Board |" in line for line in heads), name
    metrics = json.loads(files["subset_test_analysis.json"])
    assert (metrics["operators"]["silu"]["total"], metrics["models"]["net"]["tests"]) == (4, 4)
    assert metrics["unique_problematic_shapes"] == 2
    assert "Memory failures on p150 | 1 | 33.3% of its tests" in files["OPERATOR_MEMORY_ANALYSIS_SUMMARY.md"].replace(
        "*", ""
    )


def test_it_is_said_which_file_to_open_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "report", str(LOGS), "-o", str(tmp_path / "out"), "--advice", "none"]) == 0

    told = capsys.readouterr().out.splitlines()
    files = [line for line in told if line.startswith(str(tmp_path))]
    assert {Path(line.split()[0]).name for line in files} == NAMES
    assert "open this first" in files[0]
    assert told[-1] == f"next: open {tmp_path / 'out' / 'sweep_report.html'}"


def test_foreign_logs_give_the_same_files(tmp_path: Path) -> None:
    findings = summarize_results(LOGS, generated="today")
    written = sweep_report.write_files(findings, tmp_path / "out")

    assert {path.name for path in written} == NAMES
    records = {
        one["operator"]: one for one in json.loads((tmp_path / "out" / "detailed_analysis_data.json").read_text())
    }
    assert (records["bmm"]["status"], records["bmm"]["total_tests"]) == ("NO TESTS", 0)
    clampmin = records["clampmin"]
    assert (clampmin["total_tests"], clampmin["failed_tests"], clampmin["memory_errors"]) == (4, 2, 2)
    first = clampmin["memory_usage_estimates"][0]
    assert (first["memory_bytes"], first["padded_bytes"]) == (50135040, 534773760)
    # the operator's own name is known to the catalogue, so what passes can be asked
    assert any(one["kind"] == "chunks" for one in first["advice"])


def test_reports_beside_the_logs_are_not_read_as_logs(tmp_path: Path) -> None:
    for log in LOGS.glob("*.txt"):
        (tmp_path / log.name).write_text(log.read_text())
    before = summarize_results(tmp_path, generated="x", most_advised=0).summary
    sweep_report.write_files(summarize_results(tmp_path, generated="x", most_advised=0), tmp_path)
    after = summarize_results(tmp_path, generated="x", most_advised=0).summary

    assert before.tests == after.tests == 20


def test_a_page_is_whole_and_harmless(own: Findings) -> None:
    page = sweep_report.render_all(own)["sweep_report.html"]
    outline = Outline(page)
    assert outline.open == []
    assert not [tag for tag, attributes in outline.tags if {"src", "href"} & set(attributes)]
    keys = {section["key"] for section in blocks(page)[0].header["sections"]}
    assert {"operators", "failures", "priorities", "models"} <= keys


def test_names_from_logs_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "test_x_results.txt").write_text(
        "tests/test_x.py::test_x[a] FAILED\n=== FAILURES ===\n___ test_x[a] ___\n"
        "E   RuntimeError: <script>alert(1)</script>\n"
    )
    page = sweep_report.render_all(summarize_results(tmp_path, generated="x"))["sweep_report.html"]
    assert "<script>alert" not in page


# --- advice -------------------------------------------------------------------------------------------------------


def ask(case: Case, memory: str) -> dict[str, str]:
    return {one.kind: one.do for one in Adviser(SweepSettings()).advise(Point(case, "n150", memory, "tile"))}


def test_advice_is_the_smallest_number_of_chunks_that_passes() -> None:
    case = Case("silu", (CaseTensor((1, 96, 2176, 1920)),))

    told = ask(case, "L1")

    assert told["memory"] == "put its tensors into DRAM"
    assert told["chunks"] == "split dimension 1 (96) into 20 chunks of 5: [1, 5, 2176, 1920]"
    # THEN one chunk fewer does not pass, in any dimension
    engine = CaseRunner(SweepSettings())
    for dim in resizable(case):
        size = case.tensors[0].shape[dim]
        part = resize(case, dim, -(-size // 19)) if size > 1 else None
        if part is not None:
            assert next(engine.ask([Point(part, "n150", "L1", "tile")])).status != "pass"


def test_padding_is_seen() -> None:
    told = ask(Case("add", (CaseTensor((160, 100, 512, 1, 1)),)), "DRAM")

    assert told["layout"] == "keep it row-major: it has no tile padding then"
    assert "dtype" not in told or "bfloat" in told["dtype"]
    assert told["chunks"].startswith("split dimension 0 (160) into ")


@pytest.mark.parametrize(
    ("case", "dims"),
    [
        (Case("silu", (CaseTensor((2, 3, 4)),)), [0, 1, 2]),
        (Case("add", (CaseTensor((2, 3, 4)), CaseTensor((4,)))), [0, 1, 2]),
        (Case("_softmax", (CaseTensor((2, 3, 4)),), {"dim": -1}), [0, 1]),
        (Case("mean", (CaseTensor((2, 3, 4)),), {"dim": [1, 2], "keepdim": True}), [0]),
        (Case("sum", (CaseTensor((2, 3, 4)),)), []),
        (Case("mm", (CaseTensor((2, 3)), CaseTensor((3, 4)))), [0]),
        (Case("addmm", (CaseTensor((4,)), CaseTensor((2, 3)), CaseTensor((3, 4)))), [0]),
        (Case("bmm", (CaseTensor((2, 3, 4)), CaseTensor((2, 4, 5)))), [0, 1]),
        (Case("view", (CaseTensor((2, 3, 4)),), {"size": [2, 12]}), [0]),
        (Case("cat", (CaseTensor((2, 3)), CaseTensor((2, 5))), {"dim": 1}), [0]),
        (Case("native_layer_norm", (CaseTensor((2, 3, 4)),)), [0, 1]),
        (Case("convolution", (CaseTensor((2, 3, 4, 4)), CaseTensor((8, 3, 1, 1)))), [0]),
    ],
)
def test_which_dimensions_can_be_cut(case: Case, dims: list[int]) -> None:
    assert list(resizable(case)) == dims


def test_a_cut_keeps_operands_together() -> None:
    cut = resize(Case("bmm", (CaseTensor((8, 3, 4)), CaseTensor((8, 4, 5)))), 0, 2)
    assert cut is not None
    assert [tensor.shape for tensor in cut.tensors] == [(2, 3, 4), (2, 4, 5)]


# --- limits -------------------------------------------------------------------------------------------------------


def test_the_limit_passes_and_one_more_does_not() -> None:
    (dram, l1) = find_limits(
        [base_case("silu")], settings=SweepSettings(), boards=["n150"], memories=["DRAM", "L1"], widths=[64, 1024]
    )

    engine = CaseRunner(SweepSettings())
    for frontier in (dram, l1):
        for limit in frontier.frontier:
            assert limit.shape is not None
            assert limit.fails_at is not None
            assert limit.fails_at[1] == limit.shape[1] + 1
            for shape, passes in ((limit.shape, True), (limit.fails_at, False)):
                point = Point(Case("silu", (CaseTensor(shape),)), "n150", limit.memory, "tile")
                assert (next(engine.ask([point])).status == "pass") is passes
    assert [limit.shape for limit in l1.frontier] == [(1, 337920, 64), (1, 21120, 1024)]
    svg = sweep.render_limits_svg([dram, l1])
    assert svg.count("<path") == 2


def test_unknown_operators_are_named() -> None:
    with pytest.raises(TtmemError, match="unknown operator 'sillu'") as caught:
        base_case("sillu")
    assert caught.value.hint == "did you mean 'silu'?"


# --- the verbs ----------------------------------------------------------------------------------------------------


def test_run_report_and_limits_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_cases(tmp_path / "c.jsonl", [Case("silu", (CaseTensor((1, 96, 1088, 960)),))])
    run = ["sweep", "run", str(tmp_path / "c.jsonl"), "-o", str(tmp_path / "r"), "-q"]

    assert main([*run, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["statuses"] == {"n150": {"DRAM": {"pass": 1}, "L1": {"oom": 1}}}
    # strict: the L1 failure is unexpected; saved as known, it is not
    assert main([*run, "--strict"]) == 1
    assert main([*run, "--save-expectations", str(tmp_path / "e.jsonl")]) == 0
    assert main([*run, "--strict", "--expect", str(tmp_path / "e.jsonl")]) == 0
    assert main([*run, "--l1-small", "0"]) == 2
    assert "has other settings" in capsys.readouterr().err

    assert main(["sweep", "report", str(tmp_path / "r"), "-o", str(tmp_path / "out"), "-q", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["oom"] == 1
    assert main(["sweep", "report", str(tmp_path / "r" / "results.jsonl"), "-o", str(tmp_path / "out2"), "-q"]) == 0
    assert main(["sweep", "report", str(tmp_path / "nowhere"), "-o", str(tmp_path / "out3")]) == 2
    capsys.readouterr()

    limits = ["sweep", "limits", "--op", "silu", "--memory", "L1", "--widths", "1024", "-q"]
    assert main([*limits, "--json", "--html", str(tmp_path / "l.html"), "--svg", str(tmp_path / "l.svg")]) == 0
    (limit,) = json.loads(capsys.readouterr().out)["limits"]
    assert (limit["shape"], limit["status"]) == ([1, 21120, 1024], "clash")
    assert (tmp_path / "l.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--engine", "mock", "--python", "/nonexistent/python"], 3, "does not run"),
        (["--board", "n15o"], 2, "did you mean 'n150'?"),
        (["--memory", "TRACE"], 2, "cannot be put into TRACE"),
        (["--dtype", "bfloat17"], 2, "bfloat17"),
        (["--scheduler", "tcp://127.0.0.1:1"], 3, "no scheduler answers"),
    ],
)
def test_what_cannot_be_is_said(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    said: str,
) -> None:
    if "--scheduler" in words:
        pytest.importorskip("distributed")
        monkeypatch.setattr("ttmem.operators.sweeps.distribute._CONNECT_SECONDS", 0.3)
    write_cases(tmp_path / "c.jsonl", [Case("silu", (CaseTensor((32, 32)),))])

    assert main(["sweep", "run", str(tmp_path / "c.jsonl"), "-o", str(tmp_path / "r"), *words]) == code
    assert said in capsys.readouterr().err


def test_without_dask_the_command_to_install_it_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    write_cases(tmp_path / "c.jsonl", [Case("silu", (CaseTensor((32, 32)),))])

    assert main(["sweep", "run", str(tmp_path / "c.jsonl"), "-o", str(tmp_path / "r"), "--scheduler", "tcp://x:1"]) == 3
    assert " -m pip install 'distributed>=" in capsys.readouterr().err
