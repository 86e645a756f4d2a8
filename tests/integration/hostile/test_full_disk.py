# SPDX-License-Identifier: Apache-2.0
"""A disk that is full: one clear line, exit 2, and nothing left behind but what a sweep has committed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import FIVE_RUNS, Result, environment
from ttmem.engines.interpreters import Interpreter

MAIN = "import sys; from ttmem.commands.program import main; sys.exit(main())"


def limited(kilobytes: int, *words: str, cwd: Path) -> Result:
    """The command line where no file may grow beyond so many kilobytes."""
    shell = ["bash", "-c", 'ulimit -f "$0"; exec "$@"', str(kilobytes), sys.executable, "-c", MAIN, *words]
    done = subprocess.run(shell, cwd=cwd, env=environment(), capture_output=True, text=True, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


def is_clear(shown: Result) -> bool:
    errors = [line for line in shown.err.splitlines() if "error" in line]
    return (shown.code, len(errors)) == (2, 1) and "cannot be written" in errors[0] and "internal" not in errors[0]


@pytest.fixture
def cases(tmp_path: Path) -> str:
    with (tmp_path / "cases.jsonl").open("w") as file:
        for number in range(400):
            tensors = [{"shape": [1, 1, 32, 32 + number], "dtype": "bfloat16"}]
            file.write(json.dumps({"id": f"c{number}", "op": "silu", "tensors": tensors, "args": {}}) + "\n")
    return "cases.jsonl"


@pytest.mark.parametrize("kilobytes", [0, 1, 10, 100])
def test_an_export_for_the_visualizer(kilobytes: int, tmp_path: Path) -> None:
    shown = limited(kilobytes, "export", str(FIVE_RUNS), "--to", "visualizer", "-o", "report", cwd=tmp_path)
    assert is_clear(shown), shown.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["csv", "perfetto", "parquet"])
def test_other_exports_name_the_place(target: str, tmp_path: Path) -> None:
    shown = limited(0, "export", str(FIVE_RUNS), "--to", target, "-o", "report", cwd=tmp_path)
    assert is_clear(shown), shown.err
    assert "report: cannot be written: File too large" in shown.err
    assert list(tmp_path.iterdir()) == []


def test_a_list_of_models_names_its_journal(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("nothing.mlir\n")
    shown = limited(0, "fit", "--list", "list.txt", "--boards", "n150", "-o", "atlas", cwd=tmp_path)
    assert is_clear(shown), shown.err
    assert "journal.jsonl: cannot be written: File too large" in shown.err


@pytest.mark.parametrize("verb", ["run", "test"])
def test_a_run_names_the_file_that_did_not_fit(verb: str, with_ttnn: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    (tmp_path / "home").mkdir()
    shell = ["bash", "-c", 'ulimit -f 1; exec "$@"', "-", sys.executable, "-c", MAIN, verb, "test_it.py"]
    variables = environment(TTMEM_HOME=str(tmp_path / "home"), TTMEM_TTNN_PYTHON=str(with_ttnn.path))
    done = subprocess.run(shell, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 125
    assert "riscv-tt-elf-g++: cannot be written: File too large" in done.stderr


@pytest.mark.parametrize("kilobytes", [0, 1, 16, 60])
def test_a_sweep_that_cannot_begin_leaves_nothing(kilobytes: int, cases: str, tmp_path: Path) -> None:
    shown = limited(kilobytes, "sweep", "run", cases, "-o", "results", cwd=tmp_path)
    assert is_clear(shown), shown.err
    assert [path.name for path in tmp_path.iterdir()] == [cases]


def test_a_sweep_goes_on_where_the_disk_was_full(cases: str, tmp_path: Path) -> None:
    words = ("sweep", "run", cases, "-o", "results")
    shown = limited(300, *words, cwd=tmp_path)
    assert is_clear(shown), shown.err
    assert (tmp_path / "results" / "journal.sqlite").exists()
    shown = limited(100_000, *words, cwd=tmp_path)
    assert shown.code == 0, shown.err
    lines = (tmp_path / "results" / "results.jsonl").read_text().splitlines()
    assert len(lines) == len({json.dumps([row["id"], row["memory"], row["layout"]]) for row in map(json.loads, lines)})
    assert {json.loads(line)["id"] for line in lines} == {f"c{number}" for number in range(400)}
