# SPDX-License-Identifier: Apache-2.0
"""The shared parts of reports: tables in all formats, the console, drawings, SARIF."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.page import Outline, blocks
from ttmem.base.formatting import (
    format_bytes,
    format_compact_bytes,
    format_kib_number,
    format_range,
    format_shape_list,
    format_share,
)
from ttmem.reports.kit import charts, documents, sarif, tables
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.pages import Card, Section, render_page
from ttmem.reports.kit.tables import Table, mib_column, name_column, number_column, percent_column, text_column

MIB = 1 << 20


@pytest.fixture
def table() -> Table:
    """Two tensors, one with unknown figures."""
    columns = [
        name_column("Tensor"),
        mib_column("MiB/bank"),
        percent_column("Of peak"),
        number_column("Uses"),
        text_column("Alive", whole=True),
    ]
    rows = [["layers.0|weight", 3 * MIB, 75.0, 1200, "#1-#20"], ["%1", MIB // 2, None, 3, None]]
    return Table(columns, rows, title="Tensors", left_out="7 more", bars="MiB/bank")


def test_markdown_keeps_a_cell_a_cell(table: Table) -> None:
    assert tables.format_markdown(table) == [
        "| Tensor | MiB/bank | Of peak | Uses | Alive |",
        "| --- | --- | --- | --- | --- |",
        "| layers.0\\|weight | 3.000 | 75.0% | 1,200 | #1-#20 |",
        "| %1 | 0.500 | - | 3 | - |",
    ]
    assert tables.format_markdown(table, aligned=True)[1] == "| --- | ---: | ---: | ---: | --- |"
    assert tables.format_markdown(table.take(0)) == []


def test_a_backslash_before_a_bar_does_not_end_the_cell() -> None:
    shown = tables.format_markdown(Table.build(["Code"], [["a\\|b<int> *c"]]), markup=False)
    assert shown[2] == "| a\\\\\\|b&lt;int> \\*c |"


def test_names_are_cut_and_places_are_not(table: Table) -> None:
    assert table.format_cells(longest=5)[0] == ["la…ht", "3.000", "75.0%", "1,200", "#1-#20"]
    assert table.change_column("Tensor", most=9).format_cells(longest=100)[0][0] == "lay…eight"


def test_columns_are_picked_in_the_order_asked_for(table: Table) -> None:
    picked = table.select("Uses", "Tensor").change_column("Uses", head="Times")
    assert picked.heads == ["Times", "Tensor"]
    assert picked.format_cells() == [["1,200", "layers.0|weight"], ["3", "%1"]]
    with pytest.raises(ValueError, match="no column 'Users'"):
        table.select("Users")


def test_csv_has_bare_values(table: Table) -> None:
    assert tables.format_csv(table.select("Tensor", "MiB/bank", "Of peak")) == (
        "Tensor,MiB/bank,Of peak\nlayers.0|weight,3145728,75.0\n%1,524288,\n"
    )
    assert tables.format_csv_line(["a,b", 'say "x"', "plain"]) == '"a,b","say ""x""",plain'


def test_plain_columns_are_as_wide_as_their_cells(table: Table) -> None:
    assert tables.format_plain(table.select("Tensor", "Uses"), gap=" | ", rule="-|-").splitlines() == [
        "Tensor          |  Uses",
        "----------------|------",
        "layers.0|weight | 1,200",
        "%1              |     3",
    ]


def test_text_has_no_colour_unless_asked_and_folds_names(table: Table) -> None:
    report = TextReport(20)
    report.print_titled(table.select("Tensor", "MiB/bank"), spaced=False)
    assert report.width == 40
    assert report.render().splitlines() == [
        "Tensors",
        "Tensor           MiB/bank",
        "layers.0|weight     3.000",
        "%1                  0.500",
        "7 more",
    ]
    colored = TextReport(60, color=True)
    colored.print(Table([percent_column("Of bank", style=lambda found: "red" if found > 90 else "")], [[95.0], [2.0]]))
    assert colored.render().count("\x1b[31m") == 1


def test_where_not_even_the_least_fits_lines_are_longer_and_figures_stay_whole() -> None:
    name = "a_stored_name_that_people_copy_" * 3
    report = TextReport(80)
    report.print(
        Table([text_column("Name", whole=True), number_column("Peak", write=str)], [[name, "2.988 MiB (0.3%)"]])
    )
    report.print("word " * 30)
    first, second, *folded = report.render().splitlines()
    assert first.split() == ["Name", "Peak"]
    assert second == f"{name}  2.988 MiB (0.3%)"
    assert max(map(len, folded)) <= 80


def test_text_interprets_nothing() -> None:
    report = TextReport(60)
    report.print("[bold]x[/bold] :smile:", Table.build(["[red]"], [["[link]"]]))
    assert report.render() == "[bold]x[/bold] :smile:\n[red]\n[link]\n"


def test_a_page_holds_what_it_is_given(table: Table) -> None:
    chart = charts.LineChart("Depth", charts.Axis("x", 0, 1, []), charts.Axis("y", 0, 1, []), [])
    shown = render_page(
        title="<script>",
        cards=[Card("Peak", "3", "MiB", bar_percent=200.0, level="alarm")],
        notes=["a & b\x1b[31m"],
        sections=[
            Section("one", "One", [Table.build(["Tensor", "Uses"], [["%1", "1,200"]], left=1)]),
            Section("two", "Two", [table, table], remarks=["said"], drawing=chart, drawing_role="depth-chart"),
        ],
        foot="the end",
    )
    assert "<title>&lt;script&gt; · ttmem</title>" in shown
    (block,) = blocks(shown)
    header = block.header
    assert (header["title"], header["notes"], header["foot"]) == ("<script>", ["a & b [31m"], "the end")
    assert header["cards"][0]["bar_percent"] == 200.0
    one, two = header["sections"]
    assert one["tables"][0]["rows"] == [["%1", "1,200"]]
    assert [column["kind"] for column in one["tables"][0]["columns"]] == ["name", "number"]
    assert (two["drawing"]["type"], two["role"], two["remarks"]) == ("lines", "depth-chart", ["said"])
    assert [part["bars"] for part in two["tables"]] == [1, 1]
    assert "7 more" in two["tables"][0]["left_out"]
    assert "7 more" in Outline(shown).cells()  # for a reader without scripts


def test_a_drawing_stands_alone() -> None:
    chart = charts.LineChart(
        "a < b",
        charts.Axis("depth", 0, 4, [charts.Tick(0, "1"), charts.Tick(4, "16")]),
        charts.Axis("rate", 0, 10, [charts.Tick(0, "0"), charts.Tick(10, "10")]),
        [
            charts.Curve("first", [(0, 0), (4, 10)], ["low", "high"], low=[0, 5]),
            charts.Curve("second", [(0, 10), (2, 10), (4, 5)], steps=True),
            charts.Curve("third", [(0, 9), (4, 10)]),
        ],
        width=300,
        height=168,
        right=30,
    )
    root = ElementTree.fromstring(charts.draw_svg(chart))
    space = "{http://www.w3.org/2000/svg}"
    assert root.attrib["aria-label"] == "a < b"
    paths = [element.attrib["d"] for element in root.iter(f"{space}path")]
    assert paths == [
        "M70 122L270 22L270 72L70 122Z",
        "M70 122L270 22",
        "M70 22H170H270V72L270 122L70 122Z",
        "M70 22H170H270V72",
        "M70 32L270 22",
    ]
    heights = {element.text: float(element.attrib["y"]) for element in root.iter(f"{space}text")}
    assert abs(heights["first"] - heights["third"]) >= 13, "labels do not cover each other"
    assert [element.text for element in root.iter(f"{space}title")] == ["a < b", "low", "high"]


@pytest.mark.parametrize(("rough", "step"), [(0.3, 0.5), (1, 1), (1.2, 2), (24, 25), (51, 100)])
def test_ticks_are_round(rough: float, step: float) -> None:
    assert charts.round_step(rough) == pytest.approx(step)


def test_sarif_lists_rules_and_results() -> None:
    rules = [sarif.SarifRule("a", "A holds."), sarif.SarifRule("b", "B holds.", "Because.", "Do this.")]
    results = [
        sarif.SarifResult("b", "error", "broken\nhere", "some dir/file.cpp", 0),
        sarif.SarifResult("a", "none", "fine", "run.log", 12, "ttnn.add", kind="pass"),
    ]
    (run,) = json.loads(sarif.render_log(rules, results))["runs"]
    assert run["tool"]["driver"]["rules"][1] == {
        "id": "b",
        "shortDescription": {"text": "B holds."},
        "fullDescription": {"text": "Because."},
        "help": {"text": "Do this."},
    }
    first, second = run["results"]
    assert first == {
        "ruleId": "b",
        "ruleIndex": 1,
        "level": "error",
        "message": {"text": "broken here"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "some%20dir/file.cpp"},
                    "region": {"startLine": 1},
                }
            }
        ],
    }
    assert second["kind"] == "pass"
    assert second["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "ttnn.add"


def test_units() -> None:
    assert [format_compact_bytes(amount) for amount in (None, 512, 3 * MIB, 3 << 29)] == [
        "-",
        "0.5KB",
        "3.0MB",
        "1.50GB",
    ]
    assert [format_bytes(amount) for amount in (4096, 3 * MIB)] == ["4,096 B", "3.00 MiB"]
    assert [format_kib_number(amount) for amount in (49152, 1536)] == ["48", "1.5"]
    assert [format_range((28.91, 82.5)), format_range((3, 3), 0)] == ["28.9-82.5", "3"]
    assert [format_shape_list((1, 2)), format_shape_list(())] == ["[1, 2]", "-"]
    assert [format_share(1, 3), format_share(1, 0)] == ["33.3%", "-"]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.floats(),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(max_size=3), inner, max_size=7),
    max_leaves=60,
)


@given(_VALUES, st.integers(1, 3))
def test_a_document_in_pieces_is_the_same_document(value: object, indent: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "_ENTRIES", 2)
        assert "".join(documents.format_json_pieces(value, indent)) == documents.format_json(value, indent)
