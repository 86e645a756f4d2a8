# SPDX-License-Identifier: Apache-2.0
"""What would make a model fit is worked out, not recited."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ttmem
from support.command_line import ROOT, call
from support.model_configurations import LLAMA_8B
from ttmem.engines.interpreters import Interpreter
from ttmem.prediction.advice import suggest_changes
from ttmem.prediction.request import Prediction, Request, find_demands
from ttmem.prediction.run_stream import predict_stream
from ttmem.prediction.stream import WEIGHT, Resident, Stream
from ttmem.prediction.targets import build_stream
from unit.prediction.test_playing import mlp

MODELS = ROOT / "tests" / "data" / "fit_models.py"


def _typed(stream: Stream, request: Request) -> Stream:
    """The streams of these tests know a batch and a type of weights."""
    dtype = request.weights.get("", "bfloat16")
    residents = [
        replace(one, step={**one.step, "dtype": dtype}) if one.role == WEIGHT else one for one in stream.residents
    ]
    return replace(stream, residents=tuple(residents))


def _predict(request: Request) -> Prediction:
    return predict_stream(_typed(mlp(request.batch), request), request)


def test_the_largest_batch_that_fits_is_proposed_and_the_next_one_does_not() -> None:
    # GIVEN a batch whose hidden tensors do not fit
    request = Request("mlp", engine="twin", batch=1200)
    # WHEN advice is asked
    advice = suggest_changes(_predict(request), _predict)
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
        return predict_stream(_typed(Stream("huge", (huge,), ()), request), request)

    advice = suggest_changes(predict(Request("huge", engine="twin")), predict)
    first = advice[0]
    assert (first.do, first.fits) == ("weights in bfloat8_b (--weights bfloat8_b)", True)
    assert first.saves_bytes >= 0.45 * 14e9


def test_a_length_just_over_a_tile_is_cut_to_whole_tiles() -> None:
    # GIVEN sequences of 33 tokens, which take the rows of 64
    def predict(request: Request) -> Prediction:
        return predict_stream(mlp(request.batch, request.sequence or 32), request)

    request = Request("mlp", engine="twin", batch=16_000, sequence=33)
    advice = {one.do: one for one in suggest_changes(predict(request), predict)}
    assert advice["whole tiles (--seq 32)"].fits
    assert predict(replace(request, sequence=32)).fits


@pytest.mark.parametrize("l1_small_bytes", [0, 256])
def test_a_region_that_is_too_small_is_made_larger_on_the_real_library(
    l1_small_bytes: int, with_ttnn: Interpreter, torch_python: str
) -> None:
    # GIVEN a pool whose tables do not fit into L1_SMALL
    asked: dict[str, Any] = {"inputs": f"{MODELS}::image", "size": (512, 512), "engine": "mock"}
    found = ttmem.fit(f"{MODELS}::convolutions", l1_small_bytes=l1_small_bytes, torch_python=torch_python, **asked)
    assert not found.fits
    # THEN the proposal comes first, and is right
    first = found.advice[0]
    assert (first.do, first.fits) == (f"--l1-small {2048 if l1_small_bytes else 32768}", True)


_LANGUAGE_FIELDS = {
    "users": int, "context": int, "chips": int, "board": str, "kv-cache": str, "prefill-chunk": int,
    "weights": lambda dtype: {"": dtype},
}  # fmt: skip


def _language(request: Request) -> Prediction:
    return predict_stream(build_stream(request), request)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (
            {"phase": "decode", "users": 4, "context": 16384},
            {"--kv-cache", "--weights", "--users", "--context", "--board"},
        ),
        ({"board": "t3k", "chips": 1, "users": 8, "context": 16384}, {"--chips", "--kv-cache --weights", "--users"}),
        ({"context": 40960, "sequence": 40960, "phase": "prefill"}, {"--prefill-chunk", "--weights"}),
    ],
)
def test_what_is_proposed_for_a_language_model_does_what_it_says(
    asked: dict[str, Any], wanted: set[str], tmp_path: Path
) -> None:
    # GIVEN a model that does not fit
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA_8B, "num_hidden_layers": 16, "max_position_embeddings": 1 << 17}))
    request = Request(str(file), engine="twin", **asked)
    before = _language(request)
    assert not before.fits
    # WHEN the options of every proposal are applied
    advice, proposed = suggest_changes(before, _language), set[str]()
    for one in advice:
        options = dict(re.findall(r"--([a-z-]+) (\w+)", one.do))
        fields = {name.replace("-", "_"): _LANGUAGE_FIELDS[name](value) for name, value in options.items()}
        after = _language(replace(request, **({"chips": None} if "board" in fields else {}), **fields))
        # THEN they come to what was said
        assert (after.fits, find_demands(after)["DRAM"].peak_bytes_per_bank) == (one.fits, one.peak_bytes_per_bank), (
            one.do
        )
        proposed.add(" ".join(f"--{name}" for name in options))
    assert wanted <= proposed


def test_what_fits_needs_no_advice() -> None:
    assert suggest_changes(_predict(Request("mlp", engine="twin")), _predict) == ()


@pytest.mark.parametrize("option", ["--boards", "--board"])
def test_several_boards_are_one_answer(option: str, torch_python: str) -> None:
    words = [option, "n150,p150", "--inputs", f"{MODELS}::tokens", "--engine", "twin", "--json"]
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
