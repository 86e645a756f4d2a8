# SPDX-License-Identifier: Apache-2.0
"""The largest that fits: never extrapolated, found in few runs, on the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ttmem
from support.model_configurations import LLAMA_8B
from ttmem.base.errors import BadInputError
from ttmem.engines.interpreters import Interpreter
from ttmem.prediction import largest as searching
from ttmem.prediction.language.stream import build_language_stream
from ttmem.prediction.largest import QUANTITIES, TriedValue, find_largest, search_largest
from ttmem.prediction.request import Prediction, Request
from ttmem.prediction.run_stream import open_for_request, predict_stream
from unit.prediction.test_playing import mlp


def _language(request: Request) -> Prediction:
    return predict_stream(build_language_stream(request, {**LLAMA_8B, "num_hidden_layers": 8}), request)


def test_the_largest_context_fits_and_the_next_step_does_not() -> None:
    request = Request("config.json", engine="twin", recipe="tt-transformers:performance", users=4)
    found = search_largest(request, "context", _language)
    by_value = {tried.value: tried.fits for tried in found.tried}
    assert by_value[found.value]
    assert not by_value[found.value + 32]
    assert found.prediction.fits
    assert found.prediction.request.context == found.value
    assert found.prediction.assumed[-1] == searching.ASSUMED
    assert len(found.tried) <= 12


@given(
    limit=st.integers(0, 5000),
    start=st.integers(1, 9000),
    base=st.integers(0, 900),
    bends=st.integers(1, 3),
    most=st.sampled_from([None, 700, 4096]),
)
def test_any_growing_need_is_found_in_few_runs(limit: int, start: int, base: int, bends: int, most: int | None) -> None:
    # GIVEN a need that grows by bends and is over at a limit
    def ask(value: int) -> TriedValue:
        return TriedValue(
            value, value <= limit, base + int(value ** (1 + bends / 3)) if value <= limit else 7, 1_000_000
        )

    # WHEN it is searched from anywhere
    found = find_largest(ask, QUANTITIES["batch"], start, most)
    # THEN it is the limit, or the end of the search
    assert found.value == min(limit, most or 1 << 16)
    assert found.is_limit == (limit < (most or 1 << 16))
    assert len(found.tried) <= 40


@given(limit=st.integers(0, 300), off=st.integers(-3, 3), most=st.sampled_from([None, 64]))
def test_a_limit_that_is_expected_is_confirmed_in_two_runs(limit: int, off: int, most: int | None) -> None:
    found = find_largest(
        lambda value: TriedValue(value, value <= limit, value, limit),
        QUANTITIES["batch"],
        limit + off,
        most,
        is_expected=True,
    )
    assert found.value == min(limit, most or limit)
    if not off or (most and limit > most):
        assert len(found.tried) <= 2
    assert len(found.tried) <= 12


def test_the_real_library_is_asked_where_the_twin_found_the_limit(with_ttnn: Interpreter) -> None:
    # GIVEN an engine of the real library, and how often each is asked
    request, asked = Request("mlp", engine="mock", batch=2), list[tuple[str, int]]()
    with open_for_request(request) as mock:

        def predict(one: Request) -> Prediction:
            asked.append((one.engine, one.batch))
            return predict_stream(mlp(one.batch), one, mock if one.engine == "mock" else None)

        # WHEN the largest batch is searched
        found = search_largest(request, "batch", predict)
    # THEN it needs two runs there, and is what the twin says
    assert [batch for engine, batch in asked if engine == "mock"] == [found.value, found.value + 1]
    assert found.prediction.engine == "mock"
    assert found.is_limit
    assert found.value == search_largest(replace(request, engine="twin"), "batch", predict).value


def test_nothing_fits_is_an_answer_too() -> None:
    config = {**LLAMA_8B, "num_hidden_layers": 64}
    found = search_largest(
        Request("config.json", engine="twin", weights={"": "bfloat16"}),
        "users",
        lambda request: predict_stream(build_language_stream(request, config), request),
    )
    assert (found.value, found.prediction.fits) == (0, False)


def test_what_cannot_be_searched_is_refused_by_name() -> None:
    with pytest.raises(BadInputError, match="cannot search 'chips'") as refused:
        search_largest(Request("x"), "chips", _language)
    assert refused.value.hint == "known: batch, seq, context, users, size"


def test_the_verb_searches(tmp_path: Any) -> None:
    import json

    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA_8B, "num_hidden_layers": 2}))
    found = ttmem.fit(str(file), board="n150", engine="twin", maximum="users", context=8192)
    assert found.to_json()["max"] == {"users": found.largest.value}  # type: ignore[union-attr]
    assert found.fits
