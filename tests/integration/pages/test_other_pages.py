# SPDX-License-Identifier: Apache-2.0
"""Pages beside a profile's in a real browser: two profiles compared, sweeps, limits, circular buffers, a notebook."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ttmem
from support.build_profile import ProfileBuilder, tensor
from support.command_line import BLACKHOLE_OOM, FIVE_RUNS, ROOT, call
from support.model_configurations import LLAMA_8B
from support.profile_stories import two_layers
from support.recorded_suite import grown_suite, recorded_suite
from ttmem.commands.test import judge_suite
from ttmem.engines.run_tests import read_suite
from ttmem.reports import profile_files
from unit.analysis.test_same_model import PORTED, PREDICTED, program

from .conftest import Opened
from .test_profile_page import problems, rows, settle

BOARDS = ("n150", "p150")


def grown(width: int) -> ttmem.Profile:
    build = ProfileBuilder("grown" if width > 64 else "small")
    with build.program("main"):
        build.operation("ttnn.add", results={"%1": tensor(64, 64)}, location="a.1", dram=0, l1=0)
        if width > 64:
            build.operation("ttnn.relu", operands={"%1": tensor(64, 64)}, location="new.9", dram=2048, l1=0)
        build.operation("ttnn.matmul", results={"%2": tensor(64, width)}, location="b.2", dram=2048, l1=0)
        build.operation("ttnn.deallocate", operands={"%2": tensor(64, width)}, dram=2048 + 64 * width, l1=0)
    return build.build()


def test_two_profiles_over_one_another(opened: Opened, tmp_path: Path) -> None:
    before, after = grown(64), grown(1024)
    found = ttmem.diff(before, after)
    document = found.to_json()
    page = opened(found.to_html())
    views = page.eval_on_selector_all("[data-view]", "views => views.map(view => view.dataset.view)")
    assert views == ["compare", "before", "after"]
    change = document["memories"]["DRAM"]
    card = page.locator("[data-view=compare] .card").first.inner_text()
    assert f"+{change['delta_bytes_per_bank'] / 2**20:.3f}" in card
    assert [row[1] for row in rows(page, "grew")] == [one["tensor"] for one in document["grew"]]
    assert [row[0] for row in rows(page, "counts")] == [one["name"] for one in document["operation_counts"]]
    # the same operation lies above itself, although one more ran before it: matmul is #1 there and #2 here
    for key in ("Home", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    text = page.text_content("[data-view=compare] [data-role=cursor]") or ""
    assert text.count("ttnn.matmul") == 2, text
    page.fill("[data-role=search]", "nothing of this name")
    page.wait_for_selector("[data-view=compare] [data-role=count]:has-text('0 of')")


def test_a_report_from_disk_is_laid_under_this_one(opened: Opened, tmp_path: Path) -> None:
    before, after = grown(64), grown(1024)
    other, foreign = tmp_path / "other.html", tmp_path / "foreign.html"
    other.write_text(profile_files.render_html(before), "utf-8")
    foreign.write_text("<p>something else</p>", "utf-8")
    page = opened(profile_files.render_html(after))
    page.set_input_files("[data-role=other]", foreign)
    page.wait_for_selector("[data-view=compare]:has-text('foreign.html cannot be compared')")
    page.set_input_files("[data-role=other]", other)
    page.wait_for_selector("[data-role=compared] .uplot")
    delta = ttmem.diff(before, after).to_json()["memories"]["DRAM"]["delta_bytes_per_bank"]
    assert f"+{delta / 2**20:.3f}" in page.locator("[data-role=compared] .card").first.inner_text()
    assert [row[1] for row in rows(page, "grew")] == ["%2"]


def states(name: str, *, has_l1: bool) -> ttmem.Profile:
    """A program whose source prints the figures of L1, or does not."""
    build = ProfileBuilder(name)
    l1 = {"l1": 4096} if has_l1 else {}
    with build.program("main"):
        build.operation("ttnn.add", results={"%1": tensor(64, 64)}, location="a.1", dram=2048, **l1)
        build.operation("ttnn.relu", operands={"%1": tensor(64, 64)}, location="b.2", dram=2048, **l1)
    return build.build()


@pytest.mark.parametrize("from_disk", [False, True], ids=["diff", "from-disk"])
@pytest.mark.parametrize("first_knows", [True, False])
def test_a_memory_that_one_profile_alone_knows_is_unknown(
    opened: Opened, tmp_path: Path, *, first_knows: bool, from_disk: bool
) -> None:
    before, after = states("one", has_l1=first_knows), states("two", has_l1=not first_knows)
    change = ttmem.diff(before, after).to_json()["memories"]["L1"]
    assert (change["delta_bytes_per_bank"], change["delta_percent"]) == (None, None)
    if from_disk:
        other = tmp_path / "other.html"
        other.write_text(profile_files.render_html(before), "utf-8")
        page = opened(profile_files.render_html(after))
        page.set_input_files("[data-role=other]", other)
        page.wait_for_selector("[data-role=compared] .card")
    else:
        page = opened(ttmem.diff(before, after).to_html())
    card = page.locator(".card", has_text="Peak L1").filter(has_text="→").inner_text()
    assert [line.strip() for line in card.splitlines() if line.strip()][1] == "unknown"
    known = f"{4096 / 2**20:.3f}"
    assert f"{known if first_knows else 'unknown'} → {'unknown' if first_knows else known} MiB" in card
    assert "new" not in card
    assert "%" not in card
    assert problems(page) == []


def test_a_prediction_lies_over_a_port_of_the_same_model(opened: Opened) -> None:
    before, after = program("said", PREDICTED, "features.{}.<b>conv"), program("seen", PORTED, "tt/model.py:{}")
    found = ttmem.diff(before, after)
    page = opened(found.to_html())
    steps = rows(page, "steps")
    assert [(row[0].split()[0], row[3].split()[0]) for row in steps] == [("#0", "#2"), ("#3", "#4"), ("#4", "#5")]
    assert steps[0][1] == "features.0.<b>conv"
    levels = [[float(cell) for cell in (row[2], row[5], row[6])] for row in steps]
    assert all(abs(now - then - change) < 0.0015 for then, now, change in levels)
    page.fill("[data-role=search]", "features.3")
    page.wait_for_selector("[data-view=compare] [data-role=count]:has-text('1 of 3')")
    assert problems(page) == []


def test_suites_are_compared_test_by_test_whichever_process_ran_them(opened: Opened, tmp_path: Path) -> None:
    before = recorded_suite(tmp_path / "before", large=4 << 20).profile
    after = recorded_suite(tmp_path / "after", is_swapped=True).profile
    page = opened(ttmem.diff(before, after).to_html())
    # (name, memory, before, after, change): one test grew, the others are as they were
    grown = [row for row in rows(page, "compared-tests") if row[1] == "DRAM"]
    assert grown == [["test_a.py::test_large", "DRAM", "4.000", "8.000", "+4.000"]]
    # the curves are those of the two processes that reach the peak, and the cursor begins there
    told = page.text_content("[data-view=compare] [data-role=cursor]") or ""
    assert "before 4.000 MiB/bank" in told
    assert "after 8.000 MiB/bank" in told
    assert told.count("a.py:7") == 2, told
    assert problems(page) == []


def test_what_does_not_compare_is_said(opened: Opened) -> None:
    wormhole, blackhole = (ttmem.read(ROOT / "tests/data/captures" / f"{board}-report.json.gz") for board in BOARDS)
    found = ttmem.diff(wormhole, blackhole)
    page = opened(found.to_html(), color_scheme="dark")
    notes = page.inner_text("[data-view=compare] .notes")
    assert all(remark in notes for remark in found.to_json()["remarks"])
    memories = [profile.to_json()["memories"]["DRAM"]["peak_percent"] for profile in (wormhole, blackhole)]
    shares = " → ".join(f"{share:.1f}%" for share in memories)
    assert shares in page.locator("[data-view=compare] .card").first.inner_text()
    assert problems(page) == []


def test_profiles_of_other_programs_can_be_compared_too(opened: Opened) -> None:
    page = opened(ttmem.diff(FIVE_RUNS, BLACKHOLE_OOM).to_html(), width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.click("[data-view=compare] [data-memory=L1]")
    assert page.locator("[data-view=compare] .uplot").count() == 1


def test_the_page_of_circular_buffers_draws_the_pipeline(opened: Opened, tmp_path: Path) -> None:
    file = tmp_path / "cb.html"
    call("cb", "simulate", 8, 8, "--html", file)
    page = opened(file.read_text("utf-8"))
    assert page.locator("[data-role=pipeline] canvas").count() >= 2
    assert "reader" in (page.get_attribute("[data-role=pipeline] canvas", "aria-label") or "")
    assert problems(page) == []
    assert page.locator("[data-role=depth-chart] canvas").count() == 1


def test_the_page_of_a_sweep_is_a_matrix_and_its_tables(opened: Opened, tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    shapes = [[1, 1, 64, 64], [1, 1, 2048, 2048], [1, 16, 65536, 65536]]
    case = {"op": "silu", "args": {}, "models": ["m"], "count": 1}
    lines = [
        json.dumps({"id": f"silu-{number}", "tensors": [{"shape": shape, "dtype": "bfloat16"}], **case})
        for number, shape in enumerate(shapes)
    ]
    cases.write_text("\n".join(lines))
    results = tmp_path / "results"
    assert call("sweep", "run", cases, "--engine", "twin", "--board", "n150", "-o", results, "-q").code in (0, 1)
    assert call("sweep", "report", results, "-o", tmp_path / "report").code == 0
    page = opened((tmp_path / "report" / "sweep_report.html").read_text("utf-8"))
    label = page.get_attribute("[data-role=matrix] canvas", "aria-label") or ""
    assert "1 rows, 3 columns" in label
    assert rows(page, "operators")[0][0] == "silu"
    assert problems(page) == []


@pytest.mark.parametrize(("width", "theme"), [(390, "light"), (1280, "dark")])
def test_pages_of_limits_and_buffers_begin_with_the_answer(
    opened: Opened, tmp_path: Path, width: int, theme: str
) -> None:
    limits, simulated = tmp_path / "limits.html", tmp_path / "cb.html"
    told = json.loads(call("sweep", "limits", "--op", "silu", "--board", "n150", "--json", "--html", limits).out)
    call("cb", "simulate", 8, 8, "--html", simulated)
    page = opened(limits.read_text("utf-8"), width=width, color_scheme=theme)
    cards = page.locator("[data-view=overview] .card").all_inner_texts()
    assert len(cards) == len(told["limits"])
    for card, limit in zip(cards, told["limits"], strict=True):
        assert str(limit["shape"][-2]) in card
    other = opened(simulated.read_text("utf-8"), width=width, color_scheme=theme)
    assert "Recommended" in other.inner_text("[data-view=overview]")
    for one in (page, other):
        assert one.evaluate("document.documentElement.scrollWidth") <= width
        assert problems(one) == []


def test_the_page_of_a_language_model_shows_what_else_would_fit(opened: Opened, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA_8B))
    found = ttmem.fit(str(config), board="n150", engine="twin", recipe="tt-transformers:performance", context=16384)
    answer = found.to_json()
    page = opened(profile_files.render_html(found.profile))
    points = answer["capacity"]["points"]
    told = [[row[0], row[1]] for row in rows(page, "capacity")]
    assert told == [[f"{point['users']:,}", f"{point['context']:,}"] for point in points]
    label = page.get_attribute("[data-view=fit] canvas", "aria-label") or ""
    assert all(f"{point['users']} x {point['context']:,}" in label for point in points)
    parts = {row[0]: row[1] for row in rows(page, "fit-parts")}
    assert parts["weights"] == f"{answer['weights_bytes'] / 2**20:,.3f}"
    settle(page)
    assert problems(page) == []


def test_a_notebook_shows_the_page_in_small(opened: Opened) -> None:
    shown = two_layers()._repr_html_()
    page = opened(shown + '<div id="ttmem-report" data-ready="true"></div>')
    frame = page.frame_locator("iframe")
    frame.locator("#ttmem-report[data-ready=true]").wait_for()
    assert frame.locator("[data-view]").count() == 2
    assert frame.locator("[data-role=cursor]").count() == 1


def test_it_is_accessible(opened: Opened) -> None:
    page = opened(ttmem.diff(grown(64), grown(1024)).to_html())
    settle(page)
    assert problems(page) == []


@pytest.mark.parametrize("copies", [1, 30], ids=["short", "long"])
@pytest.mark.parametrize("width", [1500, 1920])
def test_long_names_and_failures_are_wrapped(opened: Opened, tmp_path: Path, width: int, copies: int) -> None:
    # GIVEN tests with many parameters, and a failure of many words; with copies more than are drawn at once
    recorded_suite(tmp_path / "events")
    parameters = (
        "[dtype=DataType.BFLOAT16-memory_config=L1_HEIGHT_SHARDED-shape=(1, 8, 1024, 1024)-use_program_cache=True]"
    )
    words = "Out of Memory: Not enough space to allocate 5000000 B DRAM buffer across 12 banks, " * 3
    for file in (tmp_path / "events").iterdir():
        text = file.read_text().replace("Out of Memory: ", words)
        for name in ("small", "large", "early", "fails"):
            text = text.replace(f"test_{name}", f"test_{name}_of_softmax_with_a_program_cache{parameters}")
        rows = [line for line in text.splitlines(keepends=True) if '{"row"' in line]
        more = [row.replace("test_small", f"test_small_{copy}") for copy in range(copies) for row in rows]
        file.write_text("".join(more) + text)
    recorded = read_suite(
        tmp_path / "events", name="suite", source="test_a.py", engine="mock", board="n150", timed_out=False
    )
    document = judge_suite(1, "mock n150", recorded).document
    page = opened(profile_files.render_html(recorded.profile, tests=document), "#view=tests", width=width)
    table = page.locator("[data-view=tests] .scroll")
    # THEN the table is as wide as the screen, and its rows have one height
    assert table.evaluate("element => element.scrollWidth - element.clientWidth") <= 0
    heights = page.eval_on_selector_all(
        "[data-table=tests] tbody tr:not(.spacer)", "rows => rows.map(row => row.getBoundingClientRect().height)"
    )
    assert set(heights) == {60}
    assert problems(page) == []


def test_the_tests_of_a_suite_lead_to_their_operations(opened: Opened, tmp_path: Path) -> None:
    """Two processes, two tests each; a baseline that one of them outgrew."""
    suite = grown_suite(tmp_path / "events")
    page = opened(profile_files.render_html(suite.profile, tests=suite.document))
    views = page.eval_on_selector_all("[data-view]", "views => views.map(view => view.dataset.view)")
    assert views[:3] == ["tests", "overview", "timeline"]
    assert [row[0] for row in rows(page, "grown")] == ["test_a.py::test_large"]
    shown = rows(page, "tests")
    assert [(row[0], row[1]) for row in shown] == [
        ("test_a.py::test_fails", "failed oom/unknown"),
        ("test_a.py::test_large", "passed"),
        ("test_a.py::test_small", "passed"),
        ("test_a.py::test_early", "skipped (xfail)"),
    ]
    assert shown[1][2].startswith("8.000 (")
    assert "ttnn.add a.py:7" in shown[1][5]
    page.set_viewport_size({"width": 1920, "height": 900})
    assert page.eval_on_selector("section[data-view=tests]", "view => view.getBoundingClientRect().width") > 1800
    assert page.evaluate("document.documentElement.scrollWidth") == 1920
    page.click("[data-table=tests] a:has-text('test_fails')")
    settle(page)
    assert "view=timeline" in page.url
    assert "process=1" in page.url
    page.fill("[data-role=search]", "small")
    page.wait_for_selector("[data-view=tests] [data-role=count]:has-text('1 of 4')")
    assert problems(page) == []
