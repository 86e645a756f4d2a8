# SPDX-License-Identifier: Apache-2.0
"""The catalogue's word against the real library: every operator that claims to run is called."""

from __future__ import annotations

import pytest

from ttmem.engines.ttnn import TtnnEngine
from ttmem.operators.case import Case, CaseTensor
from ttmem.operators.case_program import CaseProgram, lower_case
from ttmem.operators.catalogue_entries import DEVICE, catalogue

pytestmark = pytest.mark.oracle

EXAMPLES = [operator.example_case() for operator in catalogue().operators.values() if operator.support == DEVICE]
VARIANTS = [
    # ways to call that no example takes
    Case("add", (CaseTensor((32, 64)), CaseTensor((32, 64))), {"alpha": 2}),
    Case("add", (CaseTensor((32, 64)),), {"other": 1.0, "alpha": 1}),
    Case("add_", (CaseTensor((32, 64)), CaseTensor((32, 64))), {"alpha": 0.5}),
    Case("div", (CaseTensor((32, 64)), CaseTensor((32, 64))), {"rounding_mode": "floor"}),
    Case("bitwise_not", (CaseTensor((32, 64), "bool"),)),
    Case("bitwise_and", (CaseTensor((32, 64), "bool"), CaseTensor((32, 64), "bool"))),
    Case("bitwise_or", (CaseTensor((32, 64), "bool"), CaseTensor((32, 64), "bool"))),
    Case("squeeze", (CaseTensor((1, 32, 1, 64)),), {"dim": None}),
    Case("constant_pad_nd", (CaseTensor((1, 32, 32, 32)),), {"pad": [1, 1, 1, 1], "value": 0.0}),
    Case("max", (CaseTensor((32, 64)),)),
    Case("max", (CaseTensor((32, 64)), CaseTensor((32, 64)))),
    Case("pow", (CaseTensor((32, 64), name="self"), CaseTensor((32, 64), name="exponent"))),
    Case("cat", (CaseTensor((32, 64)), CaseTensor((0,)), CaseTensor((32, 64))), {"dim": 0}),
    Case("linear", (CaseTensor((1, 64, 32)), CaseTensor((96, 32)), CaseTensor((96,)))),
    Case("bmm", (CaseTensor((12, 64, 32)), CaseTensor((12, 32, 64)))),
    Case(
        "scaled_dot_product_attention",
        (
            *(CaseTensor((1, 4, 64, 64), name=name) for name in ("query", "key", "value")),
            CaseTensor((1, 1, 64, 64), name="attn_mask"),
        ),
        {"is_causal": False},
    ),
    Case(
        "convolution",
        (CaseTensor((1, 32, 64)), CaseTensor((32, 32, 3))),
        {"stride": [1], "padding": [1], "dilation": [1], "transposed": False, "output_padding": [0], "groups": 1},
    ),
    Case(
        "convolution",
        (CaseTensor((1, 64, 16, 16)), CaseTensor((64, 32, 2, 2)), CaseTensor((32,))),
        {
            "stride": [2, 2],
            "padding": [0, 0],
            "dilation": [1, 1],
            "transposed": True,
            "output_padding": [0, 0],
            "groups": 1,
        },
    ),
    Case(
        "convolution",
        (CaseTensor((1, 64, 16, 16)), CaseTensor((64, 1, 3, 3))),
        {
            "stride": [1, 1],
            "padding": [1, 1],
            "dilation": [1, 1],
            "transposed": False,
            "output_padding": [0, 0],
            "groups": 64,
        },
    ),
]


def _ask(engine: TtnnEngine, recipes: list[CaseProgram]) -> list[str]:
    """The problems, in words; none is what the catalogue promises."""
    outcomes = engine.ask_all([recipe.steps for recipe in recipes], stop=True)
    return [
        f"{recipe.case.id}: {outcome.status} {outcome.message}"
        for recipe, outcome in zip(recipes, outcomes, strict=True)
        if not outcome.ok
    ]


@pytest.mark.parametrize("memory", ["DRAM", "L1"])
def test_every_example_runs(engine: TtnnEngine, memory: str) -> None:
    assert len(EXAMPLES) > 150
    assert _ask(engine, [lower_case(case, memory=memory) for case in EXAMPLES]) == []


@pytest.mark.parametrize("memory", ["DRAM", "L1"])
def test_every_other_way_to_call_runs(engine: TtnnEngine, memory: str) -> None:
    assert _ask(engine, [lower_case(case, memory=memory) for case in VARIANTS]) == []


def test_all_ways_to_call_were_tried() -> None:
    tried = {(case.op, lower_case(case).variant.call) for case in (*EXAMPLES, *VARIANTS)}
    known = {
        (operator.aten, variant.call)
        for operator in catalogue().operators.values()
        for variant in operator.variants
        if variant.call.startswith(("ttnn", "["))
    }
    missing = {aten for aten, _ in known - tried}
    assert missing == {"sub"}, "sub differs from add in its name alone"


def test_examples_also_run_in_rows_unless_the_library_refuses_rows(engine: TtnnEngine) -> None:
    recipes = [lower_case(case, layout="row_major") for case in EXAMPLES]
    outcomes = engine.ask_all([recipe.steps for recipe in recipes], stop=True)
    refused = {recipe.case.op for recipe, outcome in zip(recipes, outcomes, strict=True) if not outcome.ok}
    assert refused == {"add_", "mul_", "div_", "floor_divide", "where", "addcmul", "cumsum"}


def test_a_result_is_where_it_was_asked_for(engine: TtnnEngine) -> None:
    """Elementwise, matrix and movement calls pass the memory on; where a pool's result lies is its own choice."""
    kinds = ("unary", "binary", "matmul", "reduction", "creation")
    recipes = [lower_case(case, memory="L1") for case in EXAMPLES if catalogue().operators[case.op].kind in kinds]
    wrong = []
    for recipe, outcome in zip(recipes, engine.ask_all([r.steps for r in recipes], stop=True), strict=True):
        told = [answer for answer in outcome.answers if "results" in answer]
        if any(result["memory"] != "L1" for result in told[-1]["results"]):
            wrong.append(recipe.case.op)
    assert wrong == []
