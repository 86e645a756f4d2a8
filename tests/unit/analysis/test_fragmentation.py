# SPDX-License-Identifier: Apache-2.0
"""Fragmentation is free memory outside the largest free block."""

from __future__ import annotations

from support.build_profile import ProfileBuilder
from ttmem.analysis.fragmentation import Fragmentation, fragmentation
from ttmem.analysis.states import OperationRef


def test_worst_moment_peak_and_share() -> None:
    # GIVEN a bank of 1000 B: (allocated, free, largest free)
    build = ProfileBuilder(totals={"DRAM": 1000})
    build.operation("ttnn.add", dram=(0, 1000, 1000))
    build.operation("ttnn.mul", dram=(400, 600, 200))
    build.operation("ttnn.sub", dram=(600, 400, 300))
    build.after_submit(dram=(100, 900, 500))
    # THEN the first worst moment wins, and the peak has its own figure
    assert fragmentation(build.build()) == {
        "DRAM": Fragmentation(
            rank=None,
            worst_bytes_per_bank=400,
            worst_percent=66.6667,
            worst_at=OperationRef(1, "ttnn.mul"),
            at_peak_bytes_per_bank=100,
            threshold_percent=50.0,
            states_above_threshold_percent=25.0,
            error_bytes_per_bank=0,
        )
    }


def test_a_difference_within_the_rounding_error_is_no_fragment() -> None:
    build = ProfileBuilder(totals={"DRAM": 4000}, error_bytes=525)
    build.operation("ttnn.add", dram=(2500, 1500, 500))
    found = fragmentation(build.build())["DRAM"]
    assert (found.worst_bytes_per_bank, found.error_bytes_per_bank, found.states_above_threshold_percent) == (
        1000,
        1050,
        0,
    )


def test_the_worst_rank_and_submit_states() -> None:
    build = ProfileBuilder(totals={"DRAM": 1000})
    build.rank(0)
    build.operation("ttnn.add", dram=(0, 1000, 990))
    build.rank(1)
    build.before_submit(dram=(0, 1000, 700))
    found = fragmentation(build.build())["DRAM"]
    assert (found.rank, found.worst_at) == (1, OperationRef(None, "before submit"))


def test_a_full_memory_and_a_memory_of_no_size_divide_by_nothing() -> None:
    build = ProfileBuilder(totals={"DRAM": 10})
    build.operation("ttnn.add", dram=(10, 0, 0), trace=(0, 0, 0))
    found = fragmentation(build.build())
    assert [(name, item.worst_percent, item.states_above_threshold_percent) for name, item in found.items()] == [
        ("DRAM", 0.0, 0),
        ("TRACE", 0.0, 0),
    ]


def test_memories_that_were_never_printed_are_absent() -> None:
    assert fragmentation(ProfileBuilder().build()) == {}
