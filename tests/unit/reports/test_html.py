# SPDX-License-Identifier: Apache-2.0
"""The page as a file: offline, harmless, small, and everything that the profile knows is in it.

What a browser makes of it is tried in ``tests/integration/pages``.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.build_profile import ProfileBuilder, tensor
from support.page import Outline, blocks
from support.profile_stories import ALL, HOSTILE, hostile, many_weights, two_layers
from ttmem.analysis.consumers import alive_at_peak
from ttmem.profile.model import MEMORIES, Profile
from ttmem.reports import profile_files
from ttmem.reports.kit import pages
from ttmem.reports.kit.pages import PackedColumns, encode_base64


@pytest.mark.parametrize("story", ALL)
def test_every_page_is_well_formed_and_needs_nothing_from_the_network(story: str) -> None:
    page = profile_files.render_html(ALL[story]())
    outline = Outline(page)
    assert outline.open == []
    assert [attributes.get("id") for tag, attributes in outline.tags if attributes.get("id")] == ["ttmem-report"]
    assert not [tag for tag, attributes in outline.tags if {"src", "href"} & set(attributes)]
    assert not re.search(r"https?://|@import|url\(", page)


def test_only_our_own_script_and_style_may_run() -> None:
    page = profile_files.render_html(two_layers())
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for element, source in (("script", "script-src"), ("style", "style-src")):
        (text,) = re.findall(rf"<{element}>(.*?)</{element}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{source} 'sha256-{digest}'" in policy


def test_text_from_the_source_is_never_markup() -> None:
    page = profile_files.render_html(hostile())
    outline = Outline(page)
    assert [tag for tag, _ in outline.tags].count("script") == 3  # columns, texts, and our own
    assert "alert(1)" not in [tag for tag, _ in outline.tags]
    header = blocks(page)[0].header
    assert header["title"].startswith("x</script><script>alert(1)</script>|")
    assert not [text for text in _texts(header) if not text.isprintable()]


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for item in pair for text in _texts(item)]
    return [text for item in value for text in _texts(item)] if isinstance(value, list) else []


def test_a_reader_without_scripts_gets_the_figures_as_text() -> None:
    text = Outline(profile_files.render_html(two_layers(runs=6, leak_bytes=4096, failed=True))).cells()
    assert "# Memory Profile: two-layers" in text
    assert "Leak: DRAM starts each run" in text


@pytest.mark.parametrize("story", ALL)
def test_every_column_of_the_profile_is_on_the_page(story: str) -> None:
    profile = ALL[story]()
    columns, texts = blocks(profile_files.render_html(profile))
    assert columns.header["document"]["memories"] == pages.clean_text(profile.to_json()["memories"])
    for number, timeline in enumerate(profile.timelines):
        found = {
            "form": timeline.form,
            "line": timeline.line,
            "program": timeline.program,
            "state_kind": timeline.state_kind,
            "operation": timeline.state_operation,
            "cause": timeline.state_cause,
            **{f"view.{memory}": timeline.state_view[:, at] for at, memory in enumerate(MEMORIES)},
        }
        for name, expected in found.items():
            assert columns.columns[f"t{number}.{name}"].tolist() == expected.tolist()
    assert columns.columns["views.allocated"].tolist() == profile.views[:, 2].tolist()
    allocated, lost, scattered = (columns.columns[f"views.{name}"] for name in ("allocated", "lost", "scattered"))
    free = columns.columns["views.total"] - allocated - lost
    assert free.tolist() == profile.views[:, 3].tolist()
    assert (free - scattered).tolist() == profile.views[:, 4].tolist()
    assert texts.texts["forms.location"] == profile.forms.location_pool
    assert texts.columns["forms.values.end"].tolist() == profile.forms.ssa_end.tolist()


def alive_on_page(profile: Profile, memory: str, timeline: int, state: int) -> list[tuple[str, int]]:
    """Return the tensors that the page shows as alive in a state."""
    block = blocks(profile_files.render_html(profile))[0]
    lives = {name.removeprefix("lives."): values for name, values in block.columns.items() if name.startswith("lives.")}
    here = (lives["first_state"] <= state) & (state <= lives["last_state"]) & (lives["timeline"] == timeline)
    rows = np.flatnonzero(here & (lives["memory"] == MEMORIES.index(memory)))
    return sorted((block.header["names"][lives["name"][row]], int(lives["bytes"][row])) for row in rows)


@pytest.mark.parametrize("story", ["two-layers", "failed", "leak", "two-ranks", "hostile"])
def test_the_tensors_of_a_state_are_those_of_the_analysis(story: str) -> None:
    profile = ALL[story]()
    for memory in ("DRAM", "L1"):
        live = alive_at_peak(profile, memory)
        if live is not None and live.total_bytes_per_bank:
            expected = sorted((pages.clean_text(life.name), life.bytes_per_bank) for life in live.tensors)
            assert alive_on_page(profile, memory, live.peak.timeline, live.peak.state) == expected


def test_what_a_run_never_frees_is_there_after_it() -> None:
    build = ProfileBuilder("left")
    with build.program("main"):
        build.operation("ttnn.add", results={"%1": tensor(32, 32)}, dram=0)
        build.operation("ttnn.relu", results={"%2": tensor(32, 32)}, operands={"%1": tensor(32, 32)}, dram=2048)
        build.operation("ttnn.deallocate", operands={"%1": tensor(32, 32)}, dram=4096)
    build.after_submit(dram=2048)
    profile = build.build()
    names = [[name for name, _ in alive_on_page(profile, "DRAM", 0, state)] for state in range(3)]
    assert names == [[], ["%1"], ["%1", "%2"]]


def test_weights_are_there_in_every_run() -> None:
    profile = two_layers(runs=3)
    timeline = profile.timelines[0]
    before_matmul = [
        int(state) for state, operation in enumerate(timeline.state_operation)
        if profile.forms.name_of(int(timeline.form[operation])) == "ttnn.relu"
    ]  # fmt: skip
    assert len(before_matmul) == 3
    for state in before_matmul:
        assert [name for name, _ in alive_on_page(profile, "DRAM", 0, state)] == ["%1", "layers.0.weight"]


def test_large_profiles_make_small_pages() -> None:
    build = ProfileBuilder("large")
    for number in range(20_000):
        build.operation(
            f"ttnn.op{number % 300}",
            results={f"%{number}": tensor(32, 32)},
            location=f"layer.{number}",
            dram=number * 2048 % 999_424,
            l1=number % 1000,
        )
    assert len(profile_files.render_html(build.build())) < 1_000_000
    assert len(profile_files.render_html(many_weights())) < 1_000_000


@given(st.lists(st.integers(-(2**52), 2**52), max_size=60), st.booleans())
def test_columns_come_back_as_they_were(values: list[int], steps: bool) -> None:
    packed = PackedColumns({"name": HOSTILE.replace("\x1b", "")})
    packed.add_integers("column", np.array(values, np.int64), steps=steps)
    text = encode_base64(packed.compress())
    (block,) = blocks(f'<script type="application/octet-stream" data-role="block">{text}</script>')
    assert block.columns["column"].tolist() == values
