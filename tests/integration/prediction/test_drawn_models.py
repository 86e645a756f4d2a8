# SPDX-License-Identifier: Apache-2.0
"""Models that nobody wrote: blocks are drawn, and twin and real library must say the same of what comes of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from support.command_line import ROOT
from support.examples import examples
from ttmem.engines.engine import Engine
from ttmem.engines.interpreters import Interpreter
from ttmem.prediction.request import Prediction, Request, find_demands
from ttmem.prediction.run_stream import open_for_request, predict_stream
from ttmem.prediction.targets import build_stream

MODELS = ROOT / "tests" / "data" / "drawn_models.py"
BOARDS = ("n150", "p150")
IMAGE = (
    *("Convolution", "Depthwise", "Residual", "Pool", "Join", "Halves", "Gate", "Upsample", "Chain"),
    *("Transposed", "Shuffled", "Spread"),
)
ROWS = (
    *("Linear", "Perceptron", "Attention", "Turn", "Doubled", "Halves", "Chain"),
    *("Signal", "Recurrent", "Normed", "Unbound"),
)
EXAMPLES = int(int(os.environ.get("TTMEM_ORACLE_CASES", "0")) * 0.01) or 15

_NUMBER = st.integers(0, 59)


def _blocks(names: tuple[str, ...], least: int, most: int) -> st.SearchStrategy[list[list[Any]]]:
    return st.lists(st.tuples(st.sampled_from(names), _NUMBER, _NUMBER).map(list), min_size=least, max_size=most)


@st.composite
def _requests(draw: st.DrawFn) -> Request:
    is_image = draw(st.booleans())
    if is_image:
        size = draw(st.sampled_from([(64, 64), (32, 48), (56, 56), (33, 50), (112, 80)]))
        stem = ["Convolution", draw(_NUMBER), draw(_NUMBER)]
        blocks = [stem, *draw(_blocks(IMAGE, 1, 5))]
        if draw(st.booleans()):
            blocks += [[draw(st.sampled_from(["Rows", "Mean"])), 0, 0], *draw(_blocks(ROWS, 1, 2))]
    else:
        size = draw(st.sampled_from([(32, 64), (197, 96), (40, 64), (128, 128), (50, 48), (7, 160)]))
        blocks = draw(_blocks(ROWS, 1, 6))
    return Request(
        f"{MODELS}::drawn",
        draw(st.sampled_from(BOARDS)),
        f"{MODELS}::{'image' if is_image else 'rows'}",
        "twin",
        batch=draw(st.sampled_from([1, 1, 2, 3, 8])),
        size=size,
        attention=draw(st.sampled_from(["fused", "eager"])),
        settings={"blocks": blocks, "is_image": is_image},
    )


@pytest.fixture(scope="module")
def engine_of(
    ttnn_interpreter: Interpreter, torch_python: str, engines_home: Path
) -> Iterator[Callable[[str], Engine]]:
    """One process of the real library for each board."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TTMEM_HOME", str(engines_home))
        patch.setenv("TTMEM_TTNN_PYTHON", ttnn_interpreter.path)
        patch.setenv("TTMEM_TORCH_PYTHON", torch_python)
        engines: dict[str, Engine] = {}

        def find(board: str) -> Engine:
            if board not in engines:
                engines[board] = stack.enter_context(open_for_request(Request("", board, engine="mock")))
            return engines[board]

        yield find


def _told(prediction: Prediction) -> tuple[Any, ...]:
    document = prediction.profile.to_json()
    failed = document["failure"]
    return (
        prediction.fits,
        find_demands(prediction)["DRAM"].peak_bytes_per_bank,
        document["operations"]["by_name"],
        failed and (failed["class"], failed["memory"], failed["operation"]),
        [
            text.partition(": refused")[0] for text in prediction.operations.unsupported
        ],  # each says why in its own words
    )


@examples(EXAMPLES)
@given(request=_requests())
def test_twin_and_real_library_agree_on_any_model(request: Request, engine_of: Callable[[str], Engine]) -> None:
    # GIVEN the calls of a model that was drawn
    engine = engine_of(request.board)
    stream = build_stream(request)
    # WHEN both engines play them
    twin = predict_stream(stream, request)
    mock = predict_stream(stream, replace(request, engine="mock"), engine)
    note(f"{mock.operations}\n{twin.operations}\n{mock.profile.to_json()['failure']}")
    # THEN they say the same of memory, verdict and operations
    assert _told(twin) == _told(mock)
