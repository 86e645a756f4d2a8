# SPDX-License-Identifier: Apache-2.0
"""The weights of convolutions lie on the device as the real library prepares them."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from ttmem.engines.engine import EngineSettings, open_engine
from ttmem.engines.interpreters import Interpreter
from ttmem.hardware import OpenSettings, open_board
from ttmem.operators.case import Case, CaseTensor
from ttmem.operators.case_program import lower_case
from ttmem.prediction.image_lowering import find_weight_shape
from ttmem.prediction.request import L1_SMALL_BYTES

_DTYPE = "bfloat16"
CASES = int(int(os.environ.get("TTMEM_ORACLE_CASES", "0")) * 0.02) or 25


def _convolution(draw: Random) -> Case:
    groups = draw.choice([1, 1, 1, 2, 8, 0])
    channels = draw.choice([3, 16, 32, 48, 64, 96, 320, 1280])
    made = draw.choice([8, 16, 32, 64, 72, 256, 1280])
    if channels % (groups or channels) or made % (groups or channels):
        groups, made = 0, channels  # depthwise
    groups = groups or channels
    kernel = draw.choice([1, 2, 3, 5, 7])
    batch, side = draw.choice([(1, 7), (1, 14), (2, 28), (1, 56), (1, 33), (1, 112), (8, 14)])
    is_patches = kernel > 1 and draw.random() < 0.3
    shapes = {
        "input": (batch, channels, side, side),
        "weight": (made, channels // groups, kernel, kernel),
        "bias": (made,),
    }
    args = {
        "stride": [kernel if is_patches else draw.choice([1, 2])] * 2,
        "padding": [0 if is_patches else kernel // 2] * 2,
        "dilation": [1, 1],
        "transposed": False,
        "output_padding": [0, 0],
        "groups": groups,
    }
    return Case("convolution", tuple(CaseTensor(shape, _DTYPE, name) for name, shape in shapes.items()), args)


def _in_tiles(shape: Any) -> tuple[int, ...]:
    *outer, rows, columns = shape
    return (*outer, -(-rows // 32), -(-columns // 32))


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_weights_take_the_tiles_that_the_library_prepares(board: str, ttnn_interpreter: Interpreter) -> None:
    # GIVEN convolutions whose weights are on the host, which the library is told to give back as it prepared them
    scripts, known = [], []
    draw, memory_map = Random(board), open_board(board, OpenSettings(L1_SMALL_BYTES, 0))
    cases = [_convolution(draw) for _ in range(CASES)]
    for case in cases:
        recipe = lower_case(case, float_dtype=_DTYPE)
        *earlier, call = (dict(step) for step in recipe.steps)
        known.append(find_weight_shape(call, {one.name: tuple(one.shape) for one in recipe.inputs}, _DTYPE, memory_map))
        kwargs: dict[str, Any] = {**call["kwargs"], "return_weights_and_bias": True}
        scripts.append([*earlier, {**call, "kwargs": kwargs}])
    opened = EngineSettings(
        board=board, l1_small_bytes=L1_SMALL_BYTES, python=ttnn_interpreter.path, measure_programs=False
    )
    # WHEN it runs them
    with open_engine("mock", opened) as engine:
        outcomes = list(engine.ask_all(scripts))
    # THEN they take what the twin said, wherever the call fits
    ran = [
        (said, outcome.answers[-1]["results"][1], case.id)
        for said, outcome, case in zip(known, outcomes, cases, strict=True)
        if outcome.answers and "results" in outcome.answers[-1]
    ]
    different = [
        (said, real["shape"], real["padded"], case)
        for said, real, case in ran
        if said is None or _in_tiles(said) != _in_tiles(real["padded"])
    ]
    assert different == []
    assert len(ran) >= 0.7 * CASES, [outcome.message for outcome in outcomes]
