# SPDX-License-Identifier: Apache-2.0
"""What captures tell must be what the allocator said when they were taken, to the byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.captures import (
    operation_names,
    truth,
    truth_before_steps,
    unpacked_capture,
    unpacked_report,
    views_before_operations,
)
from ttmem import Profile, read
from ttmem.analysis.peaks import peaks
from ttmem.profile.model import MEMORIES, STATE_NAMES, VIEW_ALLOCATED, WITHIN_OPERATION

STEPS = [
    "ttnn.matmul",
    "ttnn.gelu",
    "ttnn.deallocate",
    "ttnn.matmul",
    "ttnn.add",
    "ttnn.softmax",
    "ttnn.relu",
    "ttnn.reshape",
    "ttnn.mean",
    "ttnn.max_pool2d",
    "ttnn.multiply",
    "ttnn.to_memory_config",
    "ttnn.exp",
]


def shown(views: dict[str, list[int]], profile_views: dict[str, list[int]]) -> dict[str, list[int]]:
    """The allocator lists a TRACE region of 0 bytes; profiles leave out what was not configured."""
    return {memory: views[memory] for memory in profile_views}


def blocks(profile: Profile) -> list[tuple[str, int, dict[str, int]]]:
    """(kind, operation, allocated per memory) of every state."""
    timeline = profile.timelines[0]
    return [
        (
            STATE_NAMES[timeline.state_kind[block]],
            int(timeline.state_operation[block]),
            {
                memory: int(profile.views[number, VIEW_ALLOCATED])
                for memory, number in zip(MEMORIES, timeline.state_view[block].tolist(), strict=True)
                if number >= 0
            },
        )
        for block in range(len(timeline.state_kind))
    ]


@pytest.mark.parametrize("board", ["n150", "p150"])
@pytest.mark.parametrize("form", ["report", "database"])
def test_a_report_gives_the_allocators_own_views_before_every_operation(tmp_path: Path, board: str, form: str) -> None:
    name = f"{board}-report"
    source = unpacked_capture(name, tmp_path) if form == "report" else unpacked_report(name, tmp_path)

    profile = read(source)

    assert operation_names(profile) == STEPS
    found, wanted = views_before_operations(profile), truth_before_steps(name)
    assert found == [shown(views, mine) for views, mine in zip(wanted, found, strict=True)]
    assert set(found[0]) == {"DRAM", "L1", "L1_SMALL"}
    assert profile.source.state_error_bytes == 0


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_a_bare_capture_is_a_floor_that_misses_only_what_it_never_touched(tmp_path: Path, board: str) -> None:
    name = f"{board}-normal"
    profile = read(unpacked_capture(name, tmp_path))

    # GIVEN which device operation is the first of each step (a tensor's deallocation is none)
    first = [0, 1, None, 2, 3, 4, 5, 6, 7, 9, 13, 14, 15]
    found = views_before_operations(profile)
    never_used = {"n150": 34816, "p150": 53248}[board]  # 1x1x96x2176 in DRAM
    for operation, wanted in zip(first, truth_before_steps(name), strict=True):
        if operation is None:
            continue
        here = found[operation]
        assert {memory: view[2] for memory, view in here.items()} == {
            "DRAM": wanted["DRAM"][2] - never_used,
            "L1": wanted["L1"][2],
            "L1_SMALL": wanted["L1_SMALL"][2],
        }
        assert here["DRAM"][:2] == wanted["DRAM"][:2]
        # THEN L1_SMALL, which a bare capture does not know, is the difference to the true bank
        assert here["L1"][:2] == [wanted["L1"][0], wanted["L1"][1] + 32768]
    assert any("allocated bytes are a floor" in warning for warning in profile.source.warnings)
    assert any("does not say how large the memories are" in warning for warning in profile.source.warnings)


def test_moments_inside_operations_and_after_them(tmp_path: Path) -> None:
    profile = read(unpacked_capture("n150-report", tmp_path))

    # mean converts to float32 in between; max_pool2d has its input sharded, then padded, both at once.
    inside = [(operation, held) for kind, operation, held in blocks(profile) if kind == "within operation"]
    assert inside == [(8, {"DRAM": 11356288 + 1024 + 1088}), (9, {"L1": 14336 + 2 * 8192})]
    # relu's and exp's results are dropped at once: the state between is a snapshot of the memory that they were in.
    between = [held for kind, _, held in blocks(profile) if kind == "snapshot"]
    assert between[:2] == [{"L1": 18432}, {"DRAM": 11358464}]
    found = peaks(profile)
    assert (found["L1"].peak_bytes_per_bank, found["L1"].at_index, found["L1"].within_operation) == (30720, 9, True)
    assert found["DRAM"].peak_bytes_per_bank == 11358464


@pytest.mark.parametrize("board", ["n150", "p150"])
@pytest.mark.parametrize("form", ["report", "normal", "no_dispatch", "database"])
def test_buffers_sum_to_every_state(tmp_path: Path, board: str, form: str) -> None:
    if form == "database":
        profile = read(unpacked_report(f"{board}-report", tmp_path))
    else:
        profile = read(unpacked_capture(f"{board}-{form}", tmp_path))
    timeline = profile.timelines[0]
    buffers = timeline.buffers
    assert buffers is not None
    for block in range(len(timeline.state_kind)):
        for memory, number in enumerate(timeline.state_view[block].tolist()):
            if number < 0:
                continue
            here = (buffers.memory == memory) & (buffers.first_state <= block) & (block <= buffers.last_state)
            assert buffers.bytes_per_bank[here].sum() == profile.views[number, VIEW_ALLOCATED]
    # THEN what lived inside one operation alone is a temporary of it
    inside = (buffers.first_state == buffers.last_state) & (
        timeline.state_kind[buffers.first_state] == WITHIN_OPERATION
    )
    assert np.all(buffers.producer[inside] == timeline.state_operation[buffers.first_state[inside]])


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_without_dispatch_the_programs_l1_is_what_the_library_extracts(tmp_path: Path, board: str) -> None:
    name = f"{board}-no_dispatch"
    profile = read(unpacked_capture(name, tmp_path))
    needs = profile.timelines[0].programs_l1
    assert needs is not None
    extracted = truth(name)["extracted"]
    assert needs.circular_buffers.max() == extracted["peak_cb"]
    assert needs.dataflow_buffers.max() == extracted["peak_dataflow_buffer"]
    assert needs.scratchpads.max() == extracted["peak_scratchpad"]
    assert np.all(needs.measured == 1)
    if board == "n150":
        matmul, add, reshape = 0, 3, 6
        assert (needs.dataflow_buffers[matmul], needs.circular_buffers[matmul]) == (65536 + 8192 + 16384, 0)
        assert (needs.circular_buffers[add], needs.dataflow_buffers[add]) == (3 * 4096, 0)
        assert (needs.dataflow_buffers[reshape], needs.scratchpads[reshape]) == (3072, 2048)


def test_a_normal_capture_says_whose_programs_it_does_not_show(tmp_path: Path) -> None:
    profile = read(unpacked_capture("n150-report", tmp_path))
    needs = profile.timelines[0].programs_l1
    assert needs is not None
    ran_no_program = [STEPS.index("ttnn.deallocate"), STEPS.index("ttnn.to_memory_config")]
    assert np.flatnonzero(needs.measured).tolist() == ran_no_program
    pool = STEPS.index("ttnn.max_pool2d")
    # Buffers that share the memory of a tensor are not counted twice: 4096 + 2048 + 4096 + 4096.
    assert (needs.tensors[pool], needs.circular_buffers[pool]) == (14336 + 8192 + 2048, 14336)
    assert any("omits dataflow buffers" in warning for warning in profile.source.warnings)
