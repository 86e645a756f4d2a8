# SPDX-License-Identifier: Apache-2.0
"""Pages of profiles that nobody draws on purpose: next to nothing in them, far too much, names without an end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import ttmem
from support.build_profile import MIB, ProfileBuilder, tensor
from support.command_line import ROOT
from support.profile_stories import OOM, many_weights, without_operations, without_states
from ttmem.profile.model import Profile
from ttmem.reports import profile_files

from .conftest import Opened
from .test_profile_page import chart_of, cursor, problems, settle

KEYS = "ArrowRight n p m + + - 0 Home End 5 x"


def one_operation() -> Profile:
    build = ProfileBuilder("one")
    build.operation("ttnn.add", results={"%1": tensor(32, 32)}, dram=2048)
    return build.build()


def only_dram() -> Profile:
    build = ProfileBuilder("no L1", banks={"DRAM": 8})
    for number in range(20):
        build.operation("ttnn.add", results={f"%{number}": tensor(32, 32)}, location=f"a.{number}", dram=number * 2048)
    return build.build()


def always_empty() -> Profile:
    build = ProfileBuilder("nothing was ever allocated")
    for _ in range(5):
        build.operation("ttnn.add", dram=0, l1=0, l1_small=0, trace=0)
    return build.build()


def full_to_the_last_byte() -> Profile:
    build = ProfileBuilder("full", totals={"DRAM": 4096 * MIB})
    for number in range(9):
        build.operation("ttnn.add", dram=number * 512 * MIB, l1=number * MIB // 8)
    build.fail(OOM)
    return build.build()


def sixteen_ranks() -> Profile:
    build = ProfileBuilder("ranks")
    for rank in range(16):
        build.rank(rank)
        with build.program("main"):
            for number in range(rank * 3):
                build.operation("ttnn.add", results={f"%{number}": tensor(64, 64)}, dram=number * rank * 1024, l1=rank)
    return build.build()


def forty_programs() -> Profile:
    build, held = ProfileBuilder("programs"), 0
    for number in range(40):
        with build.program(f"graph_{number}"):
            build.operation("ttnn.matmul", results={"%1": tensor(64, 32 * number + 32)}, dram=held, l1=0)
            with build.program(f"inner_{number}"):
                build.operation("ttnn.relu", results={"%2": tensor(64, 64)}, dram=held + 2048, l1=64)
            build.operation("ttnn.deallocate", operands={"%1": tensor(64, 32 * number + 32)}, dram=held + 4096, l1=0)
        held += 512
    return build.build()


def endless_names() -> Profile:
    name = "model." + "layer_norm_with_a_name_that_never_ends." * 130
    build = ProfileBuilder(name[:5000], warnings=[name], facts={name: name})
    build.argument(name, 64, 64, on_device=True)
    with build.program(name):
        for number in range(30):
            build.operation(name, results={f"%{number}": tensor(64, 64)}, location=name, dram=number * 8192, l1=0)
    build.fail(f"{OOM} {name}")
    return build.build()


ODD: dict[str, Callable[[], Profile]] = {
    "nothing at all": lambda: ProfileBuilder("").build(),
    "states without operations": without_operations,
    "operations without states": without_states,
    "one operation": one_operation,
    "only DRAM": only_dram,
    "always empty": always_empty,
    "full": full_to_the_last_byte,
    "sixteen ranks": sixteen_ranks,
    "forty programs": forty_programs,
    "endless names": endless_names,
    "many weights": lambda: many_weights(300),
}


@pytest.mark.parametrize("story", ODD)
def test_every_view_answers(opened: Opened, story: str) -> None:
    page = opened(profile_files.render_html(ODD[story]()), width=390, color_scheme="dark")
    for key in KEYS.split():
        page.keyboard.press(key)
    for width in (1024, 700, 390):
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    text = page.inner_text("body")
    for nonsense in ("NaN", "undefined", "Infinity", "[object", "null"):
        assert nonsense not in text, nonsense
    # A heading without a word below it leaves its reader alone.
    empty = "views => views.filter(v => v.innerText.trim().split('\\n').length < 2).map(v => v.dataset.view)"
    assert page.eval_on_selector_all("[data-view]", empty) == []
    # Between buttons stands nothing that is no button.
    stray = "rows => rows.flatMap(row => [...row.childNodes]).filter(n => n.nodeType === 3).map(n => n.data)"
    assert page.eval_on_selector_all(".choices", stray) == []
    assert problems(page) == []


@pytest.mark.parametrize("story", ["one operation", "sixteen ranks", "forty programs", "endless names"])
def test_links_and_exports_work_there_too(opened: Opened, story: str) -> None:
    page = opened(profile_files.render_html(ODD[story]()), "#op=0&view=where", accept_downloads=True)
    assert cursor(page) == 0
    page.click("[data-mode=stacked]")
    settle(page)
    for view in ("timeline", "tensors", "lifetimes", "map"):
        buttons = page.locator(f"[data-view={view}] [aria-label$='as SVG']:visible")
        for number in range(buttons.count()):
            with page.expect_download() as started:
                buttons.nth(number).click()
            assert started.value.path().read_text("utf-8").startswith("<svg ")


@pytest.mark.parametrize(
    "log", sorted((ROOT / "tests" / "data" / "logs" / "real").glob("*.log")), ids=lambda path: path.stem
)
def test_logs_that_were_really_posted(opened: Opened, log: Path) -> None:
    try:
        profile = ttmem.read(log)
    except ttmem.TtmemError:
        return  # no line of a device is in it; the verbs say so
    page = opened(profile_files.render_html(profile))
    for key in KEYS.split():
        page.keyboard.press(key)
    settle(page)
    failure = profile.to_json()["failure"]
    assert page.locator("[data-role=failure]").count() == (failure is not None)


def test_brush_to_one_operation_of_many(opened: Opened) -> None:
    """Dragging again and again ends at one operation, and the cursor's word follows."""
    page = opened(profile_files.render_html(only_dram()))
    for _ in range(4):
        box = chart_of(page)
        page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.62, box["y"] + 60, steps=3)
        page.mouse.up()
        settle(page)
    asked = dict(part.split("=") for part in page.evaluate("location.hash.slice(1)").split("&"))
    assert int(asked["to"]) - int(asked["from"]) == 1


def test_a_button_leads_from_the_peak_to_the_failure(opened: Opened) -> None:
    build = ProfileBuilder("freed too late", totals={"DRAM": 4096 * MIB})
    for held in (512, 3072, 1024, 1024):
        build.operation("ttnn.add", dram=held * MIB, l1=0)
    build.fail(OOM)
    page = opened(profile_files.render_html(build.build()), "#view=map")
    assert cursor(page) == 1
    page.click("[data-view=map] button:has-text('To the failure')")
    assert cursor(page) == 3
    assert page.locator("[data-view=map] button:has-text('To the failure')").count() == 0
    page.click("[data-view=timeline] button:has-text('To the peak')")
    assert cursor(page) == 1
