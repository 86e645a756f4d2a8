# SPDX-License-Identifier: Apache-2.0
"""Nets that do not fit end fitting, proven on the mock; and suites that fail on what they leak."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ttmem
from support.captured_scripts import Capture
from support.command_line import call

pytestmark = pytest.mark.oracle

TRANSFORMER = """\
import ttnn

device = ttnn.open_device(device_id=0)
L1 = ttnn.L1_MEMORY_CONFIG
KEPT = []


def make(*shape, memory=ttnn.DRAM_MEMORY_CONFIG):
    return ttnn.allocate_tensor_on_device(ttnn.Shape(list(shape)), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


class Block:
    def __init__(self, width):
        self.wq, self.wk, self.wv = make(1, 1, width, width), make(1, 1, width, width), make(1, 1, width, width)
        self.wo = make(1, 1, width, width)
        self.up, self.down = make(1, 1, width, 4 * width), make(1, 1, 4 * width, width)

    def attention(self, x):
        q = ttnn.linear(x, self.wq, memory_config=L1)
        k = ttnn.linear(x, self.wk, memory_config=L1)
        v = ttnn.linear(x, self.wv, memory_config=L1)
        scores = ttnn.matmul(q, ttnn.transpose(k, -2, -1), memory_config=L1)
        weights = ttnn.softmax(scores, dim=-1)
        mixed = ttnn.matmul(weights, v, memory_config=L1)
        return ttnn.linear(mixed, self.wo, memory_config=L1)

    def __call__(self, x):
        attended = self.attention(x)
        hidden = ttnn.add(x, attended)
        inner = ttnn.linear(hidden, self.up, memory_config=L1)
        active = ttnn.gelu(inner)
        outer = ttnn.linear(active, self.down, memory_config=L1)
        KEPT.append((attended, hidden, inner, active))
        return ttnn.add(hidden, outer)


blocks = [Block(1024) for _ in range(3)]
state = make(1, 1, 2048, 1024, memory=L1)
for block in blocks:
    state = block(state)
ttnn.close_device(device)
"""
CONVOLUTIONS = """\
import ttnn

device = ttnn.open_device(device_id=0)
L1 = ttnn.L1_MEMORY_CONFIG


def make(*shape, memory=ttnn.DRAM_MEMORY_CONFIG, dtype=ttnn.bfloat16):
    return ttnn.allocate_tensor_on_device(ttnn.Shape(list(shape)), dtype, ttnn.TILE_LAYOUT, device, memory)


class Convolution:
    # as a product over unfolded patches, which is where the memory of a convolution goes
    def __init__(self, inputs, outputs):
        self.weight = make(1, 1, 9 * inputs, outputs)

    def __call__(self, x):
        patches = ttnn.concat([x] * 9, dim=-1)
        y = ttnn.matmul(patches, self.weight)
        z = ttnn.relu(y)
        return patches, z


layers = [Convolution(256, 256) for _ in range(11)]
image = make(1, 64, 4096, 256)
trail = []
for layer in layers:
    patches, image = layer(image)
    trail.append(patches)
ttnn.close_device(device)
"""


@pytest.mark.parametrize(("net", "memory"), [(TRANSFORMER, "L1"), (CONVOLUTIONS, "DRAM")])
def test_a_net_that_does_not_fit_ends_fitting(capture: Capture, net: str, memory: str) -> None:
    # GIVEN a net that ends out of memory
    profile = capture(net, head="")
    failed = profile.to_json()["failure"]
    assert failed["memory"] == memory
    # WHEN it is tuned, and run again with the edits on the mock, as often as it gets further
    tuned = ttmem.tune(profile, target="fits", verify=True, output=2)
    # THEN the real library runs it to its end, as full as was promised
    assert tuned.reached
    assert tuned.verified is not None
    assert tuned.verified.fits
    assert tuned.verified.agrees
    assert len(tuned.steps) <= 5
    assert tuned.answer.history.operations[-1].index > failed["operation"]["index"]


@pytest.mark.usefixtures("with_ttnn")
def test_a_suite_fails_on_what_its_tests_leak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN one test that keeps what it does not need, and one that does not
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_leaks.py").write_text("""
import ttnn

def make(device, *shape):
    return ttnn.zeros(list(shape), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)

def test_keeps(device):
    big = make(device, 1, 8, 1024, 1024)
    small = ttnn.sum(big, dim=1)
    x = make(device, 1, 4, 1024, 1024)
    y = ttnn.softmax(x, dim=-1)

def test_frees(device):
    x = make(device, 1, 4, 1024, 1024)
    y = ttnn.softmax(x, dim=-1)
""")
    words = ("test", "test_leaks.py", "-q", "--no-store", "--json")
    # WHEN the suite may fail on a megabyte that is kept for nothing
    found = call(*words, "--fail-on", "leak,late-free:1MB", "--sarif", "found.sarif")
    # THEN it does, and says which test and where
    assert found.code == 1, found.err
    (leak,) = json.loads(found.out)["findings"]
    assert (leak["kind"], leak["tensor"], leak["test"].rpartition("::")[2]) == ("late-free", "big", "test_keeps")
    (result,) = json.loads(Path("found.sarif").read_text())["runs"][0]["results"]
    assert (result["ruleId"], "test_keeps: big: " in result["message"]["text"]) == ("late-free", True)
    place = result["locations"][0]["physicalLocation"]
    assert f"{place['artifactLocation']['uri']}:{place['region']['startLine']}" == leak["location"]
    assert call(*words, "--fail-on", "leak:1GB,late-free:1GB").code == 0
    wrong = call(*words, "--fail-on", "leek")
    assert "leek" in wrong.err
