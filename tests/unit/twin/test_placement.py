# SPDX-License-Identifier: Apache-2.0
"""Shapes, pages and bytes per bank by hand; the oracle tests compare them at random."""

from __future__ import annotations

import pytest

from ttmem.hardware import (
    BFLOAT8_B,
    BFLOAT16,
    DATA_TYPES,
    DRAM,
    FLOAT32,
    L1,
    L1_SMALL,
    UINT8,
    OpenSettings,
    Tile,
    open_board,
)
from ttmem.hardware.data_types import UINT16
from ttmem.twin.placement import compute_paging, place
from ttmem.twin.tensor_spec import (
    ROW_MAJOR,
    TILE,
    CoreRange,
    InvalidSpecError,
    NdShard,
    Shard,
    TensorSpec,
    make_core_grid,
)

N150 = open_board("n150", OpenSettings(l1_small_bytes=32768))
P150 = open_board("p150")


@pytest.mark.parametrize(
    ("shape", "layout", "padded"),
    [
        ((), TILE, (32, 32)),
        ((5,), TILE, (32, 32)),
        ((3, 33, 70), TILE, (3, 64, 96)),
        ((2, 3, 4, 5, 6), TILE, (2, 3, 4, 32, 32)),
        ((0, 32), TILE, (0, 32)),
        ((), ROW_MAJOR, (1,)),
        ((7, 5), ROW_MAJOR, (7, 5)),
    ],
)
def test_only_the_last_two_dimensions_are_padded(shape, layout, padded):
    assert compute_paging(TensorSpec(shape, layout=layout)).padded_shape == padded


def test_interleaved_tiles_and_rows():
    tiles = place(TensorSpec((1, 1, 33, 70), memory=L1), N150)
    assert (tiles.paging.pages, tiles.bytes_per_bank, tiles.banks, tiles.total_bytes) == (6, 2048, 64, 12288)
    rows = place(TensorSpec((100, 3), BFLOAT16, ROW_MAJOR, DRAM), N150)
    assert (rows.paging.page_bytes, rows.aligned_page_bytes, rows.bytes_per_bank) == (6, 32, 288)
    blackhole = place(TensorSpec((100, 3), BFLOAT16, ROW_MAJOR, DRAM), P150)
    assert (blackhole.aligned_page_bytes, blackhole.bytes_per_bank) == (64, 832)


def test_small_tensors_take_a_whole_quantum():
    assert place(TensorSpec((3,), UINT8, ROW_MAJOR, L1), N150).taken_bytes_per_bank == 32
    assert place(TensorSpec((3,), UINT8, ROW_MAJOR, L1), P150).taken_bytes_per_bank == 64


def test_custom_tiles():
    spec = TensorSpec((1, 1, 33, 70), BFLOAT8_B, TILE, L1, tile=Tile(16, 32))
    assert (compute_paging(spec).padded_shape, compute_paging(spec).page_bytes) == ((1, 1, 48, 96), 544)


def test_shards_cost_their_shape_whatever_the_tensor():
    grid = make_core_grid(8, 8)
    height = place(TensorSpec((512, 512), memory=L1, shard=Shard("height", 64, 512, grid)), N150)
    assert (height.bytes_per_bank, height.banks) == (65536, 8)
    rows = place(TensorSpec((10, 20), UINT16, ROW_MAJOR, L1, Shard("width", 10, 5, grid)), N150)
    assert (rows.aligned_page_bytes, rows.bytes_per_bank, rows.banks) == (16, 160, 4)
    assert rows.paging.padded_shape == (10, 20)


def test_nd_shards_may_put_several_on_a_core():
    spec = TensorSpec((5, 64, 64), memory=L1, shard=NdShard((1, 32, 64), make_core_grid(3, 1)))
    placed = place(spec, N150)
    assert (placed.bytes_per_bank, placed.banks) == (4 * 2 * 2048, 3)
    grid = NdShard((32, 64), (CoreRange(2, 2, 4, 7),), distribution="grid_2d")
    assert place(TensorSpec((64, 128), memory=L1, shard=grid), N150).banks == 4


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (TensorSpec((32, 32), BFLOAT8_B, ROW_MAJOR), "Only TILE layout is supported for BFLOAT8_B dtype!"),
        (TensorSpec((32, 32), DATA_TYPES.find("fp8"), TILE), "Only ROW_MAJOR layout is supported for FP8_E4M3 dtype!"),
        (TensorSpec((4,), DATA_TYPES.find("fp8"), ROW_MAJOR), "FP8_E4M3 is not supported on arch wormhole_b0"),
        (TensorSpec((4, 4), DATA_TYPES.find("f64")), "ttnn has no device tensors of type float64"),
        (TensorSpec((32, 32), memory=L1_SMALL), "L1_SMALL only supports sharded allocations, see validate_num_banks"),
        (TensorSpec((32, 32), layout=ROW_MAJOR, tile=Tile(16, 32)), "custom tile configuration is not supported"),
        (TensorSpec((32, 32), tile=Tile(64, 32)), "tile 64x32 is not one of the library's tile shapes"),
        (
            TensorSpec((64, 64), memory=L1, shard=Shard("height", 48, 64, make_core_grid(2, 1))),
            r"Physical shard shape \(48, 64\) must be tile {32, 32} sized!",
        ),
        (
            TensorSpec((64, 64), memory=L1, shard=Shard("height", 32, 96, make_core_grid(2, 1))),
            "Shard width 96 must match physical width 64 for height sharded",
        ),
        (
            TensorSpec((96, 64), memory=L1, shard=Shard("height", 32, 64, make_core_grid(2, 1))),
            "Number of shards along height 3 must not exceed number of cores 2",
        ),
        (
            TensorSpec((64, 64), memory=L1, shard=Shard("width", 32, 32, make_core_grid(2, 1))),
            "Shard height 32 must match physical height 64 for width sharded",
        ),
        (
            TensorSpec((96, 64), memory=L1, shard=Shard("block", 32, 32, make_core_grid(2, 2))),
            "Number of shards along height 3 must not exceed number of rows 2 for row major orientation!",
        ),
        (
            TensorSpec((96, 64), memory=L1, shard=Shard("block", 32, 32, make_core_grid(2, 3), by_column=True)),
            "Number of shards along height 3 must not exceed number of columns 2 for column major orientation!",
        ),
        (
            TensorSpec((64,), UINT16, ROW_MAJOR, L1, Shard("height", 2, 64, make_core_grid(1, 1))),
            "Shard shape must be 1D for 1D tensor!",
        ),
        (
            TensorSpec((64, 64), memory=L1, shard=Shard("height", 32, 64, make_core_grid(9, 1))),
            r"shard core \(8, 0\) has no L1 bank on this device, which has 64 of them",
        ),
        (
            TensorSpec((64, 64), memory=DRAM, shard=Shard("height", 32, 64, make_core_grid(2, 2))),
            r"Invalid DRAM shard grid: shard core \(0, 1\) is not on row 0",
        ),
    ],
)
def test_refusals_carry_the_librarys_reason(spec, reason):
    with pytest.raises(InvalidSpecError, match=reason):
        place(spec, N150)


@pytest.mark.parametrize(
    "build",
    [
        lambda: TensorSpec((1 << 32, 1)),
        lambda: Shard("diagonal", 1, 1, make_core_grid(1, 1)),
        lambda: Shard("height", 0, 32, make_core_grid(1, 1)),
        lambda: NdShard((32, 0), make_core_grid(1, 1)),
        lambda: NdShard((32, 32), make_core_grid(1, 1), distribution="random"),
        lambda: Shard("height", 1, 1, (CoreRange(0, 0, 1, 1), CoreRange(1, 1, 2, 2))),
        lambda: Shard("height", 1, 1, ()),
    ],
)
def test_nonsense_is_refused_when_it_is_written_down(build):
    with pytest.raises(InvalidSpecError):
        build()


def test_specs_that_kill_the_library_are_answered_with_a_warning():
    spec = TensorSpec((4, 0), FLOAT32, ROW_MAJOR, L1, NdShard((1, 4), make_core_grid(2, 1)))
    placed = place(spec, N150)
    assert (placed.bytes_per_bank, placed.taken_bytes_per_bank) == (0, 0)
    assert "kills the process (SIGFPE)" in placed.warnings[0]


def test_a_block_grid_without_elements_is_checked_along_its_width() -> None:
    spec = TensorSpec((0, 33), memory=DRAM, shard=Shard("block", 32, 32, make_core_grid(1, 4), by_column=True))
    with pytest.raises(InvalidSpecError, match="not on row 0"):
        place(spec, N150)
