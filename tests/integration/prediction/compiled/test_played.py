# SPDX-License-Identifier: Apache-2.0
"""Compiled modules on the engines: what the types say is what lies on the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.compiled_modules import function, linear_layer, module, tiles
from support.log_lines import Log
from ttmem.analysis.alignment import pair_forms
from ttmem.commands.diff import diff
from ttmem.commands.fit import Fit, fit
from ttmem.engines.interpreters import Interpreter
from ttmem.profile.model import Profile
from ttmem.readers.mlir.functions import read_modules


def fitted(text: str, tmp_path: Path, engine: str, **asked: Any) -> Fit:
    path = tmp_path / "layer.mlir"
    path.write_text(text)
    return fit(str(path), engine=engine, **asked)


def told(made: Fit) -> dict[str, Any]:
    document = made.to_json()
    peaks = {name: one["peak_bytes_per_bank"] for name, one in document["peak"].items()}
    return {"peaks": peaks, **{key: document[key] for key in ("fits", "weights_bytes", "activations_peak_bytes")}}


def one_call(line: str, kind: str = "tensor<64x64xbf16, #l>", size: int = 64) -> str:
    body = [line.replace("KIND", kind), f"return %0 : {kind}"]
    return module({"l": tiles(size, size)}, [function("main", f"%arg0: {kind}", kind, body)])


def test_twin_and_library_tell_the_same_of_a_module(tmp_path: Path, with_ttnn: Interpreter) -> None:
    twin, mock = (fitted(linear_layer(), tmp_path, engine) for engine in ("twin", "mock"))
    assert told(twin) == told(mock)
    assert told(mock)["weights_bytes"] == 3 * 12 * 2048  # tiles of the prepared copy; the one on the host costs nothing
    assert told(mock)["peaks"] == {"DRAM": 13824, "L1": 16384}
    assert mock.profile.source.kind == "predicted"
    assert [one["name"] for one in mock.profile.to_json()["weights"]["entries"]] == ["layer.weight"]


@pytest.mark.parametrize("engine", ["twin", "mock"])
def test_a_call_that_is_not_taken_as_written_still_makes_its_result(
    engine: str, tmp_path: Path, with_ttnn: Interpreter
) -> None:
    line = '%0 = "ttnn.permute"(%arg0) <{permutation = array<i64: 0, 1, 2, 3>}> : (KIND) -> KIND'
    document = fitted(one_call(line), tmp_path, engine).to_json()
    assert document["fits"]
    assert document["peak"]["DRAM"]["peak_bytes_per_bank"] == 2 * 2048
    assert document["operations"]["bounded"] == 1


@pytest.mark.parametrize("engine", ["twin", "mock"])
def test_an_operation_that_nobody_knows_is_a_bound_with_its_name(
    engine: str, tmp_path: Path, with_ttnn: Interpreter
) -> None:
    document = fitted(one_call('%0 = "ttnn.frobnicate"(%arg0) : (KIND) -> KIND'), tmp_path, engine).to_json()
    assert document["operations"]["unknown"] == 1
    assert document["operations"]["unsupported"] == [
        "ttnn.frobnicate (layer.mlir:10): no call is known for ttnn.frobnicate"
    ]
    assert document["peak"]["DRAM"]["peak_bytes_per_bank"] == 2 * 2048


@pytest.mark.parametrize("engine", ["twin", "mock"])
def test_what_does_not_fit_fails_at_its_operation(engine: str, tmp_path: Path, with_ttnn: Interpreter) -> None:
    kind = "tensor<65536x65536xbf16, #l>"
    made = fitted(one_call('%0 = "ttnn.relu"(%arg0) : (KIND) -> KIND', kind, 65536), tmp_path, engine)
    failure = made.to_json()["first_failure"]
    assert not made.fits
    assert failure["class"] == "oom/capacity"
    assert failure["operation"]["name"] == "ttnn.relu"


def measured(text: str, states: list[tuple[float, float]]) -> Profile:
    """A log of the module's own run: every operation with the state before it, types written out."""
    log = Log()
    log.start("main")
    modules = read_modules(text.encode())
    main, const_eval = (modules[0].functions[name] for name in ("main", "main_const_eval_0"))
    order = [main.operations[0], *const_eval.operations, *main.operations[1:]]
    for operation, (dram, l1) in zip(order, states, strict=True):
        results = f"{operation.results[0]} = " if operation.results else ""
        takes, gives = (
            ", ".join(one.decode() for one in types) for types in (operation.operand_types, operation.result_types)
        )
        line = f'{results}"{operation.name}"({", ".join(operation.operands)}) : ({takes}) -> {gives or "()"}'
        log.op(f'{line} loc("{operation.location}")' if operation.location else f"{line} loc(unknown)", dram, l1=l1)
    log.finish("main")
    return log.profile()


def test_a_prediction_and_a_log_of_the_same_graph_are_aligned_by_operation(tmp_path: Path) -> None:
    text = linear_layer(rows=256, inner=2048, columns=2048)
    predicted = fitted(text, tmp_path, "twin").profile
    # Tiles in a bank before each operation, as predicted, but the product leaves 400 more behind than it should.
    tiles_in_bank = [43, 43, 43, 385, 727, 385, 385, 828, 785, 785, 785]
    l1 = [0.0] * 10 + [0.125]
    log = measured(text, [(count * 2048 / (1 << 20), one) for count, one in zip(tiles_in_bank, l1, strict=True)])
    compared = ("ttnn.to_device", "ttnn.to_layout", "ttnn.matmul", "ttnn.to_memory_config")
    pairs = pair_forms(log, predicted, set(compared))
    assert {predicted.forms.name_of(after): log.forms.name_of(before) for after, before in pairs.items()} == {
        name: name for name in compared
    }
    document = diff(predicted, log).to_json()
    dram, l1_peaks = document["memories"]["DRAM"], document["memories"]["L1"]
    assert dram["before"] == 727 * 2048
    assert dram["delta_bytes_per_bank"] == pytest.approx((828 - 727) * 2048, abs=600)
    assert (dram["caused_by_before"]["name"], dram["caused_by_after"]["name"]) == ("ttnn.to_layout", "ttnn.matmul")
    assert l1_peaks["before"] == l1_peaks["after"] == 131072
