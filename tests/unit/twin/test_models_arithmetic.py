# SPDX-License-Identifier: Apache-2.0
"""Products, norms, attention and reductions on the twin: hand-sized calls, with the figures that the library gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ttmem.hardware import BFLOAT8_B, BFLOAT16, DRAM, FLOAT32, INT32, L1, open_board
from ttmem.twin.operations import Plan
from ttmem.twin.operations.matmul_blocks import COLUMN, GRID, ROW, SIMPLE, Product, Sums, choose_blocks
from ttmem.twin.operations.plan import Allocate, Call, Free, Launch, Refuse
from ttmem.twin.operations.registry import plan_call
from ttmem.twin.tensor_spec import TILE, TensorSpec

N150 = open_board("n150")
EMPTY = N150.l1.bytes_per_bank


def tensor(*shape: int, dtype: Any = BFLOAT16, memory: Any = DRAM) -> TensorSpec:
    return TensorSpec(shape, dtype, TILE, memory)


def plan(name: str, *inputs: TensorSpec, keywords: tuple[str, ...] = (), space: int = 0, **arguments: Any) -> Plan:
    """``space``: where the lowest tensor of L1 begins, counted from L1's base; 0: there is none."""
    lowest = (lambda steps: N150.l1_base_address + space) if space else None
    return plan_call(Call(name, inputs, arguments, keywords=keywords), N150, lowest)


def static(found: Plan) -> list[tuple[int, ...]]:
    return [step.buffer_bytes for step in found.steps if isinstance(step, Launch)]


def product(height: int, depth: int, width: int, *, batches: tuple[int, int] = (1, 1), in_dram: bool = True) -> Product:
    return Product(
        height, depth, width, *batches, BFLOAT16, BFLOAT16, BFLOAT16, None, False, in_dram, Sums(False, True)
    )


@pytest.mark.parametrize(
    ("work", "kind"),
    [
        (product(32, 32, 32), GRID),
        (product(1, 24, 96), ROW),  # much wider than high
        (product(4121, 6, 6), COLUMN),  # much higher than wide
        (product(7, 2, 7, batches=(1, 12)), COLUMN),  # one first matrix for all
        (product(40, 1, 3, in_dram=False), COLUMN),  # the blocks of one column of cores
        (product(300, 2, 300, in_dram=False), SIMPLE),  # more blocks than cores
    ],
)
def test_the_shape_of_a_product_chooses_its_program(work: Product, kind: str) -> None:
    assert choose_blocks(work, 8, 8, EMPTY).kind == kind


def test_blocks_shrink_with_what_is_left_of_l1() -> None:
    # GIVEN 65 rows of 6 tiles per core, and a bias WHEN L1_SMALL takes its part THEN fewer tiles are computed at a time
    work = replace(product(4121, 6, 6), bias=BFLOAT16)
    chosen = [choose_blocks(work, 8, 8, space) for space in (EMPTY, EMPTY - 32768, 10_000)]
    assert [(one.height, one.width, one.depth) for one in chosen] == [(65, 3, 2), (65, 2, 2), (1, 1, 2)]


def test_a_bias_is_fused_in_dram_and_added_elsewhere() -> None:
    in_dram = plan("linear", tensor(64, 64), tensor(64, 64), tensor(1, 64), keywords=("bias",))
    assert static(in_dram) == [(4096, 4096, 2048, 2048)]
    in_l1 = plan("linear", tensor(64, 64, memory=L1), tensor(64, 64), tensor(1, 64), keywords=("bias",))
    assert [type(step) for step in in_l1.steps] == [Allocate, Launch, Allocate, Launch, Free]


def test_a_norm_streams_rows_that_do_not_fit_and_gives_up_below_its_least() -> None:
    narrow, wide = tensor(32, 64), tensor(32, 32768)
    assert sum(static(plan("layer_norm", narrow))[0]) == 118_784 - 4096  # without the accumulator of streams
    assert sum(static(plan("layer_norm", wide))[0]) < EMPTY
    *_, last = plan("layer_norm", narrow, space=100_000).steps
    assert isinstance(last, Refuse)
    assert last.message.startswith("LayerNorm streaming circular buffers require 118784 bytes, but only 95000 bytes")


def test_attention_of_a_vision_transformer() -> None:
    heads = tensor(1, 12, 197, 64)
    found = plan("transformer.scaled_dot_product_attention", heads, heads, heads, is_causal=False)
    # 84 chunks on 64 cores: queries twice; keys are padded, and their last tile is partial
    assert static(found) == [(8192, 8192, 8192, 4096, *[2048] * 3, 2048, 4096, 4096, *[2048] * 5, 8192)]


def test_cores_that_share_a_head_gather_what_they_found() -> None:
    query, cache = tensor(1, 1, 8, 64), tensor(1, 1, 1024, 64)
    (buffers,) = static(plan("transformer.scaled_dot_product_attention_decode", query, cache, cache, cur_pos=[0]))
    assert buffers[-2:] == (63 * 4 * 1024, 4096)


def test_sums_of_two_bytes_are_carried_in_four_and_tall_ones_are_cut_in_slices() -> None:
    both = plan("sum", tensor(2, 3, 50, 70), dim=[2, 3], keepdim=True)
    made = [step.spec.dtype for step in both.steps if isinstance(step, Allocate)]
    assert made == [FLOAT32, BFLOAT16]
    tall = plan("sum", tensor(1, 1, 2048, 64), dim=-2, keepdim=True)
    assert static(tall) == [(16384, 2048, 8192), (8192, 4096, 2048, 8192, 4096, 4096)]
    assert next(step.spec.shape for step in tall.steps if isinstance(step, Allocate)) == (1, 1, 32, 64)
    greatest = plan("max", tensor(1, 1, 2048, 64, dtype=BFLOAT8_B), dim=-2, keepdim=True)
    assert static(greatest) == [(2176, 2048, 2176)]


def test_topk_gives_values_and_indices() -> None:
    found = plan("topk", tensor(1, 1029), k=300)
    assert [(spec.shape, spec.dtype.name) for _, spec in found.results] == [
        ((1, 300), "bfloat16"),
        ((1, 300), "uint16"),
    ]


@pytest.mark.parametrize(
    ("name", "source", "arguments", "message"),
    [
        ("batch_norm", tensor(64, 32, 32), {}, "rank < 4. (rank=3)"),
        ("softmax", tensor(64, 64, dtype=INT32), {"dim": -1}, "got: DataType::INT32"),
        ("argmax", tensor(64, 64), {}, "dim parameter must be specified!"),
        ("var", tensor(50, 50, dtype=INT32), {}, "for Std/Var reduction - got DataType::INT32"),
    ],
)
def test_what_is_refused_is_refused_in_the_library_s_words(
    name: str, source: TensorSpec, arguments: dict[str, Any], message: str
) -> None:
    *_, last = plan(name, source, **arguments).steps
    assert isinstance(last, Refuse)
    assert message in last.message
