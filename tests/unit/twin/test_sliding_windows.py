# SPDX-License-Identifier: Apache-2.0
"""Convolutions, poolings and upsampling on the twin: what hand-sized calls take, and where they fail."""

from __future__ import annotations

from typing import Any

import pytest

from ttmem.engines.twin import TwinEngine
from ttmem.failures.outcome import Outcome
from ttmem.twin.operations.conv2d import format_convolution
from ttmem.twin.operations.image_slices import Cut, cut_window, iterate_cuts
from ttmem.twin.operations.sliding_window import (
    Window,
    compute_halo_tables,
    compute_reader_table_width,
    compute_shares,
    count_halo_sticks,
)

IMAGE = {"batch_size": 1, "input_height": 56, "input_width": 56}


def ask(steps: list[dict[str, Any]], board: str = "n150", l1_small_bytes: int = 32768) -> Outcome:
    return TwinEngine(board=board, l1_small_bytes=l1_small_bytes).ask(steps)


def test_a_core_gets_the_rows_that_its_windows_touch() -> None:
    # GIVEN a 3x3 window over 4x4 pixels with a border of one, and two cores that make eight outputs each
    window = Window(1, 4, 4, (3, 3), padding=(1, 1, 1, 1))
    # THEN each needs four of the six padded rows, as far as its last window reaches
    dealt = compute_shares(window, 2, 8)
    assert (dealt.first_stick.tolist(), dealt.last_stick.tolist()) == ([0, 12], [23, 35])
    assert count_halo_sticks(window, 2, 8) == 24
    # AND every row of windows begins anew, because the padding lies between: two numbers per row and two for the block
    assert compute_reader_table_width(window, 2, 8, (8,)) == 2 + 2 * 2


def test_tables_of_a_halo_count_padding_and_transfers() -> None:
    # GIVEN the same, its pixels on two cores
    tables = compute_halo_tables(Window(1, 4, 4, (3, 3), padding=(1, 1, 1, 1)), 2, 8, 8, tiled=False)
    # THEN the first core has padding before, after and between three rows of pixels: four stretches, two per kernel
    assert tables.paddings == (2 * 2 + 2, 2 * 2 + 2)
    # AND it keeps two rows of its own and sends one: of these three the first kernel moves two, on two routes
    assert tables.transfers == (1 + 3 * 2 + 3 * 2, 1 + 3 * 1 + 3 * 1)


def test_slices_of_an_image_overlap_by_the_window() -> None:
    window = Window(1, 64, 64, (3, 3), padding=(1, 1, 1, 1))
    parts = list(iterate_cuts(window, by_height=True, count=3, tiled=True))
    assert parts == [Cut(0, 22, 0, 64), Cut(22, 43, 0, 64), Cut(43, 64, 0, 64)]
    middle = cut_window(window, parts[1], tiled=True)
    assert (middle.height, middle.padding, middle.output_height) == (23, (0, 0, 1, 1), 21)


def test_a_convolution_is_dealt_by_blocks_and_its_tables_stay() -> None:
    # GIVEN 64 channels of 56x56 pixels in L1: eight cores share the channels, eight the pixels
    steps = format_convolution("conv2d", IMAGE, 64, 64, kernel_size=[3, 3], padding=[1, 1], memory="L1")
    # WHEN the twin convolves them
    outcome = ask([*steps, {"view": "L1_SMALL"}])
    # THEN the result is in shards of 13x1 tiles, and the halo's four tables and the reader's one are kept
    assert (outcome.status, outcome.confidence) == ("pass", "exact")
    assert outcome.answers[-1]["allocated"] == 256
    assert outcome.peak_bytes_per_bank["L1"] == 49 * 128 + 8800 + 26624


def test_without_l1_small_no_table_has_a_place() -> None:
    steps = format_convolution("conv2d", IMAGE, 64, 64, kernel_size=[3, 3], padding=[1, 1])
    outcome = ask(steps, l1_small_bytes=0)
    assert (outcome.status, outcome.memory, outcome.confidence) == ("oom", "L1_SMALL", "exact")


@pytest.mark.parametrize(
    ("name", "image", "options", "shape"),
    [
        ("conv2d", IMAGE, {"kernel_size": [1, 1]}, [1, 1, 3136, 32]),
        ("conv2d", IMAGE, {"kernel_size": [4, 4], "stride": [4, 4]}, [1, 1, 196, 32]),
        ("conv2d", IMAGE, {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]}, [1, 1, 784, 32]),
        ("conv_transpose2d", IMAGE, {"kernel_size": [2, 2], "stride": [2, 2]}, [1, 1, 12544, 32]),
        ("conv1d", {"batch_size": 1, "input_length": 500}, {"kernel_size": 5, "stride": 2}, [1, 1, 248, 32]),
    ],
)
@pytest.mark.parametrize("memory", ["DRAM", "L1"])
def test_every_kind_of_convolution_is_exact(
    name: str, image: dict[str, int], options: dict[str, Any], shape: list[int], memory: str
) -> None:
    outcome = ask(format_convolution(name, image, 16, 32, memory=memory, has_bias=True, **options))
    assert (outcome.status, outcome.confidence, outcome.doubt) == ("pass", "exact", "")
    assert outcome.answers[-1]["results"][0]["shape"] == shape


def test_what_does_not_fit_l1_goes_through_it_in_slices() -> None:
    # GIVEN a megapixel of 64 channels: the shards alone are larger than L1
    image = {"batch_size": 1, "input_height": 1024, "input_width": 1024}
    outcome = ask(format_convolution("conv2d", image, 64, 64, kernel_size=[3, 3], padding=[1, 1]))
    # THEN it passes from DRAM, and L1 is used, but not more than there is
    assert (outcome.status, outcome.confidence) == ("pass", "exact")
    assert 0 < outcome.peak_bytes_per_bank["L1"] < 1_360_544


def test_arguments_that_make_no_window_are_refused_with_a_sentence() -> None:
    steps = format_convolution("conv2d", {**IMAGE, "input_height": 2}, 16, 32, kernel_size=[3, 3])
    assert "a kernel of 3x3 does not fit an image of 2x56" in ask(steps).message
    steps = format_convolution("conv2d", IMAGE, 16, 32, kernel_size=[3, 3], padding=[1])
    assert "'padding' must be two or four numbers" in ask(steps).message


def test_weights_that_were_prepared_stay_where_they_are() -> None:
    # GIVEN weights as tiles in DRAM instead of on the host
    steps = format_convolution("conv2d", IMAGE, 64, 64, kernel_size=[1, 1])
    steps[1] = {"alloc": "weight", "shape": [1, 1, 64, 64], "dtype": "bfloat16", "layout": "tile", "memory": "DRAM"}
    outcome = ask([*steps, {"free": "weight"}, {"view": "DRAM"}])
    # THEN nothing but the input and the result is left once they are freed
    assert (outcome.status, outcome.confidence) == ("pass", "exact")
    assert outcome.answers[-1]["allocated"] == 262 * 128 + 17 * 2048
