# SPDX-License-Identifier: Apache-2.0
"""``ttmem explain`` as a user meets it: every kind of source, every form, clean streams, honest exit codes."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.command_line import BLACKHOLE_OOM, FIVE_RUNS, REAL_OOM, ROOT, Result
from ttmem.commands.program import main
from unit.failures.test_context import PYTEST
from unit.failures.test_scan import BLOCK
from unit.reports.test_explain_reports import FRAGMENTED

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store, a working folder and a terminal of its own."""
    for variable in ("TTMEM_DEBUG", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TTMEM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def invoke(*arguments: object) -> Result:
        capfd.readouterr()
        code = main(["explain", *map(str, arguments)])
        captured = capfd.readouterr()
        return Result(code, captured.out, captured.err)

    return invoke


def entries(result: Result) -> list[dict[str, Any]]:
    assert result.code == 0, result.err
    found: list[dict[str, Any]] = json.loads(result.out)
    return found


def classes(result: Result) -> list[str]:
    return [entry["class"] for entry in entries(result)]


def test_a_pasted_message(run: Run) -> None:
    (entry,) = entries(run(FRAGMENTED, "--json"))
    assert (entry["class"], entry["memory"], entry["line"]) == ("oom/fragmented", "DRAM", 1)
    assert entry["numbers"]["largest_free"] == 216504544
    assert entry["tensor_guess"]["shape"] == [8192, 201088]
    assert entry["remedies"][0]["evidence"][0]["thread"] == "tt-xla#5523"


def test_a_message_over_several_lines(run: Run) -> None:
    assert classes(run(FRAGMENTED.replace(" banks,", "\nbanks,"), "--json")) == ["oom/fragmented"]


def test_a_pytest_log(run: Run, place: Path) -> None:
    (place / "pytest.log").write_text(PYTEST)
    (entry,) = entries(run("pytest.log", "--json"))
    assert entry["class"] == "buffers/clash"
    assert entry["context"]["operation"] == "ttnn.conv2d"


def test_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (["-", "--json"], ["--json"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PYTEST.encode())))
        assert classes(run(*arguments)) == ["buffers/clash"]


def test_a_packed_runtime_log_tells_what_was_alive(run: Run) -> None:
    (entry,) = entries(run(BLACKHOLE_OOM, "--json"))
    assert (entry["class"], entry["context"]["operation"]) == ("oom/too-big", "ttnn.repeat")
    assert entry["tensor_guess"]["confidence"] == "certain"
    assert entry["alive"][0]["weight"]
    (without,) = entries(run(BLACKHOLE_OOM, "--json", "--no-alive"))
    assert without["alive"] == []
    assert without["class"] == entry["class"]


def test_a_stored_profile_by_its_name(run: Run) -> None:
    assert main(["profile", str(BLACKHOLE_OOM), "--name", "failed", "-q"]) == 0
    (entry,) = entries(run("failed", "--json"))
    assert entry["class"] == "oom/too-big"
    assert entry["alive"]


def test_a_profile_without_a_failure(run: Run) -> None:
    assert main(["profile", str(FIVE_RUNS), "--name", "fine", "-q"]) == 0
    (entry,) = entries(run("fine", "--json"))
    assert (entry["class"], entry["message"]) == ("none", "the profile 'fine' holds no failure")


def test_a_log_without_a_failure(run: Run) -> None:
    assert classes(run(FIVE_RUNS, "--json")) == ["none"]


def test_a_packed_capture_is_explained_like_a_plain_one(run: Run, place: Path) -> None:
    packed = ROOT / "tests" / "data" / "captures" / "n150-normal.json.gz"
    (place / "plain.json").write_bytes(gzip.decompress(packed.read_bytes()))
    (entry,) = entries(run(packed, "--json"))
    assert entry["message"].startswith("RuntimeError: CopyDeviceOperation did not complete")
    assert entries(run("plain.json", "--json")) == [entry]


def test_results_of_a_sweep(run: Run, place: Path) -> None:
    exception = f"TT_FATAL @ /x/bank_manager.cpp:462: false\ninfo:\n{FRAGMENTED}\nbacktrace:\n --- f"
    (place / "sweep.json").write_text(json.dumps([{"status": "fail_l1_out_of_mem", "exception": exception}]))
    (entry,) = entries(run("sweep.json", "--json"))
    assert entry["class"] == "oom/fragmented"
    assert "sweep-status-misleads" in {finding["id"] for finding in entry["findings"]}


def test_a_junit_file(run: Run, place: Path) -> None:
    text = f"RuntimeError: TT_FATAL @ a.cpp:1: false&#10;info:&#10;{FRAGMENTED}&#10;backtrace:&#10; --- f"
    (place / "junit.xml").write_text(
        f'<testsuite><testcase name="t"><failure message="{text}"/></testcase></testsuite>'
    )
    assert classes(run("junit.xml", "--json")) == ["oom/fragmented"]


def test_each_failure_once(run: Run, place: Path) -> None:
    (place / "many.log").write_text(f"{FRAGMENTED}\n" * 50 + PYTEST * 3)
    assert classes(run("many.log", "--json")) == ["oom/fragmented", "buffers/clash"]


def test_a_large_log_is_scanned_and_says_how_to_learn_more(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ttmem.analysis.source_diagnosis.SMALL_LOG_BYTES", 1000)
    (place / "run.log").write_text(BLOCK * 20 + FRAGMENTED + "\n")
    result = run("run.log", "--json")
    assert classes(result) == ["oom/fragmented"]
    assert "--alive" in result.err
    assert run("run.log", "--json", "-q").err == ""


def test_the_forms(run: Run) -> None:
    assert run(REAL_OOM).out.splitlines()[1].startswith("DRAM is fragmented: ")
    assert run(REAL_OOM, "--llm").out.startswith("# Memory failure: oom/fragmented in DRAM")
    assert run(REAL_OOM, "--issue").out.startswith("# oom/fragmented (DRAM): DRAM is fragmented")
    result = run(REAL_OOM, "--json", "--llm")
    assert (result.code, result.out) == (2, "")


def test_the_terminal_form_fits_eighty_columns(run: Run) -> None:
    assert max(map(len, run(BLACKHOLE_OOM).out.splitlines())) <= 80


def test_a_file_for_the_answer(run: Run, place: Path) -> None:
    result = run(REAL_OOM, "--issue", "-o", "issue.md")
    assert (result.code, result.out) == (0, "")
    assert (place / "issue.md").read_text().startswith("# oom/fragmented")
    assert "wrote issue.md" in result.err


def test_the_source_is_never_overwritten(run: Run, place: Path) -> None:
    (place / "run.log").write_text(FRAGMENTED)
    assert run("run.log", "-o", "run.log").code == 2
    assert (place / "run.log").read_text() == FRAGMENTED


def test_the_board_may_be_named(run: Run) -> None:
    (entry,) = entries(run(FRAGMENTED, "--json", "--board", "N300"))
    assert (entry["board_guess"]["boards"], entry["board_guess"]["confidence"]) == (["n300"], "given")
    result = run(FRAGMENTED, "--board", "n15o")
    assert result.code == 2
    assert "did you mean 'n150'?" in result.err


@pytest.mark.parametrize("content", [b"", b"\n", b"\x00\xff\xfe" * 100, b"all is well"])
def test_text_that_says_nothing_is_read(run: Run, place: Path, content: bytes) -> None:
    (place / "x.log").write_bytes(content)
    assert classes(run("x.log", "--json")) == ["none"]
    assert run("x.log").code == 0


def test_a_cut_packed_file_gives_what_it_holds(run: Run, place: Path) -> None:
    whole = gzip.compress((FRAGMENTED + "\n" + PYTEST * 2000).encode())
    (place / "cut.log.gz").write_bytes(whole[: len(whole) // 2])
    result = run("cut.log.gz", "--json")
    assert classes(result)[0] == "oom/fragmented"
    assert "ends early" in result.err


def test_a_mistyped_name_is_refused(run: Run, place: Path) -> None:
    (place / "run.log").write_text(FRAGMENTED)
    result = run("run.lgo")
    assert (result.code, result.out) == (2, "")
    assert "did you mean" in result.err


def test_a_folder_that_is_no_report_is_refused(run: Run, place: Path) -> None:
    (place / "folder").mkdir()
    assert run("folder").code == 2


def test_no_argument_at_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO()))
    result = run()
    assert result.code == 2
    assert "missing argument: a file" in result.err
