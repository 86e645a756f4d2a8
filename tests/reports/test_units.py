# SPDX-License-Identifier: Apache-2.0
"""Amounts and names, as every report writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.reports.kit import units
from ttmem.reports.kit.units import MIB, counted, megabytes, mib, one_line, operation_label, percent, shape_text, short


def test_amounts() -> None:
    assert megabytes(7_237_272) == "6.902 MiB"
    assert megabytes(1024 * MIB) == "1,024.000 MiB"
    assert megabytes(-300) == "0.000 MiB"  # no minus zero
    assert megabytes(MIB, signed=True) == "+1.000 MiB"
    assert mib(MIB // 2, decimals=1) == "0.5"


def test_shares() -> None:
    assert (percent(81.34), percent(None), percent(-0.01), percent(5.0, signed=True)) == ("81.3%", "-", "0.0%", "+5.0%")


def test_shapes() -> None:
    assert shape_text((1, 32, 4, 262144), "float32") == "1x32x4x262144 (f32)"
    assert shape_text((), "bfloat8_b") == "scalar (bfp8)"
    assert shape_text((7,), "float8") == "7 (float8)"


def test_words() -> None:
    assert (counted(1, "run"), counted(1200, "run")) == ("1 run", "1,200 runs")
    assert (operation_label(3, "ttnn.add"), operation_label(None, "after submit")) == ("#3 ttnn.add", "after submit")


def test_long_names_lose_their_middle() -> None:
    assert short("abcdefghij", 10) == "abcdefghij"
    assert short("abcdefghijk", 7) == "ab…hijk"
    assert short("model.layers.17.self_attn.q_proj.weight", 20) == "model.l…_proj.weight"


@given(st.text(max_size=60), st.integers(1, 40))
def test_short_is_short_and_one_line(text: str, width: int) -> None:
    assert len(short(text, width)) <= width
    assert one_line(text).isprintable()
    assert one_line(one_line(text)) == one_line(text)


@pytest.mark.parametrize("width", [14, 18, 30])
def test_names_that_begin_and_end_alike_stay_distinct(width: int) -> None:
    numbers = (1, 3, 10, 11, 12)
    names = [f"m.language_model_layers[{n}].feed_forward_intermediate_projection_fc1_weight" for n in numbers]
    cut = units.shortened([*names, names[0], "x"], width)
    assert len(set(cut)) == 6
    assert cut[-1] == "x"
    assert all(len(text) <= width for text in cut)
    assert [n for n, text in zip(numbers, cut, strict=False) if f"…{n}…" not in text] == []


@given(st.lists(st.text("ab1_.", max_size=40), max_size=8), st.integers(5, 30))
def test_a_column_of_any_names_keeps_its_width(names: list[str], width: int) -> None:
    assert all(len(text) <= width for text in units.shortened(names, width))
