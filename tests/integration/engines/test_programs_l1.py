# SPDX-License-Identifier: Apache-2.0
"""What programs need in L1, judged by the library's own clash message: region end minus base is what one holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from integration.engines.operator_cells import alloc, call, t
from ttmem.engines.ttnn import TtnnEngine

pytestmark = pytest.mark.oracle

L1_SMALL = 32768
TILE = 2048
BIG = [1, 4, 1024, 1024]
SQUARE = [1, 1, 1024, 1024]

Steps = list[dict[str, Any]]

OPERATIONS: dict[str, tuple[Steps, dict[str, Any]]] = {
    "add": ([alloc("a", BIG, "D")], call("add", t("a"), t("a"))),
    "add with a row": ([alloc("a", BIG, "D"), alloc("b", [1, 1, 1, 1024], "D")], call("add", t("a"), t("b"))),
    "silu": ([alloc("a", BIG, "D")], call("silu", t("a"))),
    "gelu": ([alloc("a", BIG, "D")], call("gelu", t("a"))),
    "typecast": ([alloc("a", BIG, "D")], call("typecast", t("a"), {"dtype": "bfloat8_b"})),
    "where": ([alloc("a", BIG, "D"), alloc("b", BIG, "D")], call("where", t("a"), t("a"), t("b"))),
    "clone": ([alloc("a", BIG, "D")], call("clone", t("a"))),
    "softmax": ([alloc("a", BIG, "D")], call("softmax", t("a"), dim=-1)),
    "mean": ([alloc("a", BIG, "D")], call("mean", t("a"), dim=-1, keepdim=True)),
    "mean over channels": ([alloc("a", BIG, "D")], call("mean", t("a"), dim=1, keepdim=True)),
    "sum": ([alloc("a", BIG, "D")], call("sum", t("a"), dim=-1)),
    "transpose": ([alloc("a", BIG, "D")], call("transpose", t("a"), -2, -1)),
    "permute": ([alloc("a", BIG, "D")], call("permute", t("a"), {"tuple": [0, 2, 1, 3]})),
    "reshape": ([alloc("a", BIG, "D")], call("reshape", t("a"), {"tuple": [1, 4, 512, 2048]})),
    "concat": ([alloc("a", BIG, "D")], call("concat", [t("a"), t("a")], 1)),
    "split": ([alloc("a", BIG, "D")], call("split", t("a"), 512, dim=-1)),
    "repeat": ([alloc("a", BIG, "D")], call("repeat", t("a"), [1, 2, 1, 1])),
    "pad": (
        [alloc("a", BIG, "D")],
        call("pad", t("a"), [{"tuple": pair} for pair in ([0, 0], [0, 0], [0, 32], [0, 32])], 0.0),
    ),
    "topk": ([alloc("a", SQUARE, "D")], call("topk", t("a"), 32, dim=-1)),
    "attention": (
        [alloc("q", [1, 16, 2048, 128], "D")],
        call("transformer.scaled_dot_product_attention", t("q"), t("q"), t("q"), is_causal=True),
    ),
    "group_norm": (
        [alloc("a", [1, 1, 1024, 64], "D")],
        call(
            "group_norm",
            t("a"),
            num_groups=2,
            core_grid={"new": "ttnn.CoreGrid", "kwargs": {"y": 1, "x": 1}},
            inplace=False,
        ),
    ),
    "heads": (
        [alloc("a", [1, 1, 128, 1536], "D")],
        call("experimental.nlp_create_qkv_heads", t("a"), num_heads=8, num_kv_heads=8, transpose_k_heads=False),
    ),
    "matmul": ([alloc("a", SQUARE, "D")], call("matmul", t("a"), t("a"))),
    "linear": (
        [alloc("a", SQUARE, "D"), alloc("c", [1, 1, 1, 1024], "D")],
        call("linear", t("a"), t("a"), bias=t("c")),
    ),
}
ADAPTIVE = {"matmul", "linear"}
"""Smaller programs when L1 is full."""


def filler(free_bytes: int, leave: int = 1024) -> dict[str, Any]:
    """A tensor that takes all of L1 but a little at the bottom, where programs put their buffers."""
    tiles = (free_bytes - leave) // TILE
    return alloc("filler", [32 * 64, 32 * tiles], "L")


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_parts_sum_to_the_region_that_the_library_names(engine: Callable[..., TtnnEngine], name: str) -> None:
    worker = engine(l1_small_bytes=L1_SMALL)
    _, base, l1_bytes = worker.device["pools"]["L1"]
    inputs, operation = OPERATIONS[name]
    # GIVEN an operation that runs while L1 is free
    # WHEN L1 is filled and it is called again
    steps = [*inputs, operation, {"free": "out", "force": False}, filler(l1_bytes), operation]
    *_, free_call, _, _, full_call = worker.ask(steps).answers
    # THEN the library refuses a program, and names where its buffers would have ended
    assert free_call["ok"]
    assert "unmeasured" not in free_call
    assert not full_call["ok"]
    found = re.search(r"clash with L1 buffers.* region ends at (\d+)", full_call["error"], re.DOTALL)
    assert found, full_call["error"]
    region = int(found[1]) - base
    # AND that is what is told of the refused program
    _, *refused = full_call["programs"][-1]
    assert sum(refused) == region
    # AND what was measured of the same program in a free L1, except for operations that choose another one there
    launched = len(full_call["programs"])
    _, *earlier = free_call["programs"][launched - 1]
    assert (sum(earlier) == region) == (name not in ADAPTIVE)


@pytest.mark.parametrize("name", sorted(ADAPTIVE))
def test_an_adaptive_operation_is_measured_in_the_l1_that_it_finds(
    engine: Callable[..., TtnnEngine], name: str
) -> None:
    worker = engine(l1_small_bytes=L1_SMALL)
    l1_bytes = worker.device["pools"]["L1"][2]
    inputs, operation = OPERATIONS[name]
    # GIVEN an L1 with little room left
    steps = [*inputs, operation, {"free": "out", "force": False}, filler(l1_bytes, leave=40 * 1024), operation]
    *_, free_call, _, full, full_call = worker.ask(steps).answers
    left = l1_bytes - full["pages"] // 64 * TILE
    # THEN it runs there with a smaller program, and that is the one we see
    assert full_call["ok"], full_call
    assert "unmeasured" not in full_call
    assert sum(full_call["programs"][0][1:]) <= left < sum(free_call["programs"][0][1:])
    assert sum(full_call["l1"]) <= l1_bytes


def test_families_are_kept_apart(engine: Callable[..., TtnnEngine]) -> None:
    """Circular buffers, dataflow buffers and scratchpads: figures of ttnn 0.81.1."""
    worker = engine(l1_small_bytes=L1_SMALL)
    expected = {"add": (12288, 0, 0), "softmax": (0, 161792, 0), "reshape": (0, 3072, 2048)}
    for name, (circular, dataflow, scratchpads) in expected.items():
        inputs, operation = OPERATIONS[name]
        outcome = worker.ask([*inputs, operation])
        assert outcome.l1_parts == {
            "tensors": 0,
            "circular_buffers": circular,
            "dataflow_buffers": dataflow,
            "scratchpads": scratchpads,
        }


def test_a_cached_program_is_measured_like_a_new_one(engine: Callable[..., TtnnEngine]) -> None:
    inputs, operation = OPERATIONS["softmax"]
    *_, first, second, third = engine(l1_small_bytes=L1_SMALL).ask([*inputs, operation, operation, operation]).answers
    assert first["programs"] == second["programs"] == third["programs"]


def test_tensors_in_l1_count_at_the_moment_of_the_launch(engine: Callable[..., TtnnEngine]) -> None:
    # GIVEN two inputs of 32768 B per bank in L1, and a result of the same size that is there when the program starts
    steps = [alloc("a", SQUARE, "L"), alloc("b", SQUARE, "L"), call("add", t("a"), t("b"))]
    outcome = engine(l1_small_bytes=L1_SMALL).ask(steps)
    assert outcome.l1_parts["tensors"] == 3 * 32768
    assert sum(outcome.l1_parts.values()) == 3 * 32768 + 12288
    assert outcome.peak_bytes_per_bank["L1"] == 3 * 32768


def test_a_convolution_that_frees_its_input_is_measured_all_the_same(engine: Callable[..., TtnnEngine]) -> None:
    # GIVEN a convolution that consumes its input, so that it cannot simply be asked again
    weights = {"host": "w", "shape": [32, 32, 3, 3], "dtype": "float32"}
    options = {
        "in_channels": 32,
        "out_channels": 32,
        "kernel_size": {"tuple": [3, 3]},
        "stride": {"tuple": [1, 1]},
        "padding": {"tuple": [1, 1]},
        "batch_size": 1,
        "input_height": 32,
        "input_width": 32,
        "device": {"device": True},
        "conv_config": {"new": "ttnn.Conv2dConfig", "kwargs": {"deallocate_activation": True}},
    }
    steps = [
        alloc("a", [1, 1, 1024, 32], "L"),
        weights,
        call("conv2d", input_tensor=t("a"), weight_tensor=t("w"), **options),
    ]
    answer = engine(l1_small_bytes=L1_SMALL).ask(steps).answers[-1]
    # THEN every program is known, a sharded move included, which only borrows
    assert answer["ok"], answer
    assert "unmeasured" not in answer
    assert all(need is not None for need in answer["programs"])
    assert any(sum(parts) for _, *parts in answer["programs"])


def test_a_move_of_an_interleaved_tensor_is_measured(engine: Callable[..., TtnnEngine]) -> None:
    """Without dispatch it has nothing to move, so that its program is seen only where it is made."""
    # GIVEN a gap above a tensor, so that there is somewhere to move it, twice
    gap = [alloc("gap", SQUARE, "L"), alloc("a", SQUARE, "L"), {"free": "gap", "force": True}]
    move = call("reallocate", t("a"))
    made, found = (
        answer
        for answer in engine(l1_small_bytes=L1_SMALL)
        .ask([*gap, move, {"free": "out", "force": True}, *gap, move])
        .answers
        if "programs" in answer
    )
    # THEN its circular buffer of two tiles is known, of the cached program too
    for answer in (made, found):
        assert "unmeasured" not in answer
        assert answer["programs"] == [["MoveDeviceOperation/MoveProgramFactory", 2 * TILE, 0, 0]]
