# SPDX-License-Identifier: Apache-2.0
"""Models x boards: one table, made bit by bit."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from fit.compiled.some_modules import linear_layer
from ttmem.commands import main
from ttmem.fit import atlas
from ttmem.fit.atlas import AtlasRow, ListedModel, make_atlas
from ttmem.fit.request import Request


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
    assert made("--boards", "n150,p150", "--json") == 0
    document = json.loads(capsys.readouterr().out)
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
    assert "Which model fits which board" in Path("atlas/atlas.html").read_text()


def test_a_second_call_asks_only_for_what_is_missing(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made() == 0
    journal = Path("atlas/journal.jsonl")
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join(lines[:2]) + '\n{"key": "cut')  # killed in the middle of the third
    asked: list[str] = []
    real = atlas.answer

    def watched(model: ListedModel, board: str) -> AtlasRow:
        asked.append(model.text)
        return real(model, board)

    monkeypatch.setattr(atlas, "answer", watched)
    assert made() == 0
    assert len(asked) == 1
    Path("small.mlir").write_text(linear_layer(rows=128))  # a file that changed is asked about again
    assert made("--boards", "n150") == 0
    assert asked[1:] == ["small.mlir"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "lists no model"),
        ("a.mlir --frobnicate", "models.txt:1"),
        ("small.mlir\n'a.mlir", "models.txt:2"),
        ("--batch 2", "needs a TARGET"),
        ("a.mlir --dtype odd", "models.txt:1"),
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

    monkeypatch.setattr(atlas, "stream_of", broken)
    listed = [ListedModel("small.mlir", Request("small.mlir", engine="twin"))]
    (row,) = make_atlas(listed, ["n150"], models / "other", workers=2)
    assert (row.fits, row.reason) == (None, "ZeroDivisionError: odd model")


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_gives_the_same_rows(models: Path) -> None:
    distributed = pytest.importorskip("distributed")
    listed = [ListedModel(name, Request(str(models / name), engine="twin")) for name in ("small.mlir", "large.mlir")]
    here = make_atlas(listed, ["n150", "p150"], models / "here")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        there = make_atlas(listed, ["n150", "p150"], models / "there", scheduler=cluster.scheduler_address)
    same = [(row.model, row.board, row.fits, row.dram_peak_bytes_per_bank) for row in here]
    assert [(row.model, row.board, row.fits, row.dram_peak_bytes_per_bank) for row in there] == same
