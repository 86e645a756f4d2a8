# SPDX-License-Identifier: Apache-2.0
"""The batch path says what the scalar path says, row by row."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT16, DATA_TYPES, DRAM, L1, MEMORIES, OpenSettings, open_board
from ttmem.twin.batch import place_table, table_of, table_of_specs
from ttmem.twin.placement import place
from ttmem.twin.tensor_spec import LAYOUTS, TILE, InvalidSpecError, NdShard, Shard, TensorSpec, grid_of

MAPS = {
    board: open_board(board, OpenSettings(l1_small_bytes=32768, trace_region_bytes=1 << 24))
    for board in ("n150", "p100")
}
sizes = st.one_of(st.integers(0, 4), st.sampled_from([16, 31, 32, 33, 64, 96, 100, 128, 1000]))


@st.composite
def specs(draw, memory):
    shape = tuple(draw(st.lists(sizes, max_size=5)))
    if prod(max(size, 32) for size in shape) >= 1 << 31:  # a batch has its limits, and a shard dimension 32 bits
        shape = shape[-2:]
    layout = draw(st.sampled_from(list(LAYOUTS)))
    dtype = draw(st.sampled_from([d for d in DATA_TYPES if d.in_ttnn]))
    shard = None
    if draw(st.booleans()):
        tile = 32 if layout is TILE else 1
        high = max(int(np.prod(shape[:-1], dtype=int)) * (tile if layout is TILE else 1), 1)
        wide = max(-(-(shape[-1] if shape else 1) // tile) * tile, 1)
        columns, rows = draw(st.integers(1, 9)), draw(st.sampled_from([1, 1, 4, 9]))
        kind = draw(st.sampled_from(["height", "width", "block"]))
        height = draw(st.sampled_from([high, -(-high // (columns * rows)), tile, 1]))
        width = draw(st.sampled_from([wide, -(-wide // columns), tile]))
        height = -(-height // tile) * tile if draw(st.integers(0, 5)) else height
        shard = Shard(kind, max(height, 1), max(width, 1), grid_of(columns, rows), draw(st.booleans()))
    return TensorSpec(shape, dtype, layout, memory, shard)


@pytest.mark.parametrize("board", list(MAPS))
@pytest.mark.parametrize("memory", list(MEMORIES))
def test_batch_equals_scalar(board, memory):
    memory_map = MAPS[board]

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(st.lists(specs(memory), min_size=1, max_size=20))
    def compare(batch):
        table = place_table(table_of_specs(batch), memory_map)
        for row, spec in enumerate(batch):
            try:
                one = place(spec, memory_map)
            except InvalidSpecError:
                assert not table.is_valid[row], spec
                assert table.bytes_per_bank[row] == 0
                continue
            assert table.is_valid[row], spec
            assert (
                table.page_bytes[row],
                table.aligned_page_bytes[row],
                table.pages[row],
                table.banks[row],
                table.bytes_per_bank[row],
                table.taken_bytes_per_bank[row],
                table.total_bytes[row],
                table.fits_empty[row],
            ) == (
                one.paging.page_bytes,
                one.aligned_page_bytes,
                one.paging.pages,
                one.banks,
                one.bytes_per_bank,
                one.taken_bytes_per_bank,
                one.total_bytes,
                one.fits_empty,
            ), spec

    compare()


def test_an_array_of_shapes_needs_no_python_objects():
    shapes = np.array([[1, 1, 32, 32], [160, 100, 512, 1]], dtype=np.int64)
    table = place_table(table_of(shapes, BFLOAT16, TILE, DRAM), MAPS["n150"])
    assert table.bytes_per_bank.tolist() == [2048, 43692032]


def test_what_has_no_batch_path_is_refused():
    nd = TensorSpec((64, 64), memory=L1, shard=NdShard((32, 32), grid_of(2, 2)))
    with pytest.raises(BadInputError, match="ND shards have no batch path"):
        table_of_specs([nd])
    with pytest.raises(BadInputError, match="one memory"):
        table_of_specs([TensorSpec((32, 32)), TensorSpec((32, 32), memory=L1)])
    with pytest.raises(BadInputError, match="out of range"):
        place_table(table_of([(1 << 31, 1 << 31)], BFLOAT16, TILE, DRAM), MAPS["n150"])


def test_a_block_grid_without_elements_is_checked_along_its_width():
    spec = TensorSpec((0, 33), memory=DRAM, shard=Shard("block", 32, 32, grid_of(1, 4), by_column=True))
    with pytest.raises(InvalidSpecError, match="not on row 0"):
        place(spec, MAPS["n150"])
    assert not place_table(table_of_specs([spec]), MAPS["n150"]).is_valid[0]
