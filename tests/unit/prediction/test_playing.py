# SPDX-License-Identifier: Apache-2.0
"""A stream, played: the twin and the real library tell the same run, failures included."""

from __future__ import annotations

from typing import Any

import pytest

from ttmem.engines.interpreters import Interpreter
from ttmem.prediction.request import Prediction, Request
from ttmem.prediction.run_stream import predict_stream
from ttmem.prediction.stream import CACHE, INPUT, WEIGHT, ModelCall, Resident, Stream


def _tensor(name: str, role: str, *shape: int) -> Resident:
    return Resident(name, role, {"alloc": name, "shape": list(shape), "dtype": "bfloat16", "memory": "DRAM"})


def _call(function: str, out: str, *tensors: str, **more: Any) -> dict[str, Any]:
    return {"call": function, "args": [{"tensor": name} for name in tensors], "kwargs": {}, "out": out, **more}


def mlp(batch: int, rows: int = 1024) -> Stream:
    return Stream(
        "mlp",
        (
            _tensor("fc1.weight", WEIGHT, 768, 3072),
            _tensor("fc2.weight", WEIGHT, 3072, 768),
            _tensor("cache", CACHE, 1, 8, 1024, 64),
            _tensor("x", INPUT, batch, rows, 768),
        ),
        (
            ModelCall("ttnn.linear", (_call("ttnn.linear", "h", "x", "fc1.weight"),), ("x",), "mlp.fc1", "addmm"),
            ModelCall("ttnn.gelu", (_call("ttnn.gelu", "g", "h"),), ("h",), "mlp.act", "gelu"),
            ModelCall("ttnn.linear", (_call("ttnn.linear", "y", "g", "fc2.weight"),), ("g",), "mlp.fc2", "addmm"),
            ModelCall(
                "aten.frobnicate",
                ({"alloc": "z", "shape": [batch, rows, 768], "dtype": "bfloat16", "memory": "DRAM"},),
                ("y",),
                "mlp.odd",
                "frobnicate",
                "not in the catalogue",
            ),
        ),
    )


def _told(prediction: Prediction) -> dict[str, Any]:
    """All that both engines must say alike."""
    document = prediction.profile.to_json()
    if document["failure"]:
        del document["failure"]["texts"]  # where in the library's source it was raised
    keys = ("operations", "memories", "weights", "padding", "consumers", "failure")
    return {
        **{key: document[key] for key in keys},
        "bytes": (prediction.weights_bytes, prediction.kv_cache_bytes, prediction.activations_peak_bytes),
        "counts": prediction.operations,
    }


def test_a_prediction_is_a_profile_with_weights_names_and_places() -> None:
    # GIVEN two linear layers of 4.5 MB of weights each and one operation that nobody knows
    prediction = predict_stream(mlp(1), Request("mlp", engine="twin"))
    document = prediction.profile.to_json()
    # THEN it fits, and everything has its name
    assert prediction.fits
    assert document["source"]["kind"] == "predicted"
    assert [entry["name"] for entry in document["weights"]["entries"]] == ["fc1.weight", "fc2.weight"]
    # the cache's 512 tiles are 43 for each of the twelve banks
    assert (prediction.weights_bytes, prediction.kv_cache_bytes) == (2 * 768 * 3072 * 2, 12 * 43 * 2048)
    peak = document["memories"]["DRAM"]
    assert peak["caused_by"]["location"] == "mlp.act"
    assert document["consumers"][0]["tensor"] == "mlp.fc1:linear"
    # AND at the peak both hidden tensors of 6 MB are there beside what stays
    assert prediction.activations_peak_bytes == 2 * 1024 * 3072 * 2
    assert prediction.operations.unsupported == ("frobnicate (mlp.odd): not in the catalogue",)
    assert (prediction.operations.exact, prediction.operations.unknown) == (3, 1)


def test_a_call_without_a_rule_is_counted_and_is_no_failure() -> None:
    # GIVEN a call of a model that the twin has no rule for, and of whose result nothing is said
    odd = ModelCall("ttnn.frobnicate", (_call("ttnn.frobnicate", "r", "x"),), ("x",), "odd")
    after = ModelCall("ttnn.gelu", (_call("ttnn.gelu", "y", "r"),), ("r",), "act", "gelu")
    prediction = predict_stream(
        Stream("odd", (_tensor("x", INPUT, 1024, 768),), (odd, after)), Request("odd", engine="twin")
    )
    # THEN the model goes on with a tensor like its input, and the prediction says so
    assert prediction.fits
    assert (prediction.operations.exact, prediction.operations.unknown) == (1, 1)
    assert "no rule for ttnn.frobnicate: its result is taken to be like its first input" in prediction.assumed[-1]


def test_what_does_not_fit_fails_where_it_would() -> None:
    in_an_operation = predict_stream(mlp(2500), Request("mlp", engine="twin")).profile.to_json()["failure"]
    in_an_upload = predict_stream(mlp(25000), Request("mlp", engine="twin")).profile.to_json()["failure"]
    assert in_an_operation["operation"] == {"index": 0, "name": "ttnn.linear", "location": "mlp.fc1"}
    assert in_an_operation["class"] == "oom/too-big"
    assert in_an_upload["operation"] == {"index": 0, "name": "ttnn.to_device", "location": "x"}


@pytest.mark.parametrize("batch", [1, 2500, 25000])
def test_the_real_library_tells_the_same(batch: int, with_ttnn: Interpreter) -> None:
    stream = mlp(batch)
    twin, mock = (predict_stream(stream, Request("mlp", engine=engine)) for engine in ("twin", "mock"))
    assert _told(twin) == _told(mock)
