# SPDX-License-Identifier: Apache-2.0
"""`ttmem cb scan` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command_line import Result, environment
from support.planted_mistakes import READER, host, program
from support.scan_sources import DATA, write_program

Run = Callable[..., Result]
DECLARATION = ("file", "line", "api", "index", "total", "page", "bytes", "format", "strategy", "borrowed")


def test_the_document_has_the_keys_of_the_contract(run_cb: Run) -> None:
    done = run_cb("scan", DATA / "fixed_add", "--json")
    document = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert document["files"] == 4
    first = document["declarations"][0]
    assert {key: first[key] for key in DECLARATION} == {
        "file": str(DATA / "fixed_add" / "host.cpp"),
        "line": 17,
        "api": "CircularBufferConfig",
        "index": 0,
        "total": "cb0_tiles * tile_bytes",
        "page": "tile_bytes",
        "bytes": 16384,
        "format": "Float32",
        "strategy": "fixed",
        "borrowed": False,
    }
    assert document["findings"] == []
    assert [(one["bytes_per_core"], one["unknown"]) for one in document["programs"]] == [(65536, 0)]
    assert [one["address"] for one in document["programs"][0]["placement"]] == [105824, 122208, 138592, 154976]


def test_kernels_have_their_figures(run_cb: Run) -> None:
    document = json.loads(run_cb("scan", DATA / "fixed_add", "--json").out)
    figures = {Path(one["file"]).name: one for one in document["kernels"]}
    reader = figures["reader.cpp"]
    assert (reader["entry"], reader["lines"], reader["code_lines"]) == ("kernel_main", 26, 23)
    assert (reader["buffers"], reader["buffer_operations"], reader["loops"], reader["deepest_loop"]) == (2, 4, 2, 2)
    assert (reader["noc_calls"], reader["barriers"], reader["branches"]) == (2, 2, 0)
    assert figures["compute.cpp"]["entry"] == "MAIN"


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """A program whose reader asks for more than its buffer holds."""
    return write_program(tmp_path / "op", program(reader=READER.replace("(cb_in, 1)", "(cb_in, 3)")))


def test_findings_say_rule_place_reason_and_remedy(run_cb: Run, faulty: Path) -> None:
    done = run_cb("scan", faulty, "--json")
    first = next(one for one in json.loads(done.out)["findings"] if one["rule"] == "R1")
    assert (done.code, first["rule"], first["severity"], first["line"]) == (0, "R1", "error", 5)
    assert first["file"] == str(faulty / "kernels" / "reader.cpp")
    assert first["message"] == "reserve_back of 3 pages, but buffer 0 (host.cpp:4) holds 2 pages"
    assert first["why"]
    assert first["fix"]
    text = run_cb("scan", faulty).out
    assert "kernels/reader.cpp:5: error R1: reserve_back of 3 pages" in " ".join(text.split())


@pytest.mark.parametrize(
    ("option", "code"),
    [((), 0), (("--fail-on", "error"), 1), (("--fail-on", "warning"), 1), (("--fail-on", "note"), 2)],
)
def test_fail_on(run_cb: Run, faulty: Path, option: tuple[str, ...], code: int) -> None:
    assert run_cb("scan", faulty, *option).code == code


def test_warnings_do_not_fail_an_error_gate(run_cb: Run, tmp_path: Path) -> None:
    folder = write_program(tmp_path / "op", {"kernel.cpp": "void kernel_main() { cb_wait_front(0, 1); }\n"})
    assert run_cb("scan", folder, "--fail-on", "error").code == 0
    assert run_cb("scan", folder, "--fail-on", "warning").code == 1


def test_sarif(run_cb: Run, faulty: Path, tmp_path: Path) -> None:
    done = run_cb("scan", faulty, "--sarif", tmp_path / "out.sarif", "--json", "-q")
    log = json.loads((tmp_path / "out.sarif").read_text())
    results = log["runs"][0]["results"]
    result = next(one for one in results if one["ruleId"] == "R1")
    assert (done.code, log["version"], result["ruleId"], result["level"]) == (0, "2.1.0", "R1", "error")
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 5}
    assert [rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]] == [f"R{n}" for n in range(1, 14)]
    errors = sum(1 for one in results if one["level"] == "error")
    assert json.loads(done.out)["summary"]["errors"] == errors > 0


def test_bound_names_give_bytes_and_misspelt_ones_are_told(run_cb: Run) -> None:
    done = run_cb(
        "scan",
        DATA / "adaptive_add",
        "--bind",
        "tiles_per_shard=4",
        "--bind",
        "r_tiles=0x4",
        "--bind",
        "tile=3",
        "--json",
    )
    assert [one["bytes"] for one in json.loads(done.out)["declarations"]] == [24576, 16384, 8192]
    assert done.err == "no size, count or condition depends on tile\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "'nowhere' does not exist"),
        ([str(DATA / "fixed_add"), "--bind", "x"], "--bind x: not of the form name=value"),
        ([str(DATA / "fixed_add"), "--bind", "x=y"], "--bind x=y: neither a number nor a name that sizes depend on"),
        ([str(DATA / "fixed_add"), "--board", "n15"], "unknown board 'n15'; did you mean 'n150'?"),
        ([str(DATA.parent / "logs")], "no C++ file in"),
    ],
)
def test_bad_input_exits_2_and_says_why(run_cb: Run, arguments: list[str], said: str) -> None:
    done = run_cb("scan", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err


def test_without_the_grammar_the_answer_is_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "tree_sitter.py").write_text("raise ImportError('not here')\n")
    settings = environment()
    settings["PYTHONPATH"] = f"{tmp_path}:{settings['PYTHONPATH']}"
    code = "import sys; from ttmem.commands.program import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "cb", "scan", str(DATA)], env=settings, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert " -m pip install 'tree-sitter-cpp>=" in done.stderr


def test_the_table_names_programs_buffers_and_what_is_left(run_cb: Run) -> None:
    text = run_cb("scan", DATA / "helpers").out
    assert "28,352 B per core" in text
    assert "ends at 134,176 on n150" in text
    assert "No rule violation found." in text


def test_a_source_is_never_overwritten(run_cb: Run, tmp_path: Path) -> None:
    (tmp_path / "host.cpp").write_text(host((0, 2)))
    assert run_cb("scan", tmp_path / "host.cpp", "-o", tmp_path / "host.cpp").code == 2
    assert (tmp_path / "host.cpp").read_text() == host((0, 2))
