# SPDX-License-Identifier: Apache-2.0
"""Speed of ``whatif`` and ``tune``: replays against the mock, edits tried per second, a capture of 10,000 operations.

    python bench/tune.py [--quick] [--folder FOLDER]

The capture is a real one, made on the mock once and kept in FOLDER.
"""

from __future__ import annotations

import time
from pathlib import Path

from measure import Row, print_table
from ttmem.engines.run_script import RunSettings, run_script
from ttmem.profile import profile_file
from ttmem.profile.model import Profile
from ttmem.tuning.captured_run import read_captured_run
from ttmem.tuning.edited_run import start_edits
from ttmem.tuning.figures import Goal
from ttmem.tuning.replay import build_profile, replay
from ttmem.tuning.search import find_edits

LONGEST_SEARCH_SECONDS = 60.0
_SCRIPT = """\
import ttnn

device = ttnn.open_device(device_id=0)


def make(*shape):
    return ttnn.allocate_tensor_on_device(
        ttnn.Shape(list(shape)), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.DRAM_MEMORY_CONFIG
    )


def block(x, weight):
    hidden = ttnn.matmul(x, weight)
    active = ttnn.gelu(hidden)
    scaled = ttnn.multiply(active, active)
    return ttnn.add(scaled, x)


weights = [make(1, 1, 128, 128) for _ in range(32)]
kept = []
for turn in range({turns}):
    state = make(1, 1, 256, 128)
    for weight in weights:
        state = block(state, weight)
        if turn % 4 == 0:
            kept.append(state)
ttnn.close_device(device)
"""


def captured(folder: Path, operations: int) -> tuple[Profile, float]:
    """The capture, and how long the mock took for it (0 when it was there already)."""
    kept = folder / f"tune-{operations}.ttmem"
    if kept.exists():
        return profile_file.load(kept), 0.0
    script = folder / f"tune-{operations}.py"
    script.write_text(_SCRIPT.format(turns=max(operations // (32 * 4 + 1), 1)))
    begun = time.perf_counter()
    profile = run_script(script, settings=RunSettings(measure_programs=False), output=2).profile
    seconds = time.perf_counter() - begun
    profile_file.save(profile, kept)
    return profile, seconds


def rows(folder: Path, *, quick: bool) -> list[Row]:
    """A line per question."""
    profile, on_mock = captured(folder, 500 if quick else 10_000)
    begun = time.perf_counter()
    run = read_captured_run(profile)
    understood = time.perf_counter() - begun
    begun = time.perf_counter()
    played = replay(start_edits(run))
    replayed = time.perf_counter() - begun
    assert played.addresses == {life.number: life.address for life in run.lives}, "a replay differs from the capture"
    begun = time.perf_counter()
    build_profile(start_edits(run), "again")
    as_profile = time.perf_counter() - begun
    begun = time.perf_counter()
    lower = find_edits(run, Goal())
    downwards = time.perf_counter() - begun
    limit = int(0.6 * lower.before.dram_peak_bytes_per_bank)
    begun = time.perf_counter()
    found = find_edits(run, Goal(limits={"DRAM": limit}))
    towards = time.perf_counter() - begun
    count = len(run.operations)
    told = [
        Row("operations of the capture", count, ""),
        Row("events of the capture", run.length, ""),
        Row("understand the capture", understood, "s"),
        Row("replay on the twin's allocator, every address compared", replayed, "s"),
        Row("replay as a Profile", as_profile, "s"),
        Row("search without a target", downwards, "s", LONGEST_SEARCH_SECONDS),
        Row("search for 60 % of the DRAM peak", towards, "s", LONGEST_SEARCH_SECONDS),
        Row("edits tried per second", (lower.tried + found.tried) / (downwards + towards), "edits/s"),
        Row("edits of the answer", len(found.steps), ""),
        Row("target reached", found.reached, "", 1, at_least=True),
    ]
    if on_mock:
        told.append(Row("the mock / a replay", on_mock / max(replayed, 1e-9), "x"))
    return told


if __name__ == "__main__":
    raise SystemExit(print_table(rows, about=__doc__, quick_means="a capture of 500 operations"))
