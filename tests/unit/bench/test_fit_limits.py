# SPDX-License-Identifier: Apache-2.0
"""The table of published limits: every row can be asked, and figures are those of the formulas."""

from __future__ import annotations

import sys

import pytest

from support.command_line import ROOT

sys.path.insert(0, str(ROOT / "bench"))

import fit_limits
from ttmem.base import toml

DATA = toml.loads((ROOT / "bench" / "fit_limits.toml").read_text())


def test_every_row_names_a_model_and_sources_that_are_there() -> None:
    for row in DATA["row"]:
        assert row["model"] in DATA["models"]
        assert set(row["source"].split(", ")) <= DATA["sources"].keys()
        assert {"limit", "next"} & row.keys()


@pytest.mark.parametrize(
    ("model", "board", "needed"),
    [("Llama-3.1-8B", "n150", [93, 111, 96]), ("Qwen2.5-7B", "n300", [86, 103])],
)
def test_the_formulas_give_what_was_measured_of_them(model: str, board: str, needed: list[float]) -> None:
    rows = [row for row in DATA["row"] if (row["model"], row["board"]) == (model, board)]
    found = list(fit_limits.assertions({**DATA, "row": rows}, "twin"))
    # THEN they agree with the formulas, which leave out the embedded prompt that the caller keeps, up to that
    of_the_formulas = found[: len(needed)]
    assert [one.percent for one in of_the_formulas] == pytest.approx(needed, abs=2)
    assert all(one.percent >= figure - 0.5 for one, figure in zip(of_the_formulas, needed, strict=True))
    assert all(one.right for one in found)
    assert fit_limits.table(found).count("| yes |") == len(found)
