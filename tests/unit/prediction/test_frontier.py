# SPDX-License-Identifier: Apache-2.0
"""Ranges of batches and sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import ROOT, call
from ttmem import TtmemError
from ttmem.prediction.largest import expand_ranges, parse_ranges
from ttmem.prediction.request import Request

MODELS = ROOT / "tests" / "data" / "fit_models.py"


def test_a_range_is_doubled_and_ends_where_it_says() -> None:
    batch, size = parse_ranges("batch=1..12, size=224|640")
    assert (batch.values, size.values) == ((1, 2, 4, 8, 12), (224, 640))
    found = [(place, one.batch, one.size) for place, one in expand_ranges(Request("m"), (batch, size))]
    assert found[1] == ({"batch": 1, "size": 640}, 1, (640, 640))
    assert len(found) == 10


@pytest.mark.parametrize(
    "text", ["", "batch", "bat=1", "batch=0", "batch=4..2", "batch=1,batch=2", "size=1|", "batch=x"]
)
def test_what_is_no_range_is_bad_input(text: str) -> None:
    with pytest.raises(TtmemError) as told:
        parse_ranges(text)
    assert told.value.exit_code == 2


def test_a_sweep_is_a_table_a_file_and_a_drawing(torch_python: str, tmp_path: Path) -> None:
    plot = tmp_path / "frontier.svg"
    words = ["--inputs", f"{MODELS}::tokens", "--engine", "twin", "--sweep", "batch=1|400000", "--plot", plot]
    told = call("fit", f"{MODELS}::attention", *words, "--json")
    answer = json.loads(told.out)
    assert told.code == 0
    assert [(one["at"], one["fits"]) for one in answer["points"]] == [({"batch": 1}, True), ({"batch": 400000}, False)]
    assert answer["points"][1]["peak_percent"] > 100
    assert plot.read_text().startswith("<svg")
