# SPDX-License-Identifier: Apache-2.0
"""A ttnn script as a target: it runs on the mock, and whether it fits is about memory alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ttmem
from ttmem.analysis.weights import weights
from ttmem.commands.program import main
from ttmem.engines.interpreters import Interpreter

_MODEL = """
import ttnn

class Block:
    def __init__(self, device, size):
        def made(rows, columns):
            return ttnn.ones([1, 1, rows, columns], ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
        self.w1, self.params = made(size, 4 * size), {"w2": made(4 * size, size)}
        self.kept = None

def run(s, x):
    for _ in range(3):
        h = ttnn.gelu(ttnn.matmul(x, s.w1))
        s.kept = ttnn.matmul(h, s.params["w2"])
    return s.kept

def main():
    device = ttnn.open_device(device_id=0)
    b = [Block(device, 1000) for _ in range(2)]
    x = ttnn.ones([1, 1, 256, 1000], ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
    for block in b:
        x = run(block, x)
    END

main()
"""
_WEIGHT_NAMES = ["b[0].params['w2']", "b[0].w1", "b[1].params['w2']", "b[1].w1"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _script(end: str = "ttnn.close_device(device)") -> Path:
    script = Path("model.py")
    script.write_text(_MODEL.replace("END", end))
    return script


@pytest.mark.parametrize("end", ["ttnn.close_device(device)", "pass"], ids=["closed", "left open"])
def test_attributes_of_objects_are_weights_of_one_name_and_one_figure(with_ttnn: Interpreter, end: str) -> None:
    # GIVEN two blocks whose weights are made on the device, and which a function gets under another name
    found = ttmem.fit(str(_script(end)))
    # THEN they are the model's weights: not the results that it keeps, nor its input
    told = weights(found.profile)
    assert sorted(entry.name for entry in told.entries) == _WEIGHT_NAMES
    # ... each takes whole tiles in every bank, and the answer and the page have that one figure
    tiles = 32 * 125  # of 1,000 x 4,000 elements
    taken = 4 * -(-tiles // 12) * 2048 * 12
    assert found.prediction.weights_bytes == told.device_bytes == taken
    assert told.bytes == 4 * 1000 * 4000 * 2
    document = found.to_json()
    assert document["weights_bytes"] + document["activations_peak_bytes"] == document["peak"]["DRAM"][
        "peak_bytes_per_bank"
    ] * 12  # fmt: skip


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ("assert False, 'PCC nan'", "AssertionError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("ttnn.matmul(x, x)", "RuntimeError"),
        ("raise SystemExit(3)", "SystemExit"),
    ],
)
def test_a_script_that_ends_for_another_reason_fits_as_far_as_it_ran(
    with_ttnn: Interpreter, capfd: pytest.CaptureFixture[str], end: str, error: str
) -> None:
    script = _script(end)
    assert main(["fit", str(script), "--no-store"]) == 0
    first = " ".join(capfd.readouterr().out.split("\n\n")[0].split())
    line = _MODEL.splitlines().index("    END") + 1
    place = f" at model.py:{line}" if error != "SystemExit" else ""
    assert first.startswith("model fits n150 as far as it ran; the script ended with")
    if error != "SystemExit":
        assert first == f"model fits n150 as far as it ran; the script ended with {error}{place} (not memory)"
    assert main(["fit", str(script), "--no-store", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["fits"], document["first_failure"]) == (True, None)
    assert document["ended"]["error"]
    assert document["peak"]["DRAM"]["peak_bytes_per_bank"] > 0


def test_a_script_that_runs_out_of_memory_does_not_fit(
    with_ttnn: Interpreter, capfd: pytest.CaptureFixture[str]
) -> None:
    fill = "kept = [ttnn.empty([8, 1, 4096, 8192], ttnn.bfloat16, ttnn.TILE_LAYOUT, device) for _ in range(40)]"
    assert main(["fit", str(_script(fill)), "--no-store", "--json"]) == 1
    document = json.loads(capfd.readouterr().out)
    assert document["fits"] is False
    assert document["first_failure"]["class"].startswith("oom/")


def test_a_list_shows_the_memory_that_failed_and_counts_questions(
    with_ttnn: Interpreter, capfd: pytest.CaptureFixture[str]
) -> None:
    large = "[8192, 8192], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG"
    _script(f"ttnn.empty({large})")
    Path("list.txt").write_text("model.py\nmodel.py\n")
    assert main(["fit", "--list", "list.txt", "-o", "atlas"]) == 0
    shown = capfd.readouterr()
    [row, _] = json.loads(Path("atlas/atlas.json").read_text())["rows"]
    assert (row["failed_memory"], row["l1_peak_percent"] > 100, row["dram_peak_percent"] < 100) == ("L1", True, True)
    assert f"NO L1 {row['l1_peak_percent']:.1f}%" in shown.out
    assert f"1 of 1: model.py on n150: does not fit, L1 {row['l1_peak_percent']:.1f}%" in shown.err
    assert main(["fit", "model.py", "--boards", "n150"]) == 1
    assert "oom/too-big in L1" in capfd.readouterr().out


def test_a_script_that_catches_it_fits(with_ttnn: Interpreter, capfd: pytest.CaptureFixture[str]) -> None:
    fill = "[ttnn.empty([8, 1, 4096, 8192], ttnn.bfloat16, ttnn.TILE_LAYOUT, device) for _ in range(40)]"
    caught = f"try:\n        kept = {fill}\n    except RuntimeError:\n        pass\n    ttnn.relu(x)"
    assert main(["fit", str(_script(caught)), "--no-store", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["fits"], document["ended"]) == (True, None)


def test_a_script_that_never_used_a_device_says_nothing_of_memory(
    with_ttnn: Interpreter, capfd: pytest.CaptureFixture[str]
) -> None:
    script = Path("model.py")
    script.write_text("import ttnn\nimport no_such_package\n")
    assert main(["fit", str(script)]) == 2
    said = capfd.readouterr().err
    assert "the script ends for another reason than memory: ModuleNotFoundError" in said
    assert "it used no device" in said
