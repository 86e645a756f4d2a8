# SPDX-License-Identifier: Apache-2.0
"""Programs that use ttmem themselves, run by an interpreter of their own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from ttmem.commands.run import run

SOURCE = Path(__file__).resolve().parents[3] / "src"

_DEVICE = """
import json, sys
import numpy, ttnn, ttmem
device = ttnn.open_device(device_id=0, l1_small_size=32768)
def tensor(*shape, dtype=ttnn.bfloat16, config=ttnn.DRAM_MEMORY_CONFIG):
    return ttnn.allocate_tensor_on_device(ttnn.Shape(shape), dtype, ttnn.TILE_LAYOUT, device, config)
def held(memory="DRAM"):
    return ttnn.get_memory_view(device, getattr(ttnn.BufferType, memory)).total_bytes_allocated_per_bank
told = {}
"""
_END = """
ttnn.close_device(device)
open(sys.argv[1], "w").write(json.dumps(told))
"""


def on_mock(body: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], Any]:
    """What a program on the mock wrote into ``told``, and its profile."""
    script, answer = folder / "program.py", folder / "told.json"
    script.write_text(_DEVICE + dedent(body) + _END)
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    made = run(str(script), [str(answer)])
    assert made.status == 0, made.profile.to_json()["failure"]
    return json.loads(answer.read_text()), made.profile


def with_torch(body: str, python: str, *words: str) -> Any:
    """What a program with torch printed as JSON."""
    done = subprocess.run(
        [python, "-c", dedent(body), *words],
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
