# SPDX-License-Identifier: Apache-2.0
"""Models that do what tutorials do not: they are traced all the same, and what had to be taken for granted is told."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from support.command_line import ROOT, call, environment
from support.model_configurations import LLAMA_8B
from ttmem.base import toml
from ttmem.engines.interpreters import Interpreter
from ttmem.prediction.request import Prediction, Request, find_demands
from ttmem.prediction.run_stream import predict_stream
from ttmem.prediction.targets import build_stream

MODELS = ROOT / "tests" / "data" / "unusual_models.py"


def _request(model: str, inputs: str) -> Request:
    return Request(f"{MODELS}::{model}", inputs=f"{MODELS}::{inputs}", engine="twin")


def _predicted(model: str, inputs: str) -> Prediction:
    request = _request(model, inputs)
    return predict_stream(build_stream(request), request)


def test_containers_of_any_kind_are_looked_into(torch_python: str) -> None:
    # GIVEN inputs in a kind of dict that is none, and a dataclass as the answer
    stream = build_stream(_request("contained", "containers"))
    # THEN every tensor in them counts
    assert sorted(one.name for one in stream.residents if one.role == "input") == [
        "input first",
        "input others.second.0",
    ]
    called = [step["call"] for one in stream.calls for step in one.steps if "call" in step]
    assert called.count("ttnn.linear") == 2
    assert "ttnn.multiply" in called


def test_what_only_values_decide_is_taken_and_told(torch_python: str) -> None:
    prediction = _predicted("deciding", "rows")
    assert "a number that Deciding reads from a tensor is taken as 1.0" in prediction.assumed
    assert any("selects: all is taken" in text for text in prediction.assumed)
    # AND the selection, of which the device has no call, is as long as it can be
    assert prediction.operations.unsupported[0].startswith("index (Deciding)")
    assert any("only the results are counted" in text for text in prediction.assumed)


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        ("translator", "words"),
        ("recurrent", "tokens"),
        ("best", "signal"),
        ("contained", "containers"),
        ("pooled", "sequences"),
        ("written", "sequences"),
        ("picked", "sequences"),
    ],
)
def test_layers_that_torch_fuses_are_operators(
    model: str, inputs: str, with_ttnn: Interpreter, torch_python: str
) -> None:
    request = replace(_request(model, inputs), torch_python=torch_python)
    stream = build_stream(request)
    twin, mock = predict_stream(stream, request), predict_stream(stream, replace(request, engine="mock"))
    assert not mock.operations.unsupported
    assert not mock.operations.unknown
    assert twin.fits
    assert mock.fits
    assert find_demands(twin)["DRAM"].peak_bytes_per_bank == find_demands(mock)["DRAM"].peak_bytes_per_bank


def test_what_is_written_into_a_part_is_part_of_the_whole(torch_python: str) -> None:
    # GIVEN a tensor that is filled through views of it
    stream = build_stream(_request("written", "sequences"))
    # THEN what fills it counts, and the whole is made anew
    called = [one.name for one in stream.calls]
    assert called.count("ttnn.linear") == 2
    assert called.count("ttnn.concat") == 2
    assert sum(name.startswith("ttnn.multiply") for name in called) == 1


def test_convolutions_of_other_dimensions_have_their_calls(with_ttnn: Interpreter, torch_python: str) -> None:
    request = replace(_request("volume", "sequences"), torch_python=torch_python)
    stream = build_stream(request)
    called = [one.name for one in stream.calls]
    assert {"ttnn.conv_transpose2d", "ttnn.experimental.conv3d"} <= set(called)
    twin, mock = predict_stream(stream, request), predict_stream(stream, replace(request, engine="mock"))
    assert not mock.operations.unsupported
    # AND the twin, which has no rule for volumes, says so
    assert [twin.operations.unknown, mock.operations.unknown] == [1, 0]


def test_weights_of_what_has_no_call_are_there(torch_python: str) -> None:
    prediction = _predicted("unheard", "sequences")
    assert prediction.operations.unsupported[0].startswith("convolution (deep)")
    assert prediction.weights_bytes >= 3 * 64 * 8 * 2


def test_attention_of_odd_heads_is_eager_and_exact(torch_python: str) -> None:
    prediction = _predicted("translator", "words")
    told = [text for text in prediction.assumed if text.startswith("attention whose heads")]
    assert told == ["attention whose heads are no multiple of 32 is eager: the fused one takes none (3 times)"]
    assert not prediction.operations.unknown


def test_an_interval_says_how_often_it_held(torch_python: str) -> None:
    prediction = _predicted("best", "signal")
    assert prediction.interval_bytes is not None
    told = toml.load_packaged("ttmem.prediction", "measured.toml")
    assert told["interval"]["ports"] == len(told["port"])
    (said,) = [text for text in prediction.assumed if "tt-metal ports" in text]
    within = told["interval"]["within"]
    assert said.startswith(
        f"Checked against {len(told['port'])} tt-metal ports: {within} peaked inside this interval. The other "
        f"{len(told['port']) - within} also kept"
    )
    images = ROOT / "tests" / "data" / "fit_models.py"
    request = Request(f"{images}::convolutions", inputs=f"{images}::image", engine="twin")
    (said,) = [text for text in predict_stream(build_stream(request), request).assumed if "tt-metal ports" in text]
    assert re.search(r"; for this model that adds [\d.]+ (K|M)iB, and then all 11 fit\.$", said)


def test_complex_numbers_are_bounds(torch_python: str) -> None:
    prediction = _predicted("spectral", "signal")
    assert prediction.operations.unknown == 3
    assert any("no complex tensors" in text for text in prediction.operations.unsupported)


def test_the_answer_says_what_is_not_known(torch_python: str) -> None:
    asked = ("--inputs", f"{MODELS}::signal", "--engine", "twin", "--no-store")
    told = call("fit", f"{MODELS}::spectral", *asked)
    assert told.code == 0
    assert "as far as is known: for 3 operations only the results are counted" in " ".join(told.out.split())
    assert "only results counted: _fft_r2c (Spectral)" in told.out


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("raising", "the model does not run: RuntimeError: trouble of my own (unusual_models.py:"),
        ("number", "number returns a int, not a torch.nn.Module"),
        ("nothing", "has no function 'nothing'"),
        ("scripted", "the model is scripted (torch.jit): return the module as it was before"),
        ("lazy", "'0' gets its size from its first input (LazyLinear): give it one"),
    ],
)
def test_what_is_no_model_is_bad_input(model: str, said: str, torch_python: str) -> None:
    told = call("fit", f"{MODELS}::{model}", "--inputs", f"{MODELS}::rows", "--engine", "twin", "--no-store")
    assert told.code == 2
    assert said in told.err
    assert "Traceback" not in told.err


def test_a_size_that_nobody_takes_is_bad_input(torch_python: str) -> None:
    asked = ("--inputs", f"{MODELS}::signal", "--engine", "twin", "--no-store", "--size", "64x64")
    told = call("fit", f"{MODELS}::best", *asked)
    assert told.code == 2
    assert "--size would change nothing: neither of best and signal has a parameter" in told.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--seq", "44"], "--seq would change nothing: neither has a parameter seq"),
        (["--chips", "2"], "--chips is for language models that a recipe lays out"),
        (["--max", "context"], "--context is for language models that a recipe lays out"),
        (["--weights", "head=bfloat8_b"], "no weight's name holds 'head' (--weights) hint: known: gate"),
        (["--sweep", ""], "'' is no range"),
    ],
)
def test_what_a_traced_model_does_not_have_is_bad_input(options: list[str], said: str, torch_python: str) -> None:
    told = call("fit", f"{MODELS}::best", "--inputs", f"{MODELS}::signal", "--engine", "twin", "--no-store", *options)
    assert told.code == 2
    assert said in " ".join(told.err.split())


def test_a_script_that_ends_for_another_reason_says_nothing_of_memory(with_ttnn: Interpreter, tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text("raise KeyError('mine')\n")
    told = call("fit", str(script), "--no-store")
    assert told.code == 2
    assert "the script ends for another reason than memory: KeyError: 'mine'" in told.err


def test_activations_in_block_floats_are_rows_of_bfloat16_where_no_tiles_are(torch_python: str) -> None:
    request = replace(_request("volume", "sequences"), dtype="bfloat8_b")
    prediction = predict_stream(build_stream(request), request)
    assert prediction.fits
    assert not prediction.operations.unsupported


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--boards", "n150,p150", "--csv"], "--csv and --plot show a --sweep"),
        (["--boards", "n150,p150", "--html", "page.html"], "--html shows one run"),
        (["--boards", "n150,p150", "--sweep", "batch=1..2"], "cannot be asked together"),
        (["--boards", "n150", "--board", "n150,p150"], "--board and --boards both name several boards"),
    ],
)
def test_options_that_would_say_nothing_are_refused(options: list[str], said: str) -> None:
    told = call("fit", f"{MODELS}::best", *options)
    assert told.code == 2
    assert said in " ".join(told.err.split())


_HALVES = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self._modules["\\ud800"] = torch.nn.Linear(64, 64)
        self._modules["\\ud801"] = torch.nn.Linear(64, 64)
        self.register_parameter("w\\udc80", torch.nn.Parameter(torch.zeros(64)))
    def forward(self, x):
        return self._modules["\\ud801"](self._modules["\\ud800"](x)) + getattr(self, "w\\udc80")
def load_model(): return Model()
def get_inputs(): return torch.zeros(2, 64)
def broken(): raise ValueError("no \\ud800 model")
"""


@pytest.mark.parametrize("engine", ["twin", "mock"])
def test_names_of_half_a_character_keep_their_weights_apart(
    engine: str, torch_python: str, with_ttnn: Interpreter, tmp_path: Path
) -> None:
    (tmp_path / "m.py").write_text(_HALVES)
    words = ["fit", "m.py::load_model", "--inputs", "m.py::get_inputs", "--engine", engine]
    env = environment(TTMEM_TORCH_PYTHON=torch_python)
    told = call(*words, "--name", f"halves-{engine}", "--html", "page.html", cwd=tmp_path, env=env)
    assert told.code == 0, told.err
    kept = call("profile", f"halves-{engine}", "--json", cwd=tmp_path)
    names = {entry["name"] for entry in json.loads(kept.out)["weights"]["entries"]}
    assert {r"\ud800.weight", r"\ud801.weight"} <= names
    refused = call("fit", "m.py::broken", *words[2:], cwd=tmp_path, env=env)
    assert refused.code == 2
    assert r"no \ud800 model" in refused.err


def test_a_configuration_with_half_a_character_is_answered(tmp_path: Path) -> None:
    config = {**LLAMA_8B, "num_hidden_layers": 1, "_name_or_path": "x\ud800/y\udfff", "model_type": "llama\ud812"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    told = call("fit", "config.json", "--engine", "twin", env=environment(TTMEM_HOME=str(tmp_path)), cwd=tmp_path)
    assert told.code == 0, told.err
    assert told.out.startswith("y\\udfff fits n150")
