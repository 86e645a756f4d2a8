# SPDX-License-Identifier: Apache-2.0
"""What a capture adds to the model: moments inside operations, buffers, and what programs need in L1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.build_profile import tensor
from ttmem import TtmemError
from ttmem.analysis.consumers import alive_at_peak
from ttmem.analysis.lifetimes import lifetimes
from ttmem.analysis.peaks import peaks
from ttmem.analysis.programs_l1 import programs_peak
from ttmem.analysis.states import change_per_operation
from ttmem.profile import profile_file
from ttmem.profile.model import (
    BEFORE_OPERATION,
    SNAPSHOT,
    WITHIN_OPERATION,
    BufferTable,
    Profile,
    ProgramsL1,
    Source,
    Timeline,
)
from ttmem.profile.operation_forms import OperationForms
from ttmem.profile.runs import select

BANK = 100_000


def captured() -> Profile:
    """GIVEN two operations: the first needs a temporary of 3000 B per bank, the second frees what the first made.

    DRAM before #0: 1000; fullest inside #0: 1000 + 3000 + 500; before #1: 1500; at the end: 1000.
    """
    allocated = (1000, 4500, 1500, 1000)
    views = [[12, BANK, used, BANK - used, BANK - used] for used in allocated]
    int32, int64 = (lambda *v: np.array(v, np.int32)), (lambda *v: np.array(v, np.int64))
    return Profile(
        name="two",
        source=Source(kind="ttnn-capture", name="two.py"),
        tensor_types=(tensor(32, 32),),
        forms=OperationForms(
            name=int32(0, 1),
            names=("ttnn.roll", "ttnn.deallocate"),
            signature=int32(0, 0),
            signatures=(((), ()),),
            ssa_end=int64(1, 2),
            ssa_pool=b"==",
            location_end=int64(8, 16),
            location_pool=b"two.py:3two.py:4",
            note=int32(0, 0),
            notes=(("", False),),
        ),
        views=np.array(views, np.int64),
        timelines=(
            Timeline(
                rank=-1,
                first_index=0,
                form=int32(0, 1),
                line=int64(3, 4),
                program=int32(-1, -1),
                state_kind=np.array([BEFORE_OPERATION, WITHIN_OPERATION, BEFORE_OPERATION, SNAPSHOT], np.int8),
                state_operation=int32(0, 0, 1, -1),
                state_cause=int32(-1, 0, 0, 1),
                state_view=np.array([[0, -1, -1, -1], [1, -1, -1, -1], [2, -1, -1, -1], [3, -1, -1, -1]], np.int32),
                state_line=int64(3, 3, 4, 0),
                programs_l1=ProgramsL1(
                    tensors=int64(0, 64),
                    circular_buffers=int64(4096, 0),
                    dataflow_buffers=int64(2048, 0),
                    scratchpads=int64(16, 0),
                    measured=np.array([1, 0], np.int8),
                ),
                buffers=BufferTable(
                    address=int64(32, 1056, 4128),
                    memory=np.array([0, 0, 0], np.int8),
                    bytes_per_bank=int64(1000, 3000, 500),
                    total_bytes=int64(12000, 36000, 6000),
                    first_state=int32(0, 1, 1),
                    last_state=int32(3, 1, 2),
                    producer=int32(-1, 0, 0),
                    last_use=int32(0, -1, 1),
                    tensor_type=int32(0, -1, 0),
                    name=int32(0, 1, 2),
                    names=("weight", "temporary of ttnn.roll", "rolled"),
                ),
            ),
        ),
    )


def timeline(profile: Profile) -> Timeline:
    return profile.timelines[0]


def test_the_fullest_moment_inside_an_operation_is_the_peak_and_is_not_the_end() -> None:
    # WHEN the peak is asked for
    peak = peaks(captured())["DRAM"]
    # THEN it lies inside the operation, which caused it
    assert (peak.peak_bytes_per_bank, peak.at_index, peak.at_name) == (4500, 0, "ttnn.roll")
    assert (peak.caused_by_index, peak.caused_by_location) == (0, "two.py:3")
    assert peak.within_operation
    assert peak.end_bytes_per_bank == 1000


def test_what_an_operation_changed_is_seen_between_operations() -> None:
    profile = captured()
    assert change_per_operation(profile, timeline(profile), "DRAM").tolist() == [500, -500]


def test_the_live_set_holds_temporaries_and_sums_to_the_state() -> None:
    live = alive_at_peak(captured())
    assert live is not None
    assert [(life.name, life.bytes_per_bank) for life in live.tensors] == [
        ("temporary of ttnn.roll", 3000),
        ("weight", 1000),
        ("rolled", 500),
    ]
    assert live.unattributed_bytes_per_bank == 0
    # AND a buffer that no tensor owns is bytes and nothing else
    assert live.tensors[0].type.describe() == "36000 bytes"


def test_lifetimes_come_from_the_buffers_and_not_from_a_replay() -> None:
    profile = captured()
    lives = lifetimes(profile, timeline(profile), None)
    assert [
        (life.name, life.producer_index, life.first_index, life.last_index, life.last_use_index) for life in lives
    ] == [
        ("weight", None, 0, 1, 0),
        ("temporary of ttnn.roll", 0, 0, 0, None),
        ("rolled", 0, 0, 1, 1),
    ]


def test_the_worst_operation_in_l1_says_its_parts_and_how_many_were_not_measured() -> None:
    peak = programs_peak(captured())
    assert peak is not None
    assert (peak.index, peak.name, peak.total_bytes_per_core) == (0, "ttnn.roll", 6160)
    assert peak.parts == {"tensors": 0, "circular_buffers": 4096, "dataflow_buffers": 2048, "scratchpads": 16}
    assert peak.unmeasured_operations == 1


def test_the_document_has_the_keys_of_the_contract() -> None:
    # GIVEN a capture that also shows L1
    profile = captured()
    with_l1 = replace(timeline(profile), state_view=np.array([[0, 0, -1, -1]] * 4, np.int32))
    # WHEN it becomes the document
    document = replace(profile, timelines=(with_l1,)).to_json()
    # THEN the parts sum to the peak with programs
    l1 = document["memories"]["L1"]
    assert l1["peak_with_programs_bytes_per_core"] == sum(l1["parts"].values()) == 6160
    assert l1["peak_with_programs_at"] == {"index": 0, "name": "ttnn.roll", "location": "two.py:3"}
    assert "parts" not in document["memories"]["DRAM"]


def test_choosing_the_only_run_keeps_what_the_capture_knows() -> None:
    profile = captured()
    chosen = timeline(select(profile, run=0))
    original = timeline(profile)
    assert chosen.buffers is not None
    assert original.buffers is not None
    assert chosen.programs_l1 is not None
    assert chosen.buffers.last_state.tolist() == original.buffers.last_state.tolist()
    assert chosen.buffers.producer.tolist() == original.buffers.producer.tolist()
    assert chosen.programs_l1.measured.tolist() == [1, 0]


def test_saved_and_loaded_it_is_the_same() -> None:
    again = profile_file.decode(profile_file.encode(captured()))
    assert again.to_json() == captured().to_json()
    assert profile_file.encode(again) == profile_file.encode(captured())


def _with_buffers(**changes: Any) -> Profile:
    profile = captured()
    buffers = timeline(profile).buffers
    assert buffers is not None
    return replace(profile, timelines=(replace(timeline(profile), buffers=replace(buffers, **changes)),))


BROKEN: dict[str, Callable[[], Profile]] = {
    "memory of nowhere": lambda: _with_buffers(memory=np.array([0, 4, 0], np.int8)),
    "name of nowhere": lambda: _with_buffers(names=("weight",)),
    "type of nowhere": lambda: _with_buffers(tensor_type=np.array([0, 7, 0], np.int32)),
    "state of nowhere": lambda: _with_buffers(last_state=np.array([4, 1, 2], np.int32)),
    "backwards": lambda: _with_buffers(first_state=np.array([0, 3, 1], np.int32)),
    "columns of two lengths": lambda: _with_buffers(address=np.array([1], np.int64)),
}


@pytest.mark.parametrize("damage", BROKEN)
def test_what_points_nowhere_is_refused(damage: str) -> None:
    with pytest.raises(TtmemError, match="contradicts itself"):
        profile_file.encode(BROKEN[damage]())
