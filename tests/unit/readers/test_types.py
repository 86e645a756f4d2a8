# SPDX-License-Identifier: Apache-2.0
"""Tensor types and layouts: storage follows the memref (log-formats 3.5), both layout grammars."""

from __future__ import annotations

import pytest

from ttmem.profile.tensor_type import HOST, TensorType
from ttmem.readers.mlir.syntax import parse_tensor_type


def layout(memref: str, *, grid: str = "<1x1>", tail: str = "", maps: str = "(d0, d1) -> (d0, d1)") -> str:
    return f"#ttnn.ttnn_layout<{maps}, {grid}, memref<{memref}>{tail}>"


DRAM = ", #ttnn.buffer_type<dram>"
L1 = ", #ttnn.buffer_type<l1>"
INTERLEAVED = ", <interleaved>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            f"tensor<77x77xf32, {layout('3x3x!ttcore.tile<32x32, f32>' + DRAM, tail=INTERLEAVED)}>",
            TensorType((77, 77), "float32", "tile", "DRAM", "interleaved", 23716, 36864, 4096, 0),
            id="padding of a tiled tensor",
        ),
        pytest.param(
            f"tensor<1x16x32x128xbf16, {layout('16x4x!ttcore.tile<32x32, bfp_bf8>' + DRAM, tail=INTERLEAVED)}>",
            TensorType((1, 16, 32, 128), "bfloat8_b", "tile", "DRAM", "interleaved", 69632, 69632, 1088, 0),
            id="bfp8 storage behind bf16 elements",
        ),
        pytest.param(
            f"tensor<33x32xbf16, {layout('2x1x!ttcore.tile<32x32, bfp_bf4>' + DRAM, tail=INTERLEAVED)}>",
            TensorType((33, 32), "bfloat4_b", "tile", "DRAM", "interleaved", 594, 1152, 576, 0),
            id="bfp4",
        ),
        pytest.param(
            f"tensor<32x32xbf16, {layout('1x1x!ttcore.tile<32x32, bfp_bf2>' + DRAM, tail=INTERLEAVED)}>",
            TensorType((32, 32), "bfloat2_b", "tile", "DRAM", "interleaved", 320, 320, 320, 0),
            id="bfp2",
        ),
        pytest.param(
            f"tensor<64x64x!ttcore.tile<32x32, bfp_bf8>, "
            f"{layout('2x2x!ttcore.tile<32x32, bfp_bf8>' + DRAM, tail=INTERLEAVED)}>",
            TensorType((64, 64), "bfloat8_b", "tile", "DRAM", "interleaved", 4352, 4352, 1088, 0),
            id="tile as element type (older)",
        ),
        pytest.param(
            f"tensor<10x100xbf16, {layout('10x100xbf16' + DRAM, tail=INTERLEAVED)}>",
            TensorType((10, 100), "bfloat16", "row_major", "DRAM", "interleaved", 2000, 2000, 200, 0),
            id="row major: a page is a row",
        ),
        pytest.param(
            f"tensor<32x1024x1536xbf16, {layout('32768x1536xbf16, #ttnn.buffer_type<system_memory>')}>",
            TensorType((32, 1024, 1536), "bfloat16", "row_major", HOST, "", 100663296, 100663296, 3072, 0),
            id="host",
        ),
        pytest.param(
            f"tensor<bf16, {layout('1x1x!ttcore.tile<32x32, bf16>' + DRAM, tail=INTERLEAVED, maps='() -> (0, 0)')}>",
            TensorType((), "bfloat16", "tile", "DRAM", "interleaved", 2, 2048, 2048, 0),
            id="rank 0",
        ),
        pytest.param(
            "tensor<ui32, #ttnn.trace_id>",
            TensorType((), "uint32", "", "", "", 4, 4, 0, 0),
            id="an encoding that is no layout",
        ),
        pytest.param(
            "tensor<32x32xf32>",
            TensorType((32, 32), "float32", "", "", "", 4096, 4096, 0, 0),
            id="no layout",
        ),
        pytest.param(
            "tensor<512x256xbf16, "
            + layout("2x1x!ttcore.tile<32x32, bf16>" + L1, grid="<8x8>", tail=", <block_sharded>")
            + ">",
            TensorType((512, 256), "bfloat16", "tile", "L1", "block_sharded", 262144, 262144, 2048, 4096),
            id="the memref of a sharded tensor is one shard",
        ),
        pytest.param(
            "tensor<1x1x25088x64xbf16, "
            + layout(
                "13x2x!tt.tile<32x32, bf16>" + L1,
                grid="<61x1, (d0, d1) -> (0, d0 floordiv 8, d0 mod 8)>",
                tail=", <height_sharded>",
                maps="(d0, d1, d2, d3) -> (d0 * 25088 + d1 * 25088 + d2, d3)",
            )
            + ">",
            TensorType((1, 1, 25088, 64), "bfloat16", "tile", "L1", "height_sharded", 3211264, 3248128, 2048, 53248),
            id="old grammar: grid with a map, !tt.tile",
        ),
        pytest.param(
            "tensor<192x64xbf16, "
            + layout("1x1x!ttcore.tile<32x32, bf16>" + L1, grid="<6x2>", tail=", <height_sharded>, exactGrid = true")
            + ">",
            TensorType((192, 64), "bfloat16", "tile", "L1", "height_sharded", 24576, 24576, 2048, 2048),
            id="2025-11 grammar: exactGrid",
        ),
        pytest.param(
            "tensor<32x32xbf16, "
            + layout(
                "1x1x!ttcore.tile<32x32, bf16>" + L1,
                tail=", <block_sharded>, core_ranges = <[#ttnn.core_range<(0, 0), (0, 0)>]>, "
                "ignorePhysicalLayout = true",
            )
            + ">",
            TensorType((32, 32), "bfloat16", "tile", "L1", "block_sharded", 2048, 2048, 2048, 2048),
            id="new grammar: core_ranges",
        ),
        pytest.param(
            "tensor<64x32xbf16, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <2x1>, mesh = <1x2>, "
            "memref<1x1x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<l1>>, <width_sharded>, "
            "core_ranges = <[#ttnn.core_range<(0, 0), (0, 1)>]>>>",
            TensorType((64, 32), "bfloat16", "tile", "L1", "width_sharded", 4096, 4096, 2048, 2048),
            id="new grammar: mesh",
        ),
        pytest.param(
            "tensor<64x64xbf16, #ttnn.ttnn_nd_layout<<2x2>, memref<1x1x!ttcore.tile<32x32, bf16>, "
            "#ttnn.buffer_type<l1>>, <nd_sharded>>>",
            TensorType((64, 64), "bfloat16", "tile", "L1", "nd_sharded", 8192, 8192, 2048, 2048),
            id="nd sharding",
        ),
        pytest.param(
            "tensor<128x64xbf16, " + layout("1x1x!ttcore.tile<32x32, bf16>" + L1, grid="<4x2>", tail=INTERLEAVED) + ">",
            TensorType((128, 64), "bfloat16", "tile", "L1", "interleaved", 16384, 16384, 2048, 0),
            id="L1 interleaved: memref times grid",
        ),
        pytest.param(
            "tensor<1x1x576x64xbf16, "
            + layout(
                "3x1x!tt.tile<32x32, bf16>" + DRAM,
                grid="<8x8>",
                tail=INTERLEAVED,
                maps="(d0, d1, d2, d3) -> (d0 * 576 + d1 * 576 + d2, d3)",
            )
            + ">",
            TensorType((1, 1, 576, 64), "bfloat16", "tile", "DRAM", "interleaved", 73728, 73728, 2048, 0),
            id="old DRAM interleaved with a grid: rounded up per core, the shape bounds it",
        ),
        pytest.param(
            "tensor<32x32xf32, "
            + layout("1x1x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<l1_small>", tail=INTERLEAVED)
            + ">",
            TensorType((32, 32), "float32", "tile", "L1_SMALL", "interleaved", 4096, 4096, 4096, 0),
            id="L1_SMALL",
        ),
        pytest.param(
            f"tensor<32x32xbf16, {layout('1x1x!ttcore.tile<32x32, mx9>' + DRAM, tail=INTERLEAVED)}>",
            TensorType((32, 32), "mx9", "tile", "DRAM", "interleaved", 0, 0, 0, 0),
            id="an unknown type keeps its name and counts nothing",
        ),
    ],
)
def test_tensor_type(text: str, expected: TensorType) -> None:
    assert parse_tensor_type(text.encode()) == expected


@pytest.mark.parametrize(
    ("storage", "tile_bytes"),
    [
        ("f32", 4096),
        ("si32", 4096),
        ("u32", 4096),
        ("bf16", 2048),
        ("f16", 2048),
        ("u16", 2048),
        ("u8", 1024),
        ("bool", 1024),
        ("bfp_f8", 1088),
        ("bfp_bf8", 1088),
        ("bfp_f4", 576),
        ("bfp_bf4", 576),
        ("bfp_f2", 320),
        ("bfp_bf2", 320),
    ],
)
def test_tile_bytes(storage: str, tile_bytes: int) -> None:
    text = f"tensor<32x32xbf16, {layout(f'1x1x!ttcore.tile<32x32, {storage}>' + DRAM, tail=INTERLEAVED)}>"
    found = parse_tensor_type(text.encode())
    assert found is not None
    assert (found.page_bytes, found.padded_bytes) == (tile_bytes, tile_bytes)


@pytest.mark.parametrize("element", ["f32", "si32", "ui32", "i32"])
def test_elements_of_four_bytes(element: str) -> None:
    found = parse_tensor_type(f"tensor<4x8x{element}>".encode())
    assert found is not None
    assert found.logical_bytes == 128


@pytest.mark.parametrize(("element", "size"), [("i1", 1), ("ui8", 1), ("ui16", 2), ("f16", 2), ("i64", 8), ("f64", 8)])
def test_other_elements(element: str, size: int) -> None:
    found = parse_tensor_type(f"tensor<4x8x{element}>".encode())
    assert found is not None
    assert found.logical_bytes == 32 * size


@pytest.mark.parametrize("text", ["!ttnn.device", "!ttnn.global_semaphore", "none", "", "tensor<", "memref<1x1xbf16>"])
def test_what_is_no_tensor(text: str) -> None:
    assert parse_tensor_type(text.encode()) is None


def test_pages_are_dealt_round_robin_over_the_banks() -> None:
    # 9 tiles over 12 banks: one tile in the fullest bank; 13 over 12: two
    for tiles, pages_in_fullest in (("3x3", 1), ("13x1", 2)):
        text = f"tensor<77x77xf32, {layout(f'{tiles}x!ttcore.tile<32x32, f32>' + DRAM, tail=INTERLEAVED)}>"
        found = parse_tensor_type(text.encode())
        assert found is not None
        assert found.bytes_per_bank(12, 32) == pages_in_fullest * 4096


def test_numbers_that_no_column_holds_do_not_break_the_reader() -> None:
    digits = "9" * 5000
    for text in (f"tensor<{digits}x{digits}xbf16>", f"tensor<1xbf16, {layout(f'{digits}x1xbf16' + DRAM)}>"):
        parse_tensor_type(text.encode())
