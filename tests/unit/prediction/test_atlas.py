# SPDX-License-Identifier: Apache-2.0
"""Models x boards: one table, made bit by bit."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.compiled_modules import linear_layer
from ttmem.commands.program import main
from ttmem.prediction import model_matrix
from ttmem.prediction.model_matrix import ListedModel, MatrixRow, make_matrix
from ttmem.prediction.request import Request


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of a small model, a large one, and one that is not there."""
    monkeypatch.chdir(tmp_path)
    Path("small.mlir").write_text(linear_layer())
    Path("large.mlir").write_text(linear_layer(rows=2048, inner=65536, columns=163840))
    Path("models.txt").write_text("# models\nsmall.mlir\n\nlarge.mlir --l1-small 0  # too large\nmissing.mlir\n")
    return tmp_path


def made(*words: str) -> int:
    return main(["fit", "--list", "models.txt", "--engine", "twin", "-o", "atlas", *words])


def test_an_atlas_has_a_row_per_model_and_board_or_its_reason(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert made("--boards", "n150,p150", "--json") == 1  # a model could not be answered
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert document["boards"] == ["n150", "p150"]
    assert [(row["model"], row["fits"]) for row in document["rows"]] == [
        ("small.mlir", True),
        ("small.mlir", True),
        ("large.mlir --l1-small 0", False),
        ("large.mlir --l1-small 0", False),
        ("missing.mlir", None),
        ("missing.mlir", None),
    ]
    assert document["rows"][2]["failure"] == "oom/too-big ttnn.to_device"
    assert document["rows"][2]["dram_peak_percent"] > 100
    assert "missing.mlir" in document["rows"][4]["reason"]
    assert json.loads(Path("atlas/atlas.json").read_text()) == document
    rows = list(csv.DictReader(Path("atlas/atlas.csv").read_text().splitlines()))
    assert [row["fits"] for row in rows] == ["fits", "fits", "NO", "NO", "?", "?"]
    assert "| large.mlir --l1-small 0 | NO " in Path("atlas/atlas.md").read_text()
    page = Path("atlas/atlas.html").read_text()
    assert "Which model fits which board" in page
    assert "2 fit, 2 do not fit, 2 failed to load" in page
    assert "Errors" in page
    assert "obody knows" not in page
    # ... and stderr has a line per answer, and the reason once for both boards
    lines = shown.err.splitlines()
    assert lines[0].startswith("1 of 6: small.mlir on n150: fits, DRAM 0.")
    assert sum(" of 6: " in line for line in lines) == 6
    assert [line for line in lines if "error" in line] == [
        "ttmem: error: missing.mlir (n150, p150): missing.mlir: cannot be read: No such file or directory"
    ]


def test_a_second_call_asks_only_for_what_is_missing(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made() == 1
    journal = Path("atlas/journal.jsonl")
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join(lines[:2]) + '\n{"key": "cut')  # killed in the middle of the third
    asked: list[str] = []
    real = model_matrix.predict_row

    def watched(model: ListedModel, board: str) -> MatrixRow:
        asked.append(model.text)
        return real(model, board)

    monkeypatch.setattr(model_matrix, "predict_row", watched)
    assert made() == 1
    assert len(asked) == 1
    Path("small.mlir").write_text(linear_layer(rows=128))  # a file that changed is asked about again
    assert made("--boards", "n150") == 1
    assert asked[1:] == ["small.mlir"]
    assert made("--boards", "n150", "--l1-small", "65536") == 1  # so is every model whose options changed
    assert asked[2:] == ["small.mlir", "missing.mlir"]


def test_quiet_says_only_what_failed(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert made("-q") == 1
    assert (
        capsys.readouterr().err
        == "ttmem: error: missing.mlir (n150): missing.mlir: cannot be read: No such file or directory\n"
    )
    Path("models.txt").write_text("small.mlir\nlarge.mlir\n")
    assert made("-q") == 0  # however many fit
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "lists no model"),
        ("a.mlir --frobnicate", "models.txt:1"),
        ("small.mlir\n'a.mlir", "models.txt:2"),
        ("--batch 2", "needs a TARGET"),
        ("a.mlir --dtype odd", "models.txt:1"),
        ("--help", "models.txt:1: No such option"),
        ("a.mlir -h", "models.txt:1: No such option"),
        ("a.mlir --json", "--json cannot be part of a line"),
        ("a.mlir --html a.html", "--html cannot be part of a line"),
        ("a.mlir --max batch", "--max cannot be part of a line"),
        ("a.mlir --list models.txt", "--list cannot be part of a line"),
        ("a.mlir --board p150", "--board cannot be part of a line"),
        ("a.mlir --python /bin/sh", "--python cannot be part of a line"),
        ("a.mlir --torch-python /bin/sh", "--torch-python cannot be part of a line"),
    ],
)
def test_a_line_that_is_none_is_bad_input_with_its_place(
    models: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    Path("models.txt").write_text(text)
    assert made() == 2
    assert says in capsys.readouterr().err


def test_what_cannot_be(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--list", "models.txt"]) == 2
    assert main(["fit"]) == 2
    assert made("--boards", "n151") == 2
    Path("atlas").mkdir()
    Path("atlas/journal.jsonl").write_text("{}\n{}\n")
    assert made() == 2
    assert "is no journal of an atlas" in capsys.readouterr().err


def test_one_model_that_breaks_does_not_end_the_others(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(request: Any) -> Any:
        raise ZeroDivisionError("odd model")

    monkeypatch.setattr(model_matrix, "build_stream", broken)
    listed = [ListedModel("small.mlir", Request("small.mlir", engine="twin"))]
    (row,) = make_matrix(listed, ["n150"], models / "other", workers=2)
    assert (row.fits, row.reason) == (None, "ZeroDivisionError: odd model")


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_gives_the_same_rows(models: Path) -> None:
    distributed = pytest.importorskip("distributed")
    listed = [ListedModel(name, Request(str(models / name), engine="twin")) for name in ("small.mlir", "large.mlir")]
    here = make_matrix(listed, ["n150", "p150"], models / "here")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        there = make_matrix(listed, ["n150", "p150"], models / "there", scheduler=cluster.scheduler_address)
    same = [(row.model, row.board, row.fits, row.dram_peak_bytes_per_bank) for row in here]
    assert [(row.model, row.board, row.fits, row.dram_peak_bytes_per_bank) for row in there] == same


@pytest.mark.slow
def test_models_traced_at_the_same_time_keep_their_own_answers(tmp_path: Path, torch_python: str) -> None:
    """Two threads once asked one tracing process, and each could get half of the other's answer."""
    listed = [
        ListedModel(f"{kind} {batch}", Request(f"hf:{kind}", engine="twin", batch=batch, sequence=32))
        for kind in ("DistilBertConfig", "GPT2Config", "BertConfig")
        for batch in (1, 2)
    ]
    one = make_matrix(listed, ["n150", "p150"], tmp_path / "one")
    two = make_matrix(listed, ["n150", "p150"], tmp_path / "two", workers=3)
    assert [row.reason for row in two] == [""] * 12
    assert [replace(row, seconds=0.0) for row in two] == [replace(row, seconds=0.0) for row in one]
