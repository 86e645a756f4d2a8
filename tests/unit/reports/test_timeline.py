# SPDX-License-Identifier: Apache-2.0
"""Drawings are smaller than histories, and the peak is always in them."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.build_profile import MIB, ProfileBuilder
from support.profile_stories import two_layers
from ttmem import TtmemError
from ttmem.reports.profile_timeline import downsample, find_column_peaks, read_series, render_svg

VALUES = st.lists(st.integers(0, 10**9), min_size=1, max_size=300).map(lambda values: np.array(values, dtype=np.int64))


@given(VALUES, st.integers(2, 50))
def test_downsampling_keeps_first_peak_and_floor(values: np.ndarray, most: int) -> None:
    kept = downsample(values, most)
    assert len(kept) <= most or len(kept) == len(values) <= most
    assert kept.tolist() == sorted(set(kept.tolist()))
    assert int(values.argmax()) in kept
    assert int(values.argmin()) in kept


@given(VALUES, st.integers(1, 50))
def test_columns_keep_the_peak(values: np.ndarray, columns: int) -> None:
    heights = find_column_peaks(values, columns)
    assert len(heights) == min(columns, len(values))
    assert heights.max() == values.max()


def test_submit_states_stand_between_operations() -> None:
    build = ProfileBuilder()
    build.before_submit(dram=1)
    build.operation("ttnn.add", dram=2)
    build.operation("ttnn.add")  # no block
    build.operation("ttnn.add", dram=3)
    build.after_submit(dram=4)
    found = read_series(build.build(), 0, "DRAM")
    assert (found.operation.tolist(), found.allocated.tolist()) == ([0, 0, 2, 3], [1, 2, 3, 4])


def test_ticks_of_a_drawing() -> None:
    build = ProfileBuilder(totals={"DRAM": 1000 * MIB})
    with build.program("main"):
        for level in (0, 10, 40, 0, 20):
            build.operation("ttnn.add", dram=level * MIB)
    labels = texts(render_svg(build.build()))
    assert [label for label in labels if label.startswith("#")] == ["#0", "#1", "#2", "#3", "#4"]
    assert [label for label in labels if label.isdigit()] == ["0", "10", "20", "30", "40"]


def test_long_histories_are_drawn_with_few_points() -> None:
    build = ProfileBuilder()
    for number in range(9000):
        build.operation("ttnn.add", dram=number * 7919 % 1000 + (5000 if number == 4321 else 0))
    drawn = render_svg(build.build())
    assert len(re.findall("H", drawn)) < 2 * 2000
    assert "before #4321" in drawn


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=20), st.integers(1, 10**12))
@example(levels=[4 * MIB + 1024], total=10**12)  # a little above a round number: the axis has one tick more
def test_a_chart_can_always_be_drawn(levels: list[int], total: int) -> None:
    build = ProfileBuilder(totals={"DRAM": total})
    for level in levels:
        build.operation("ttnn.add", dram=level)
    drawn = render_svg(build.build())
    paths = re.findall(r' d="([^"]*)"', drawn)
    assert paths
    assert not [path for path in paths if "nan" in path or "inf" in path]


def texts(drawn: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]


def test_a_memory_drawn_alone() -> None:
    profile = two_layers(runs=3)
    root = ElementTree.fromstring(render_svg(profile, "dram"))
    assert root.attrib["aria-label"].startswith("DRAM over operations, peak ")
    assert len(root.findall("{http://www.w3.org/2000/svg}path")) == 2, "a filled area and its line"
    with pytest.raises(TtmemError, match="has no states of SRAM"):
        render_svg(profile, "SRAM")
