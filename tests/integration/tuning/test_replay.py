# SPDX-License-Identifier: Apache-2.0
"""A captured run played again on the twin's allocator: what edits are measured on."""

from __future__ import annotations

import random

import numpy as np
import pytest

from support.build_profile import ProfileBuilder
from support.captured_scripts import Capture
from ttmem import TtmemError
from ttmem.profile import profile_file
from ttmem.profile.model import Profile
from ttmem.tuning.captured_run import read_captured_run
from ttmem.tuning.edited_run import start_edits
from ttmem.tuning.replay import build_profile, replay

pytestmark = pytest.mark.oracle


def random_script(seed: int) -> str:
    """Tensors that come and go in DRAM and L1, operations with temporaries, functions, loops, an end in the middle."""
    draw = random.Random(seed)
    lines = ["kept = {}", "def block(a):", "    b = ttnn.gelu(a)", "    return ttnn.add(a, b)"]
    names = 0
    for _ in range(60):
        place = draw.choice(["DRAM", "DRAM", "L1"])
        shape = (1, draw.choice([1, 2, 4]), 32 * draw.randint(1, 12), draw.choice([50, 64, 96, 320]))
        known = f"kept[{draw.randrange(names)}]" if names else ""
        step = draw.choice(["make", "make", "unary", "roll", "softmax", "block", "drop", "drop", "free", "reshape"])
        if step == "make" or not names:
            lines.append(f"kept[{names}] = make(*{shape}, memory={place})")
        elif step in ("unary", "roll", "softmax", "block", "reshape"):
            call = {
                "unary": f"ttnn.relu(t, memory_config={place})",
                "roll": "ttnn.roll(t, 3, 2)",
                "softmax": "ttnn.softmax(t, dim=-1)",
                "block": "block(t)",
                "reshape": "ttnn.reshape(t, (1, 1, t.shape[0] * t.shape[1] * t.shape[2], t.shape[3]))",
            }[step]
            lines += [f"t = {known}", f"if t is not None and t.is_allocated(): kept[{names}] = {call}"]
            lines += ["t = None", f"kept.setdefault({names}, None)"]
        elif step == "drop":
            lines.append(f"{known} = None")
            continue
        else:
            lines.append(f"if {known} is not None and {known}.is_allocated(): ttnn.deallocate({known})")
            continue
        names += 1
    if seed % 2:
        lines.append("ttnn.close_device(device)")
    return "\n".join(lines)


def assert_same(profile: Profile, again: Profile) -> None:
    """Every column of both, and every answer."""
    (one,), (other,) = profile.timelines, again.timelines
    for table in ("buffers", "programs_l1", "events"):
        for name, column in getattr(one, table).columns.items():
            np.testing.assert_array_equal(column, getattr(other, table).columns[name], err_msg=f"{table}.{name}")
    for name in ("form", "line", "state_kind", "state_operation", "state_cause"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for memory in range(4):
        shown = one.state_view[:, memory] >= 0
        np.testing.assert_array_equal(shown, other.state_view[:, memory] >= 0)
        before, after = (p.views[t.state_view[shown, memory]] for p, t in ((profile, one), (again, other)))
        np.testing.assert_array_equal(before, after)
    assert one.events is not None
    assert other.events is not None
    assert (one.events.pools, one.events.call_paths) == (other.events.pools, other.events.call_paths)
    assert profile.to_json()["memories"] == again.to_json()["memories"]


@pytest.mark.parametrize("board", ["n150", "p150"])
@pytest.mark.parametrize("seed", range(3))
def test_a_run_without_edits_is_the_captured_one_to_the_byte(capture: Capture, seed: int, board: str) -> None:
    # GIVEN a random program that ran on the mock, kept and read again
    captured = capture(random_script(seed), board=board)
    profile = profile_file.decode(profile_file.encode(captured))
    # WHEN its events are played on the twin's allocator
    run = read_captured_run(profile)
    played = replay(start_edits(run))
    # THEN every buffer lies where it lay, every memory was as full as it was, and the profile made of it is the same
    assert played.addresses == {life.number: life.address for life in run.lives}
    assert played.fits
    assert_same(profile, build_profile(start_edits(run), profile.name))


def test_a_run_that_ends_out_of_memory_ends_there_again(capture: Capture) -> None:
    profile = capture("kept = [make(1, 1, 4096, 2048, memory=L1) for _ in range(9)]")
    run = read_captured_run(profile)
    played = replay(start_edits(run))
    assert played.shortfall is not None
    assert played.shortfall.operation == len(run.operations) - 1
    assert profile.to_json()["failure"]["message"].startswith(played.shortfall.message)
    assert_same(profile, build_profile(start_edits(run), profile.name))


def test_two_devices_in_turn(capture: Capture) -> None:
    profile = capture("""
    x = make(1, 1, 512, 512)
    y = ttnn.relu(x)
    ttnn.close_device(device)
    device = ttnn.open_device(device_id=0)
    z = make(1, 1, 1024, 512)
    ttnn.close_device(device)
    """)
    assert_same(profile, build_profile(start_edits(read_captured_run(profile)), profile.name))


def test_a_log_is_refused() -> None:
    build = ProfileBuilder("tiny")
    with build.program("main"):
        build.operation("ttnn.relu", dram=0)
    with pytest.raises(TtmemError, match="the order of allocations and frees is unknown"):
        read_captured_run(build.build())
