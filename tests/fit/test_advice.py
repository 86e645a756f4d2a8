# SPDX-License-Identifier: Apache-2.0
"""What would make a model fit is worked out, not recited."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fit.test_playing import mlp
from support.command_line import ROOT, call
from ttmem.fit.advising import advise
from ttmem.fit.playing import play
from ttmem.fit.request import Prediction, Request
from ttmem.fit.stream import WEIGHT, Resident, Stream

MODELS = ROOT / "tests" / "data" / "fit_models.py"


def _typed(stream: Stream, request: Request) -> Stream:
    """The streams of these tests know a batch and a type of weights."""
    dtype = request.weights.get("", "bfloat16")
    residents = [
        replace(one, step={**one.step, "dtype": dtype}) if one.role == WEIGHT else one for one in stream.residents
    ]
    return replace(stream, residents=tuple(residents))


def _predict(request: Request) -> Prediction:
    return play(_typed(mlp(request.batch), request), request)


def test_the_largest_batch_that_fits_is_proposed_and_the_next_one_does_not() -> None:
    # GIVEN a batch whose hidden tensors do not fit
    request = Request("mlp", engine="twin", batch=1200)
    # WHEN advice is asked
    advice = advise(_predict(request), _predict)
    # THEN what fits comes first, and the batch is the largest one
    assert [one.fits for one in advice] == sorted((one.fits for one in advice), reverse=True)
    batch = next(int(one.do.split()[1]) for one in advice if one.do.startswith("--batch"))
    assert _predict(replace(request, batch=batch)).fits
    assert not _predict(replace(request, batch=batch + 1)).fits
    # AND a board with more memory that holds it is named
    board = next(one.do.split()[1] for one in advice if one.do.startswith("--board"))
    assert _predict(replace(request, board=board)).fits


def test_weights_that_are_too_large_are_made_smaller() -> None:
    # GIVEN 14 GB of weights on a board of 12
    huge = Resident("w", WEIGHT, {"alloc": "w", "shape": [70000, 100000], "dtype": "bfloat16", "memory": "DRAM"})

    def predict(request: Request) -> Prediction:
        return play(_typed(Stream("huge", (huge,), ()), request), request)

    advice = advise(predict(Request("huge", engine="twin")), predict)
    first = advice[0]
    assert (first.do, first.fits) == ("weights in bfloat8_b (--weights bfloat8_b)", True)
    assert first.saves_bytes >= 0.45 * 14e9


def test_what_fits_needs_no_advice() -> None:
    assert advise(_predict(Request("mlp", engine="twin")), _predict) == ()


def test_several_boards_are_one_answer(torch_python: str) -> None:
    words = ["--boards", "n150,p150", "--inputs", f"{MODELS}::tokens", "--engine", "twin", "--json"]
    told = call("fit", f"{MODELS}::attention", *words)
    boards = json.loads(told.out)["boards"]
    assert told.code == 0
    assert [(one["board"], one["fits"]) for one in boards] == [("n150", True), ("p150", True)]
    assert boards[0]["peak"]["DRAM"]["bytes_per_bank"] < boards[1]["peak"]["DRAM"]["bytes_per_bank"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--board", "n15000"], "unknown board"),
        (["--board", "quasar"], "refuses every operation"),
        (["--dtype", "int32"], "not computed in int32"),
        (["--weights", "mlp="], "names no data types"),
        (["--size", "0x3"], "no image size"),
        (["--sweep", "batch=0"], "no value"),
    ],
)
def test_what_cannot_be_asked_is_bad_input(words: list[str], told: str) -> None:
    answer = call("fit", f"{MODELS}::attention", "--engine", "twin", "--no-store", *words)
    assert answer.code == 2
    assert told in answer.err
    assert "hint" in answer.err
