# SPDX-License-Identifier: Apache-2.0
"""Calls that are repeated are not asked about again: the figures are those that asking every time gives."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ttmem.engines.run_script import run_script
from ttmem.profile.builder import ProfileBuilder

pytestmark = pytest.mark.oracle

SCRIPT = """
import random
import sys

import ttnn

meters = next(module for name, module in sys.modules.items() if name.endswith(".program_needs"))
asked, original = [], meters.ProgramMeter._ask
meters.ProgramMeter._ask = lambda *given: asked.append(1) or original(*given)
if sys.argv[1] == "every":
    meters.describe_call = lambda *_: None
chance = random.Random(7)
device = ttnn.open_device(device_id=0)
PLACES = (ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG)
SIZES = (64, 1024)


def new(rows, columns, place):
    return ttnn.zeros((rows, columns), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=place)


given = {(rows, columns): new(rows, columns, PLACES[0]) for rows in SIZES for columns in SIZES}
kernels = [ttnn.WormholeComputeKernelConfig(fp32_dest_acc_en=wide) for wide in (True, False)]
filling = []


def some():
    return given[chance.choice(SIZES), chance.choice(SIZES)]


def product(**options):
    left = some()
    right = given[left.shape[-1], chance.choice(SIZES)]
    return ttnn.matmul(left, right, memory_config=chance.choice(PLACES), **options)


def product_as_told():
    config = ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(
        compute_with_storage_grid_size=(8, 8), in0_block_w=chance.choice((1, 2, 4)), out_subblock_h=1, out_subblock_w=1,
        per_core_M=4, per_core_N=4, transpose_mcast=False, fused_activation=None,
    )
    return ttnn.matmul(given[1024, 1024], given[1024, 1024], program_config=config)


KINDS = (
    product,
    lambda: product(compute_kernel_config=chance.choice(kernels)),
    product_as_told,
    lambda: ttnn.softmax(some(), dim=-1),
    lambda: ttnn.silu(some()),
    lambda: ttnn.layer_norm(some(), compute_kernel_config=chance.choice(kernels)),
    lambda: ttnn.reshape(given[1024, 1024], chance.choice(((512, 2048), (2048, 512)))),
    lambda: ttnn.reallocate(new(256, 256, PLACES[1])),
)
for step in range(150):
    try:
        if chance.random() < 0.2:
            filling.append(new(2048, 32 * chance.randrange(1, 560), PLACES[1]))
        if filling and chance.random() < 0.2:
            ttnn.deallocate(filling.pop(chance.randrange(len(filling))))
        if step == 120:
            device.clear_program_cache()
        chance.choice(KINDS)()
    except RuntimeError:
        pass
print(f"asked {len(asked)} times")
"""


def test_figures_are_those_of_asking_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # GIVEN operations of which some adapt themselves to a random filling of L1, and a cache that is emptied late
    script = tmp_path / "repeated.py"
    script.write_text(SCRIPT)
    add = ProfileBuilder.add
    told: list[dict[str, Any]] = []

    def record(capture: ProfileBuilder, message: dict[str, Any]) -> None:
        told.append({name: message.get(name) for name in ("end", "l1", "needs", "born", "unmeasured", "error")})
        add(capture, message)

    monkeypatch.setattr(ProfileBuilder, "add", record)
    ends, asked = {}, {}
    for way in ("new", "every"):
        told.clear()
        # WHEN the same runs with and without asking about calls that are repeated
        assert run_script(script, [way]).status == 0
        ends[way] = [message for message in told if message["end"] is not None]
        found = re.search(r"asked (\d+) times", capfd.readouterr().out)
        assert found
        asked[way] = int(found[1])
    # THEN nothing differs but how often the library was asked
    assert ends["new"] == ends["every"]
    assert len({str(message["needs"]) for message in ends["new"]}) > 10
    assert asked["new"] < 0.8 * asked["every"], asked
