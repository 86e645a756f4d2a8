# SPDX-License-Identifier: Apache-2.0
"""The page of a profile in a real browser: its figures are those of the JSON, and everything can be reached by key."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ttmem
from support.build_profile import ProfileBuilder, tensor
from support.command_line import BLACKHOLE_OOM, FIVE_RUNS, ROOT
from support.profile_stories import ALL, HOSTILE, two_ranks
from ttmem.analysis.lifetimes import buffers_in_state
from ttmem.analysis.peaks import peaks
from ttmem.reports import profile_files

from .conftest import Opened

if TYPE_CHECKING:
    from playwright.sync_api import Page

CAPTURE = ROOT / "tests" / "data" / "captures" / "n150-report.json.gz"
VIEWS = [
    "overview",
    "timeline",
    "tensors",
    "lifetimes",
    "map",
    "padding",
    "operations",
    "weights",
    "compare",
    "warnings",
]
SOURCES = {"log": FIVE_RUNS, "failed log": BLACKHOLE_OOM, "capture": CAPTURE}


@cache
def profile_of(source: Path) -> ttmem.Profile:
    return ttmem.read(source)


@cache
def text_of(source: Path) -> str:
    """Its page; many tests look at the same."""
    return profile_files.render_html(profile_of(source))


def rows(page: Page, table: str) -> list[list[str]]:
    """The cells of a table's rows that are in sight."""
    return page.eval_on_selector_all(
        f'[data-table="{table}"] tbody tr:not(.spacer)', "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )


def cursor(page: Page) -> int:
    settle(page)
    return int(page.get_attribute("[data-role=cursor]", "data-op") or -1)


def settle(page: Page) -> None:
    """Two frames: whatever waits for the next one is drawn."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def chart_of(page: Page) -> dict[str, float]:
    """Where the chart of the timeline is on the screen."""
    page.keyboard.press("2")
    settle(page)
    box = page.locator("[data-view=timeline] .u-over").bounding_box()
    assert box is not None
    return dict(box)


def problems(page: Page) -> list[tuple[str, str]]:
    """What axe-core finds that is serious, with the first element that has it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    found: dict[str, Any] = axe.Axe().run(page, options={"resultTypes": ["violations"]}).response
    serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in serious]


def fullest(document: dict[str, Any]) -> str:
    """The memory that a page opens with: the one with the largest share taken, L1 with the programs' own buffers."""

    def share(memory: str) -> float:
        peak = document["memories"][memory]
        taken = max(peak["peak_bytes_per_bank"], peak.get("peak_with_programs_bytes_per_core", 0))
        return float(taken / peak["bytes_per_bank"]) if peak["bytes_per_bank"] else 0.0

    return max(document["memories"], key=share)


def mib(amount: int) -> str:
    return f"{amount / 2**20:,.3f}"


@pytest.mark.parametrize("source", SOURCES)
def test_the_figures_are_those_of_the_json(opened: Opened, source: str) -> None:
    profile = profile_of(SOURCES[source])
    document = profile.to_json()
    page = opened(text_of(SOURCES[source]))
    assert page.eval_on_selector_all("[data-view]", "views => views.map(v => v.dataset.view)") == VIEWS
    # overview
    for row, (memory, peak) in zip(rows(page, "peaks"), document["memories"].items(), strict=True):
        cause = peak["caused_by"]
        assert row[:2] == [memory, mib(peak["peak_bytes_per_bank"])]
        assert row[4] == str(peak["banks"])
        assert row[5] == (f"#{cause['index']} {cause['name']}" if cause else "-")
    # tensors alive at the peak of the fullest memory, where the page opens
    opens_with = document["memories"][(document["failure"] or {}).get("memory") or fullest(document)]
    consumers = [[one["tensor"], mib(one["bytes_per_bank"])] for one in opens_with["consumers"]]
    assert [[row[0], row[2]] for row in rows(page, "consumers")] == consumers[: len(rows(page, "consumers"))]
    count = page.text_content("[data-view=tensors] [data-role=count]")
    assert count == f"{len(consumers):,}"
    assert (
        int(page.get_attribute("[data-role=moment]", "data-unattributed") or 0)
        == opens_with["unattributed_bytes_per_bank"]
    )
    # padding, weights, operations
    for role in ("logical-bytes", "padded-bytes", "overhead-percent"):
        shown = page.get_attribute(f"[data-view=padding] [data-role={role}]", "data-value")
        assert float(shown or -1) == document["padding"][role.replace("-", "_")]
    weights = [one["name"] for one in document["weights"]["entries"]]
    assert [row[0] for row in rows(page, "weights")] == weights[: len(rows(page, "weights"))]
    executed = document["operations"]["executed"]
    assert page.text_content("[data-view=operations] .two [data-role=count]") == f"{executed:,}"
    if document["failure"]:
        text = page.text_content("[data-role=failure]") or ""
        if document["failure"]["class"] != "none":  # an error of no class has its message alone
            assert document["failure"]["class"] in text
        if document["failure"]["requested_bytes"] is not None:
            assert f"{document['failure']['requested_bytes']:,}" in text
        assert document["failure"]["message"][:60] in text


def test_the_cursor_moves_everything(opened: Opened) -> None:
    profile = profile_of(FIVE_RUNS)
    peak = profile.to_json()["memories"]["DRAM"]["peak_at"]["index"]
    page = opened(text_of(FIVE_RUNS), "#memory=DRAM")
    page.get_by_role("button", name="To the peak").click()
    assert cursor(page) == peak
    page.keyboard.press("ArrowRight")
    assert cursor(page) == peak + 1
    page.keyboard.press("Shift+ArrowLeft")
    assert cursor(page) == peak - 9
    assert (page.text_content("[data-role=operation] h3") or "").startswith(f"#{peak - 9} ")
    assert f"#op={peak - 9}&" in page.evaluate("location.hash")
    page.keyboard.press("Home")
    assert cursor(page) == 0
    # n and p go from peak to peak: each run's fullest moment
    tops = []
    for _ in range(5):
        page.keyboard.press("n")
        tops.append(cursor(page))
    assert tops == sorted(set(tops))
    assert peak in tops
    page.keyboard.press("p")
    assert cursor(page) == tops[-2]
    bytes_here = int(page.get_attribute("[data-role=cursor]", "data-bytes") or 0)
    timeline = profile.timelines[0]
    state = timeline.state_operation.tolist().index(tops[-2])
    assert bytes_here == profile.views[timeline.state_view[state, 0], 2]


def test_a_key_that_is_held_is_followed_to_its_end(opened: Opened) -> None:
    """Browsers refuse to change an address without end; the page does not ask for it."""
    page = opened(text_of(FIVE_RUNS), "#op=0&view=timeline")
    for _ in range(260):
        page.keyboard.press("ArrowRight")
    assert cursor(page) == 260
    page.wait_for_function("() => location.hash.includes('op=260&')")


def test_zoom_by_dragging_and_back(opened: Opened) -> None:
    page = opened(text_of(FIVE_RUNS))
    box = chart_of(page)
    whole = page.text_content("[data-role=range]")
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60, steps=4)
    page.mouse.up()
    settle(page)
    settle(page)
    text = (page.text_content("[data-role=range]") or "").replace("#", "").split(" to ")
    first, last = (int(part) for part in text)
    assert 150 <= first <= 185
    assert 320 <= last <= 350
    # down to one operation, however often the key is pressed
    for _ in range(12):
        page.keyboard.press("+")
    settle(page)
    asked = dict(part.split("=") for part in page.evaluate("location.hash.slice(1)").split("&"))
    assert int(asked["to"]) - int(asked["from"]) == 1
    page.click("[data-role=zoom-out]")
    settle(page)
    settle(page)
    assert page.text_content("[data-role=range]") == whole


def test_a_click_on_the_chart_is_the_cursor(opened: Opened) -> None:
    page = opened(text_of(FIVE_RUNS))
    box = chart_of(page)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    assert "MiB/bank before #33" in (page.text_content("[data-role=readout]") or "")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 40)
    assert cursor(page) in (334, 335)


def test_links_open_their_place(opened: Opened) -> None:
    page = opened(text_of(FIVE_RUNS), "#op=123&view=map")
    for operation, link, view in ((123, "map", "map"), (7, "operations", "operations"), (99, "where", "map")):
        page.evaluate(f"() => {{ location.hash = '#op={operation}&view={link}' }}")
        page.wait_for_selector(f"nav [href='#view={view}'][aria-current]")
        assert cursor(page) == operation
        top = page.locator(f"[data-view={view}]").evaluate("element => element.getBoundingClientRect().top")
        assert -5 < top < 400
        assert f"#{operation} " in (page.text_content("[data-role=map-about]") or "")


def test_a_broken_link_breaks_nothing(opened: Opened) -> None:
    page = opened(text_of(FIVE_RUNS), "#op=1e99&view=%00")
    for link in ("op=-5&view=nowhere", "op=99999999&from=9&to=3&memory=SRAM", "%zz&&==", "op=&view=&process=9"):
        page.evaluate(f"() => {{ location.hash = '{link}' }}")
        assert 0 <= cursor(page) <= 671


def test_search_finds_rows_of_all_tables(opened: Opened) -> None:
    page = opened(text_of(FIVE_RUNS))
    page.keyboard.press("/")
    page.keyboard.type("MATMUL  dot")
    page.wait_for_function("() => document.querySelector('.two [data-role=count]').textContent.includes(' of ')")
    settle(page)
    found = rows(page, "operations")
    assert found
    assert [row for row in found if "matmul" not in " ".join(row).lower()] == []
    shown, whole = (page.text_content("[data-view=operations] .two [data-role=count]") or "").split(" of ")
    assert 0 < int(shown) < int(whole) == 671
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.querySelector('.two [data-role=count]').textContent === '671'")
    page.click("[data-filter=compute]")
    compute = profile_of(FIVE_RUNS).to_json()["operations"]["compute"]
    assert page.text_content("[data-view=operations] .two [data-role=count]") == str(compute)


def test_tables_are_sorted_and_only_rows_in_sight_are_elements(opened: Opened) -> None:
    build = ProfileBuilder("long")
    for number in range(30_000):
        build.operation(f"ttnn.op{number % 7}", dram=number * 7919 % 99991)
    page = opened(profile_files.render_html(build.build()))
    table = page.locator('[data-table="operations"]')
    assert table.locator("tbody tr").count() < 120
    assert table.get_attribute("aria-rowcount") == "30001"
    page.locator(".two .scroll").evaluate("element => { element.scrollTop = element.scrollHeight }")
    settle(page)
    assert rows(page, "operations")[-1][0] == "29999"
    page.click('[data-table="operations"] th:nth-child(4) button')
    settle(page)
    changes = [float(row[3].replace(",", "")) for row in rows(page, "operations")]
    assert changes == sorted(changes, reverse=True)


def test_m_goes_to_the_peak_of_a_memory_that_is_empty_at_the_cursor(opened: Opened) -> None:
    # GIVEN L1 in use by one operation only, and DRAM fuller
    build = ProfileBuilder(totals={"DRAM": 1 << 20, "L1": 1 << 20, "L1_SMALL": 1 << 20})
    for number in range(8):
        build.operation("ttnn.add", dram=(number + 1) << 16, l1=4096 if number == 3 else 0, l1_small=0)
    page = opened(profile_files.render_html(build.build()), "#view=map")
    assert cursor(page) == 7
    # WHEN the memory is changed THEN the map shows L1 where it held something, and never a memory that never did
    page.keyboard.press("m")
    assert cursor(page) == 3
    assert (page.text_content("[data-role=map-about]") or "").startswith("L1 before #3 ttnn.add: 4,096 B allocated")
    page.keyboard.press("m")
    assert (page.text_content("[data-role=map-about]") or "").startswith("DRAM before #3 ttnn.add")


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_the_page_uses_the_width_of_the_screen(opened: Opened, width: int) -> None:
    page = opened(text_of(CAPTURE), width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    used = page.evaluate("document.querySelector('[data-view=overview]').getBoundingClientRect().width")
    assert used >= width - 60
    if width == 1920:  # no table is cut at its right edge
        cut = "tables => tables.filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.ariaLabel)"
        assert page.eval_on_selector_all(".scroll", cut) == []


def test_a_run_that_memory_did_not_end_fits(opened: Opened) -> None:
    ended = {"error": "AssertionError", "message": "PCC 0.5 < 0.95", "location": "model.py:286"}
    build = ProfileBuilder(totals={"DRAM": 1 << 20, "L1": 1 << 20}, facts={"ended": ended})
    build.operation("ttnn.add", dram=1 << 16, l1=1 << 19)
    build.fail("AssertionError: PCC 0.5 < 0.95")
    page = opened(profile_files.render_html(build.build()))
    verdict = page.text_content("[data-role=verdict]") or ""
    assert verdict.startswith("Yes. L1 came closest: 50.0% of a bank")
    assert verdict.endswith(" The script ended with AssertionError at model.py:286 (not memory).")
    assert "PCC 0.5 < 0.95" in page.inner_text("[data-role=failure]")
    assert "No known memory failure" not in page.inner_text("body")


def test_the_map_knows_addresses(opened: Opened) -> None:
    profile = profile_of(CAPTURE)
    document = profile.to_json()["memories"]["L1"]
    page = opened(text_of(CAPTURE), "#memory=L1&view=map")
    page.click("[data-memory=L1]")
    page.get_by_role("button", name="To the peak").click()
    settle(page)
    assert cursor(page) == document["peak_at"]["index"]
    text = page.text_content("[data-role=map-about]") or ""
    peak = peaks(profile)["L1"]
    held = len(buffers_in_state(profile, profile.timelines[0], "L1", peak.state))
    assert f"{held} buffers hold" in text
    drawn = page.get_attribute("[data-view=map] canvas", "aria-label") or ""
    assert "free" in drawn


def test_what_is_exported_is_what_is_shown(opened: Opened) -> None:
    profile = profile_of(FIVE_RUNS)
    page = opened(text_of(FIVE_RUNS), accept_downloads=True)
    with page.expect_download() as started:
        page.click("[data-view=weights] button:has-text('CSV')")
    with started.value.path().open(newline="") as file:
        head, *cells = csv.reader(file)
    weights = profile.to_json()["weights"]["entries"]
    assert head[0] == "Weight"
    assert [row[0] for row in cells] == [one["name"] for one in weights]
    with page.expect_download() as started:
        page.click("[data-view=timeline] [aria-label='Save timeline as SVG']")
    assert started.value.path().read_text().startswith("<svg ")
    with page.expect_download() as started:
        page.click("[data-view=tensors] [aria-label$='as PNG']")
    assert started.value.path().read_bytes().startswith(b"\x89PNG")
    page.evaluate("() => { navigator.clipboard.writeText = async text => { window.copied = text } }")
    page.click("[data-view=weights] button:has-text('Copy as Markdown')")
    assert page.evaluate("window.copied").startswith("| Weight | Shape |")


def test_every_story_is_shown_and_hostile_names_stay_text(opened: Opened) -> None:
    for story, make in ALL.items():
        page = opened(profile_files.render_html(make()))
        for key in ("ArrowRight", "n", "m"):
            page.keyboard.press(key)
        settle(page)
        assert page.locator("script").count() == 1
        assert page.locator("img").count() == 0
        text = page.inner_text("body")
        assert "\u202e" not in text
        assert "\x1b" not in text
        assert ("x</script><script>alert(1)</script>" in text) == (story == "hostile")
        page.close()


def test_markup_of_any_kind_in_any_name_is_text(opened: Opened) -> None:
    names = [
        "<img src=x onerror=alert(1)>",
        "{{7*7}}",
        "javascript:alert(1)",
        '"><svg onload=alert(1)>',
        "a\u2066b\u202ec",
        HOSTILE,
    ]
    build = ProfileBuilder(names[0], warnings=names, facts=dict.fromkeys(names, "x"))
    for number, name in enumerate(names):
        build.argument(name, 32, 32, on_device=True)
        with build.program(name):
            build.operation(name, results={f"%{number}": tensor(30, 30)}, location=name, dram=2048 * number)
    page = opened(profile_files.render_html(build.build()))
    assert page.locator("img, svg[onload]").count() == 0
    assert page.text_content("h1") == names[0]
    assert page.eval_on_selector_all("a", "links => links.every(link => link.getAttribute('href').startsWith('#'))")


def test_each_rank_can_be_looked_at(opened: Opened) -> None:
    page = opened(profile_files.render_html(two_ranks()))
    assert page.input_value("[data-role=process]") == "1"  # the fuller one
    page.select_option("[data-role=process]", "0")
    settle(page)
    page.keyboard.press("End")
    settle(page)
    assert page.get_attribute("[data-role=cursor]", "data-bytes") == "1000"


def test_ranks_are_tracks_on_one_scale(opened: Opened) -> None:
    page = opened(profile_files.render_html(two_ranks()), "#view=timeline")
    tracks = page.locator("canvas[aria-label^='Ranks']")
    tracks.scroll_into_view_if_needed()
    told = tracks.get_attribute("aria-label") or ""
    assert "2 ranks, peaks of DRAM: rank 0 1,000 B, rank 1 3,000 B" in told
    # a click on a track looks at that rank at that moment
    box = tracks.bounding_box()
    assert box is not None
    tracks.click(position={"x": box["width"] - 23, "y": 8})
    settle(page)
    assert page.input_value("[data-role=process]") == "0"
    assert page.get_attribute("[data-role=cursor]", "data-bytes") == "1000"


def test_devices_of_a_mesh_are_named(opened: Opened) -> None:
    profile = replace(two_ranks(), facts={"ranks": ["rank 0: mesh 2x4", "rank 1: submesh 1x4 <b>" + "x" * 90]})
    page = opened(profile_files.render_html(profile), width=390)
    names = page.eval_on_selector_all("[data-role=process] option", "all => all.map(one => one.textContent)")
    assert names[0] == "rank 0: mesh 2x4"
    assert names[1].startswith("rank 1: submesh 1x4 <b>")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_fragmentation_is_told_by_tensor(opened: Opened) -> None:
    profile = profile_of(CAPTURE)
    peak = peaks(profile)["DRAM"]
    held = sorted(
        (life.address, life.bytes_per_bank, life.name)
        for life in buffers_in_state(profile, profile.timelines[0], "DRAM", peak.state)
        if life.address is not None
    )
    page = opened(text_of(CAPTURE), "#view=padding&memory=DRAM")
    page.get_by_role("button", name="To the peak").click()
    page.locator("[data-role=fragmentation-about]").scroll_into_view_if_needed()
    settle(page)
    settle(page)
    found = {row[0]: row for row in rows(page, "fragmentation")}
    assert found
    ends = [start + size for start, size, _ in held]
    for before, (start, _, name) in zip(ends, held[1:], strict=False):
        gap = max(0, start - before)
        if name in found:
            assert found[name][3] == mib(gap)
        else:
            assert gap == 0
    gains = [float(row[6]) for row in rows(page, "fragmentation")]
    assert gains == sorted(gains, reverse=True)
    # a log has no addresses, and says so
    page = opened(text_of(FIVE_RUNS), "#view=padding")
    assert "amounts, not addresses" in (page.text_content("[data-role=fragmentation-about]") or "")


@pytest.mark.parametrize(("width", "theme"), [(390, "light"), (1280, "dark")])
def test_it_is_accessible_and_fits_the_screen(opened: Opened, width: int, theme: str) -> None:
    page = opened(text_of(BLACKHOLE_OOM), width=width, color_scheme=theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert problems(page) == []


def test_a_chosen_tensor_is_told_and_marked_everywhere(opened: Opened) -> None:
    page = opened(text_of(CAPTURE))
    document = profile_of(CAPTURE).to_json()
    known = document["memories"][fullest(document)]["consumers"][0]
    assert "Choose a tensor" in (page.text_content("[data-role=why]") or "")
    page.click('[data-table="consumers"] tbody tr:first-child td:first-child a')
    settle(page)
    told = page.inner_text("[data-role=why]")
    assert f"Why is {known['tensor']} alive?" in told
    assert f"{mib(known['bytes_per_bank'])} MiB/bank" in told
    assert f"#{known['alive'][0]} to #{known['alive'][1]}" in told
    if known["producer"]["index"] is not None:
        assert f"#{known['producer']['index']} {known['producer']['name']}" in told
    link = page.evaluate("location.hash")
    assert "tensor=" in link
    assert page.locator('[data-table="consumers"] tr[aria-current]').count() == 1
    # the link opens with the same tensor marked; x takes the mark off
    other = opened(text_of(CAPTURE), link)
    assert f"Why is {known['tensor']} alive?" in other.inner_text("[data-role=why]")
    other.keyboard.press("x")
    settle(other)
    assert "Choose a tensor" in other.inner_text("[data-role=why]")
    assert "tensor=" not in other.evaluate("location.hash")
    other.evaluate("() => { location.hash = '#tensor=99999999' }")
    settle(other)
    assert "Choose a tensor" in other.inner_text("[data-role=why]")


def test_lifetimes_are_stacked_and_a_click_on_one_chooses_it(opened: Opened) -> None:
    page = opened(text_of(CAPTURE), "#view=lifetimes")
    page.click("[data-mode=stacked]")
    settle(page)
    drawing = page.locator("[data-view=lifetimes] canvas")
    box = drawing.bounding_box()
    assert box is not None
    drawing.click(position={"x": box["width"] * 0.9, "y": box["height"] - 26})
    settle(page)
    assert "Why is " in page.inner_text("[data-role=why]")


def test_the_verdict_counts_what_programs_take(opened: Opened) -> None:
    l1 = profile_of(CAPTURE).to_json()["memories"]["L1"]
    share = 100 * l1["peak_with_programs_bytes_per_core"] / l1["bytes_per_bank"]
    page = opened(text_of(CAPTURE))
    assert f"{share:.1f}% of a core" in (page.text_content("[data-role=verdict]") or "")


def test_it_prints(opened: Opened) -> None:
    page = opened(text_of(FIVE_RUNS), color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    paper = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--panel')")
    assert paper.strip() == "#fff" or paper.strip() == "#ffffff"
    assert not page.is_visible(".dock")
    assert page.is_visible('[data-table="weights"]')
    assert len(page.pdf()) > 20_000
