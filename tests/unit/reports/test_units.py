# SPDX-License-Identifier: Apache-2.0
"""Amounts and names, as every report writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.base import formatting
from ttmem.base.formatting import (
    MIB,
    flatten_text,
    format_mib,
    format_mib_number,
    format_operation,
    format_percent,
    format_shape,
    pluralize,
    shorten,
)


def test_amounts() -> None:
    assert format_mib(7_237_272) == "6.902 MiB"
    assert format_mib(1024 * MIB) == "1,024.000 MiB"
    assert format_mib(-300) == "0.000 MiB"  # no minus zero
    assert format_mib(MIB, signed=True) == "+1.000 MiB"
    assert format_mib_number(MIB // 2, decimals=1) == "0.5"


def test_shares() -> None:
    assert (format_percent(81.34), format_percent(None), format_percent(-0.01), format_percent(5.0, signed=True)) == (
        "81.3%",
        "-",
        "0.0%",
        "+5.0%",
    )


def test_shapes() -> None:
    assert format_shape((1, 32, 4, 262144), "float32") == "1x32x4x262144 (f32)"
    assert format_shape((), "bfloat8_b") == "scalar (bfp8)"
    assert format_shape((7,), "float8") == "7 (float8)"


def test_words() -> None:
    assert (pluralize(1, "run"), pluralize(1200, "run")) == ("1 run", "1,200 runs")
    assert (format_operation(3, "ttnn.add"), format_operation(None, "after submit")) == ("#3 ttnn.add", "after submit")


def test_long_names_lose_their_middle() -> None:
    assert shorten("abcdefghij", 10) == "abcdefghij"
    assert shorten("abcdefghijk", 7) == "ab…hijk"
    assert shorten("model.layers.17.self_attn.q_proj.weight", 20) == "model.l…_proj.weight"


@given(st.text(max_size=60), st.integers(1, 40))
def test_short_is_short_and_one_line(text: str, width: int) -> None:
    assert len(shorten(text, width)) <= width
    assert flatten_text(text).isprintable()
    assert flatten_text(flatten_text(text)) == flatten_text(text)


@pytest.mark.parametrize("width", [14, 18, 30])
def test_names_that_begin_and_end_alike_stay_distinct(width: int) -> None:
    numbers = (1, 3, 10, 11, 12)
    names = [f"m.language_model_layers[{n}].feed_forward_intermediate_projection_fc1_weight" for n in numbers]
    cut = formatting.shorten_all([*names, names[0], "x"], width)
    assert len(set(cut)) == 6
    assert cut[-1] == "x"
    assert all(len(text) <= width for text in cut)
    assert [n for n, text in zip(numbers, cut, strict=False) if f"…{n}…" not in text] == []


@given(st.lists(st.text("ab1_.", max_size=40), max_size=8), st.integers(5, 30))
def test_a_column_of_any_names_keeps_its_width(names: list[str], width: int) -> None:
    assert all(len(text) <= width for text in formatting.shorten_all(names, width))
