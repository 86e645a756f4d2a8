# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT8_B, BFLOAT16, DRAM, L1, open_board
from ttmem.twin.padding import explain_padding
from ttmem.twin.placement import place
from ttmem.twin.tensor_spec import ROW_MAJOR, TILE, NdShard, Shard, TensorSpec, make_core_grid, parse_shape, parse_shard

N150 = open_board("n150")


def test_each_dimension_is_told_what_it_costs():
    # GIVEN the worst tensor of the seeds: two trailing dimensions of one element
    found = explain_padding(TensorSpec((160, 100, 512, 1, 1)), N150)
    # THEN each of them multiplies the rest by 32
    assert found.logical_bytes == 16_384_000
    assert found.padded_bytes == 16_777_216_000
    assert [(d.dimension, d.logical_size, d.padded_size, d.added_bytes) for d in found.dimensions] == [
        (-1, 1, 32, 16_384_000 * 31),
        (-2, 1, 32, 16_384_000 * 32 * 31),
    ]


def test_the_parts_add_up_and_the_cheaper_ways_are_named():
    found = explain_padding(TensorSpec((160, 100, 512, 1, 1)), N150)
    best = found.alternatives[0]
    assert (best.how, best.spec.shape, best.bytes_per_bank) == ("reshape", (16000, 512), 1366016)
    permuted = next(a for a in found.alternatives if a.how == "permute")
    assert (permuted.order, permuted.spec.shape) == ((1, 3, 4, 0, 2), (100, 1, 1, 160, 512))
    rows = next(a for a in found.alternatives if a.how == "row_major")
    assert rows.spec.layout is ROW_MAJOR


def test_nothing_is_cheaper_than_no_padding():
    found = explain_padding(TensorSpec((1, 1, 1536, 512)), N150)
    assert found.dimensions == ()
    assert found.alternatives == ()
    assert found.logical_bytes == found.padded_bytes == found.aligned_bytes == found.reserved_bytes


def test_row_major_pays_per_row_and_all_banks_pay_for_the_fullest():
    found = explain_padding(TensorSpec((13, 3), BFLOAT16, ROW_MAJOR, DRAM), N150)
    assert (found.logical_bytes, found.aligned_bytes, found.reserved_bytes) == (78, 13 * 32, 12 * 64)


@examples(200)
@given(
    st.lists(st.integers(1, 70), max_size=5),
    st.sampled_from([BFLOAT16, BFLOAT8_B]),
    st.sampled_from([DRAM, L1]),
)
def test_added_bytes_are_all_the_padding(shape, dtype, memory):
    spec = TensorSpec(tuple(shape), dtype, TILE, memory)
    found = explain_padding(spec, N150)
    assert sum(d.added_bytes for d in found.dimensions) == found.padded_bytes - found.logical_bytes
    assert found.logical_bytes <= found.padded_bytes <= found.aligned_bytes <= found.reserved_bytes
    for other in found.alternatives:
        assert other.spec.elements == spec.elements
        assert place(other.spec, N150).bytes_per_bank == other.bytes_per_bank


def test_shapes_and_shards_as_people_type_them():
    assert parse_shape("1x96x2176x1920") == (1, 96, 2176, 1920)
    assert parse_shape("[1, 96, 3]") == (1, 96, 3)
    assert parse_shape("scalar") == ()
    assert parse_shard("height:64x512@8x8") == Shard("height", 64, 512, make_core_grid(8, 8))
    assert parse_shard("block:64x32@4x2:col") == Shard("block", 64, 32, make_core_grid(4, 2), by_column=True)
    assert parse_shard("nd:1x32x64@8x1:grid_2d") == NdShard((1, 32, 64), make_core_grid(8, 1), distribution="grid_2d")


@pytest.mark.parametrize("text", ["64x512@8x8", "height:64@8x8", "height:64x512@8x8:up", "height:64x512@0x8", "height"])
def test_shards_that_cannot_be_read(text):
    with pytest.raises(BadInputError):
        parse_shard(text)


def test_shapes_that_cannot_be_read():
    with pytest.raises(BadInputError, match="'1xtwo' is not a shape"):
        parse_shape("1xtwo")
