# SPDX-License-Identifier: Apache-2.0
"""Which arguments operations take is what the real library tells of itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from oracle.real import find_ttnn
from ttmem.engines.engine import EngineSettings
from ttmem.engines.twin import TwinEngine
from ttmem.hardware import RELEASES
from ttmem.twin.operations import EXACT

_TOOL = Path(__file__).resolve().parents[2] / "tools" / "signatures.py"
_TENSOR = {"alloc": "x", "shape": [64, 64], "dtype": "bfloat16", "layout": "tile", "memory": "DRAM"}
_X = {"tensor": "x"}


@pytest.mark.oracle
def test_the_file_is_what_the_library_says() -> None:
    interpreter, reason = find_ttnn()
    if interpreter is None:
        pytest.skip(f"SIGNATURES WERE NOT COMPARED WITH THE REAL TTNN: {reason}")
    checked = subprocess.run([sys.executable, str(_TOOL), "--check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("operation", "args", "kwargs", "is_taken"),
    [
        ("add", [_X, _X], {}, True),
        ("add", [_X, 1], {}, True),
        ("add", [_X], {"input_tensor_b": 1.5}, True),
        ("add", [_X], {}, False),
        ("add", [_X, _X], {"input_tensor_b": _X}, False),
        ("add", [_X, _X], {"output_tensor": _X}, True),
        ("add_", [_X, _X], {"output_tensor": _X}, False),
        ("add_", [_X, _X], {"memory_config": {"memory": "L1"}}, False),
        ("fmod", [_X, _X], {"output_tensor": _X}, False),
        ("softmax", [_X, 1], {}, True),
        ("softmax", [_X, 1.5], {}, False),
        ("softmax", [_X], {"dimension": 1}, False),
        ("where", [_X, _X], {"false_value": 0.0}, True),
        ("concat", [[_X, _X], 0], {}, True),
        ("concat", [_X, 0], {}, False),
        ("interleaved_to_sharded", [_X], {}, False),
    ],
)
def test_names_and_kinds_decide(operation: str, args: list[object], kwargs: dict[str, object], is_taken: bool) -> None:
    outcome = TwinEngine(EngineSettings(board="n150")).ask(
        [_TENSOR, {"call": f"ttnn.{operation}", "args": args, "kwargs": kwargs, "out": "y"}]
    )
    assert ("incompatible function arguments" in outcome.message) is not is_taken
    assert is_taken or (outcome.status, outcome.confidence) == ("invalid", EXACT)


def test_older_releases_may_take_other_arguments() -> None:
    settings = EngineSettings(board="n150", release=RELEASES.find("0.80.0"))
    outcome = TwinEngine(settings).ask(
        [_TENSOR, {"call": "ttnn.add", "args": [_X, _X], "kwargs": {"lanes": 1}, "out": "y"}]
    )
    assert (outcome.status, outcome.confidence) == ("unsupported", "unknown")
