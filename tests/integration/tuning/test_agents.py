# SPDX-License-Identifier: Apache-2.0
"""An agent's loop over MCP: run, tune with a patch, apply it, run again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support import mcp_talk
from ttmem.engines.interpreters import Interpreter

pytestmark = pytest.mark.oracle

SCRIPT = """\
import ttnn

device = ttnn.open_device(device_id=0)


def make(*shape):
    return ttnn.zeros(list(shape), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)


big = make(1, 8, 1024, 1024)
small = ttnn.sum(big, dim=1)
x = make(1, 4, 1024, 1024)
y = ttnn.softmax(x, dim=-1)
ttnn.close_device(device)
"""


def test_an_agent_runs_tunes_patches_and_runs_again(with_ttnn: Interpreter, tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    (tmp_path / "model.py").write_text(SCRIPT)
    env = {**os.environ, "TTMEM_TTNN_PYTHON": with_ttnn.path}
    # WHEN the agent captures the script and asks what to change
    tune = {"source": "before", "max_dram": "2MB", "patch": "smaller.diff", "verify": True, "format": "json"}
    words = ["--root", tmp_path]
    first = mcp_talk.talk(
        env,
        ("run", {"script": "model.py", "name": "before"}),
        ("tune", tune),
        ("whatif", {"source": "before", "edits": ["free:big@10"], "format": "json"}),
        folder=tmp_path,
        words=words,
    )
    _, tuned, what = first["results"]
    assert not tuned["failed"], tuned["text"]
    answer = tuned["document"]
    assert answer["reached"]
    assert answer["verified"]["agrees"]
    assert what["document"]["after"]["DRAM"] == answer["after"]["DRAM"]
    # AND applies the patch and runs it again
    subprocess.run(["patch", "-p1", "-i", "smaller.diff"], cwd=tmp_path, check=True, capture_output=True)
    again = mcp_talk.talk(
        env, ("run", {"script": "model.py", "name": "after", "format": "json"}), folder=tmp_path, words=words
    )
    # THEN the peak is the promised one
    (run,) = again["results"]
    peak = run["document"]["memories"]["DRAM"]["peak_bytes_per_bank"]
    assert peak == answer["after"]["DRAM"]["peak_bytes_per_bank"]
