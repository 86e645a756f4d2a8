# SPDX-License-Identifier: Apache-2.0
"""The summary for people: fits its width, loses nothing without colour."""

from __future__ import annotations

import re

import pytest
from syrupy.assertion import SnapshotAssertion

from support.build_profile import ProfileBuilder, tensor
from support.profile_stories import ALL, hostile, two_layers
from ttmem.reports import profile_text


def test_the_whole_summary_at_eighty_columns(snapshot: SnapshotAssertion) -> None:
    assert profile_text.render_terminal(two_layers(runs=6, leak_bytes=4096, failed=True), width=80) == snapshot


@pytest.mark.parametrize("width", [40, 80, 133])
@pytest.mark.parametrize("story", ALL)
def test_no_line_is_wider_than_the_terminal(story: str, width: int) -> None:
    text = profile_text.render_terminal(ALL[story](), width=width)
    assert max(map(len, text.splitlines()), default=0) <= width
    assert "\x1b" not in text


def test_the_fullest_memory_comes_first() -> None:
    # GIVEN tensors in both memories, and L1 the fuller one
    build = ProfileBuilder(totals={"DRAM": 1 << 20, "L1": 1 << 20})
    build.operation("ttnn.ones", results={"%0": tensor(32, 32)}, dram=0, l1=0)
    build.operation("ttnn.gelu", results={"%1": tensor(320, 320, memory="L1", shard_bytes=4096)}, dram=2048, l1=0)
    build.operation("ttnn.add", operands={"%1": tensor(320, 320, memory="L1")}, dram=2048, l1=4096)
    lines = profile_text.render_terminal(build.build(), width=100).splitlines()
    assert [line for line in lines if line.startswith("Alive at")] == ["Alive at the L1 peak", "Alive at the DRAM peak"]
    assert lines[lines.index("Alive at the L1 peak") + 2].startswith("%1 ")


def test_colour_adds_colour_and_nothing_else() -> None:
    plain, coloured = (
        profile_text.render_terminal(two_layers(failed=True), width=100, color=color) for color in (False, True)
    )
    assert "\x1b[" in coloured
    without = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert [line.rstrip() for line in without.splitlines()] == plain.splitlines()


def test_the_mark_stands_under_the_peak() -> None:
    # GIVEN a single high state among low ones
    build = ProfileBuilder()
    for number in range(200):
        build.operation("ttnn.add", dram=1000 if number == 150 else 100)
    lines = profile_text.render_terminal(build.build(), width=80).splitlines()
    mark = next(line for line in lines if "▲" in line)
    highest = lines[lines.index(mark) - 3]
    assert highest.index("█") == mark.index("▲")
    assert highest.count("█") == 1
    assert "peak before #150 ttnn.add" in mark


def test_nasty_names_cannot_write_to_the_terminal() -> None:
    text = profile_text.render_terminal(hostile(), width=100)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
