# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import FIVE_RUNS, call, environment


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(TTMEM_HOME=str(tmp_path / "home"))


def test_stdout_is_where_it_went_and_stderr_what_to_do_next(tmp_path: Path, env: dict[str, str]) -> None:
    out = tmp_path / "trace.json"
    result = call("export", FIVE_RUNS, "--to", "perfetto", "-o", out, env=env)
    assert (result.code, result.out) == (0, f"{out}\n")
    assert "ui.perfetto.dev" in result.err
    assert json.loads(out.read_text())["otherData"]["profile"] == "transformer-five-runs"


def test_a_stored_report_and_one_run_of_it(tmp_path: Path, env: dict[str, str]) -> None:
    assert call("profile", FIVE_RUNS, "--name", "five", "--quiet", env=env).code == 0
    result = call("export", "five", "--to", "csv", "-o", tmp_path / "tables", "--run", "last", "-q", env=env)
    assert (result.code, result.err) == (0, "")
    runs = {line.split(",")[5] for line in (tmp_path / "tables" / "operations.csv").read_text().splitlines()[1:]}
    assert runs == {"4"}


def test_the_source_is_never_the_target(tmp_path: Path, env: dict[str, str]) -> None:
    log = tmp_path / "run.log.gz"
    log.write_bytes(FIVE_RUNS.read_bytes())
    result = call("export", log, "--to", "perfetto", "-o", log, env=env)
    assert result.code == 2
    assert log.read_bytes() == FIVE_RUNS.read_bytes()


def test_a_foreign_folder_is_refused_before_the_source_is_read(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    missing = tmp_path / "no-such.log"
    result = call("export", FIVE_RUNS, "--to", "visualizer", "-o", tmp_path, env=env)
    assert result.code == 2
    assert "other files" in result.err
    assert call("export", missing, "--to", "csv", "-o", tmp_path / "x", env=env).code == 2


@pytest.mark.parametrize("arguments", [(), ("--to", "excel", "-o", "x"), ("--to", "csv")])
def test_usage(arguments: tuple[str, ...], env: dict[str, str]) -> None:
    assert call("export", FIVE_RUNS, *arguments, env=env).code == 2
