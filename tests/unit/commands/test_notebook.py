# SPDX-License-Identifier: Apache-2.0
"""A Profile in a notebook: one line, a small summary, a drawing, tables."""

from __future__ import annotations

import csv
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import ttmem
from support.build_profile import ProfileBuilder, tensor
from support.command_line import BLACKHOLE_OOM, FIVE_RUNS


@pytest.fixture
def profile() -> ttmem.Profile:
    build = ProfileBuilder("<b>tiny</b>")
    with build.program("main"):
        build.operation("ttnn.<i>add", results={"%1": tensor(64, 64)}, operands={"%0": tensor(64, 64)}, dram=0, l1=0)
        build.operation("ttnn.deallocate", operands={"%1": tensor(64, 64)}, dram=8192, l1=4096)
    return build.build()


def test_repr_is_one_short_line(profile: ttmem.Profile) -> None:
    assert repr(profile) == "<Profile '<b>tiny</b>': tt-mlir-log, 2 operations>"
    assert repr(ttmem.read(FIVE_RUNS)) == "<Profile 'transformer-five-runs': tt-mlir-log, 671 operations>"


def test_the_summary_escapes_what_came_from_a_source(profile: ttmem.Profile) -> None:
    shown = profile._repr_html_()
    assert "&lt;b&gt;tiny&lt;/b&gt;" in shown
    assert "ttnn.&lt;i&gt;add" in shown
    assert "<b>tiny" not in shown
    assert "<i>" not in shown
    assert "<script" not in shown
    assert shown.count("<iframe") == 1
    ElementTree.fromstring(shown)  # well-formed, so it cannot break the notebook's page


def test_the_summary_names_the_failure_and_stays_small() -> None:
    shown = ttmem.read(BLACKHOLE_OOM)._repr_html_()
    assert "oom/" in shown
    assert len(shown) < 300_000


def test_a_profile_without_states_has_a_summary_and_no_frame() -> None:
    build = ProfileBuilder("bare")
    build.operation("ttnn.add")
    bare = build.build()
    assert "<iframe" not in bare._repr_html_()
    with pytest.raises(ttmem.TtmemError, match="no states of DRAM"):
        bare.plot()


def test_the_drawing_stands_alone(profile: ttmem.Profile) -> None:
    for memory in ("DRAM", "l1"):
        drawing = ElementTree.fromstring(profile.plot(memory))
        assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    with pytest.raises(ttmem.TtmemError) as raised:
        profile.plot("SRAM")
    assert raised.value.hint == "memories with states: DRAM, L1"


@pytest.mark.parametrize("name", ["operations", "states", "tensors"])
def test_tables_are_those_of_the_export(profile: ttmem.Profile, tmp_path: Path, name: str) -> None:
    table = getattr(profile, name)()
    with (ttmem.export(profile, "csv", tmp_path / "tables") / f"{name}.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert table.column_names == head
    assert table.num_rows == len(rows) > 0
    as_text = [["" if value is None else str(value) for value in row.values()] for row in table.to_pylist()]
    assert [[cell.lower() for cell in row] for row in as_text] == [[cell.lower() for cell in row] for row in rows]


def test_a_table_gives_a_frame(profile: ttmem.Profile) -> None:
    pytest.importorskip("pandas")
    assert list(profile.operations().to_pandas()["index"]) == [0, 1]


def test_without_pyarrow_the_way_to_it_is_told(profile: ttmem.Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ttmem.TtmemError, match="need pyarrow") as raised:
        profile.states()
    assert raised.value.exit_code == 3
    assert raised.value.hint == f"{sys.executable} -m pip install 'pandas>=2' 'pyarrow>=15'"
