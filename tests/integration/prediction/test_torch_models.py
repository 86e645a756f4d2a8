# SPDX-License-Identifier: Apache-2.0
"""PyTorch models, traced without weights: small ones of our own, and what twin and real library say of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.command_line import ROOT, call
from ttmem.engines.interpreters import Interpreter
from ttmem.prediction.request import Request
from ttmem.prediction.run_stream import open_for_request, predict_stream
from ttmem.prediction.targets import build_stream

MODELS = ROOT / "tests" / "data" / "fit_models.py"


def _request(model: str, inputs: str = "", **more: Any) -> Request:
    named = f"{MODELS}::{inputs}" if inputs else ""
    return Request(f"{MODELS}::{model}", inputs=named, engine="twin", **more)


def test_a_convolution_keeps_channels_last_and_folds_its_norm(torch_python: str) -> None:
    # GIVEN a stem, two blocks, a concatenation and a head
    stream = build_stream(_request("convolutions", "image"))
    called = [step["call"] for one in stream.calls for step in one.steps if "call" in step]
    # THEN no norm is left, nothing is permuted, and the weights lie on the device as they are prepared
    assert not {"ttnn.batch_norm", "ttnn.permute"} & set(called)
    assert "batch norms are folded into the convolution before them (3 times)" in stream.assumed
    weights = {one.name: one.step["shape"] for one in stream.residents}
    rows, columns = weights["blocks.0.0.weight"][2:]
    assert rows >= 9 * 32
    assert columns == 32
    assert weights["input"] == [1, 1, 64 * 64, 3]


def test_only_what_concerns_the_model_is_assumed(torch_python: str) -> None:
    image, fused, eager = (
        build_stream(_request(*asked, attention=how)).assumed
        for asked, how in (
            (("convolutions", "image"), "fused"),
            (("attention", "tokens"), "fused"),
            (("attention", "tokens"), "eager"),
        )
    )
    assert not [text for text in image if text.startswith("attention")]
    assert "attention is fused (--attention)" in fused
    assert "attention is eager (--attention)" in eager


def test_rows_of_several_sequences_are_never_copied(torch_python: str) -> None:
    # GIVEN eight sequences of 40 tokens, which no tile divides
    stream = build_stream(_request("attention", "tokens", batch=8))
    linear = [one for one in stream.calls if one.name == "ttnn.linear" and one.module == "mlp.0.0"]
    # THEN a layer's product takes them as they are
    assert [step["makes"] for one in linear for step in one.steps] == [[[8, 40, 256]]]


def test_what_the_device_has_not_got_is_named_and_counted(torch_python: str) -> None:
    prediction = predict_stream(build_stream(_request("odd", "as_tensor")), _request("odd"))
    assert prediction.fits
    assert prediction.operations.unknown == 1
    assert prediction.operations.unsupported[0].startswith("cumprod (")


@pytest.mark.parametrize("inputs", ["as_tuple", "as_list", "as_dict"])
def test_inputs_come_in_any_form(inputs: str, torch_python: str) -> None:
    stream = build_stream(_request("odd", inputs))
    assert sum(one.role == "input" for one in stream.residents) == 2


def test_python_frees_later_than_the_last_use(torch_python: str) -> None:
    request = _request("attention", "tokens", batch=64)
    lazy = replace(request, liveness="python")
    early, late = (predict_stream(build_stream(one), one).activations_peak_bytes for one in (request, lazy))
    assert late > early


def test_weights_may_have_a_type_of_their_own(torch_python: str) -> None:
    stream = build_stream(_request("attention", "tokens", weights={"mlp": "bfloat4_b", "": "bfloat8_b"}))
    types = {one.name: one.step["dtype"] for one in stream.residents}
    assert [types[name] for name in ("mlp.0.0.weight", "qkv.0.weight", "qkv.0.bias")] == [
        "bfloat4_b",
        "bfloat8_b",
        "bfloat16",
    ]


def test_a_model_that_refuses_is_bad_input(torch_python: str) -> None:
    told = call("fit", f"{MODELS}::convolutions", "--inputs", f"{MODELS}::tokens", "--engine", "twin", "--no-store")
    assert told.code == 2
    assert "the model does not run" in told.err
    assert "--inputs" in told.err


@pytest.mark.parametrize(
    ("model", "inputs", "more"),
    [
        ("convolutions", "image", {"settings": {"width": 48, "depth": 1}, "size": (33, 50), "batch": 2}),
        ("convolutions", "image", {"settings": {"groups": 32}, "size": (96, 64)}),
        ("attention", "tokens", {"batch": 3}),
        ("attention", "tokens", {"batch": 5, "attention": "eager"}),
    ],
)
def test_twin_and_real_library_agree(
    model: str, inputs: str, more: dict[str, Any], with_ttnn: Interpreter, torch_python: str
) -> None:
    request = _request(model, inputs, torch_python=torch_python, **more)
    stream = build_stream(request)
    twin = predict_stream(stream, request)
    with open_for_request(replace(request, engine="mock")) as engine:
        mock = predict_stream(stream, replace(request, engine="mock"), engine)
    told = [one.profile.to_json()["memories"]["DRAM"]["peak_bytes_per_bank"] for one in (twin, mock)]
    assert twin.fits == mock.fits, mock.profile.to_json()["failure"]
    assert not mock.operations.unsupported
    if not twin.operations.unknown:
        assert told[0] == told[1]
    assert abs(told[0] - told[1]) <= 0.02 * told[1]
