# SPDX-License-Identifier: Apache-2.0
"""Scripts that run on the mock, and what became of them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from ttmem.engines.interpreters import Interpreter
from ttmem.engines.run_script import RunSettings, run_script
from ttmem.profile.model import Profile

HEAD = """\
import ttnn

device = ttnn.open_device(device_id=0)
L1, DRAM = ttnn.L1_MEMORY_CONFIG, ttnn.DRAM_MEMORY_CONFIG


def make(*shape, memory=DRAM, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT):
    return ttnn.allocate_tensor_on_device(ttnn.Shape(list(shape)), dtype, layout, device, memory)


"""
Capture = Callable[..., Profile]


@pytest.fixture
def capture(with_ttnn: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Capture:
    """Write a script below the usual head and run it on the mock."""
    monkeypatch.chdir(tmp_path)
    return captured


def captured(body: str, *, head: str = HEAD, board: str = "n150") -> Profile:
    """What became of it in the current folder."""
    Path("script.py").write_text(head + textwrap.dedent(body))
    return run_script("script.py", settings=RunSettings(board=board), output=2).profile
