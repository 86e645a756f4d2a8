# SPDX-License-Identifier: Apache-2.0
"""The fullest moment of each memory, over all states of all processes."""

from __future__ import annotations

from support.build_profile import ProfileBuilder, tensor
from ttmem.analysis.peaks import Peak, peaks, peaks_of
from ttmem.profile.model import Profile

MIB = 1 << 20


def test_all_of_a_peak() -> None:
    # GIVEN a fragmented DRAM at its fullest
    build = ProfileBuilder(error_bytes=525)
    with build.program("main"):
        build.operation("ttnn.matmul", results={"%1": tensor(64, 64)}, location="dot.1", dram=100 * MIB)
        build.operation("ttnn.deallocate", operands={"%1": tensor(64, 64)}, dram=(250 * MIB, 750 * MIB, 500 * MIB))
        build.operation("ttnn.relu", dram=50 * MIB)
    assert peaks(build.build()) == {
        "DRAM": Peak(
            memory="DRAM",
            rank=-1,
            banks=12,
            bytes_per_bank=1000 * MIB,
            peak_bytes_per_bank=250 * MIB,
            peak_percent=25.0,
            at_index=1,
            at_name="ttnn.deallocate",
            caused_by_index=0,
            caused_by_name="ttnn.matmul",
            caused_by_location="dot.1",
            free_bytes_at_peak=750 * MIB,
            largest_free_bytes_at_peak=500 * MIB,
            end_bytes_per_bank=50 * MIB,
            state=1,
            timeline=0,
            error_bytes=525,
        )
    }


def test_before_the_first_operation_nobody_is_to_blame() -> None:
    build = ProfileBuilder()
    with build.program("main"):
        build.operation("ttnn.matmul", dram=9)
        build.operation("ttnn.relu", dram=3)
    peak = peaks(build.build())["DRAM"]
    assert (peak.at_index, peak.caused_by_index, peak.caused_by_name) == (0, None, "")


def test_memories_peak_at_their_own_time() -> None:
    build = ProfileBuilder()
    with build.program("main"):
        build.operation("ttnn.a", dram=1, l1=7)
        build.operation("ttnn.b", dram=5, l1=2)
    found = peaks(build.build())
    assert list(found) == ["DRAM", "L1"]
    assert [(peak.at_index, peak.peak_bytes_per_bank) for peak in found.values()] == [(1, 5), (0, 7)]


def test_the_worst_rank_counts_and_the_first_of_equals() -> None:
    build = ProfileBuilder()
    for rank, dram, l1 in ((0, 5, 7), (1, 9, 7)):
        build.rank(rank).operation("ttnn.a", dram=dram, l1=l1)
    found = peaks(build.build())
    assert (found["DRAM"].rank, found["DRAM"].peak_bytes_per_bank, found["DRAM"].timeline) == (1, 9, 1)
    assert found["L1"].rank == 0
    assert peaks_of(build.build(), 0)["DRAM"].peak_bytes_per_bank == 5


def test_a_missing_line_is_not_zero() -> None:
    # GIVEN a last block without its DRAM line
    build = ProfileBuilder()
    build.operation("ttnn.a", dram=5, l1=1)
    build.operation("ttnn.b", l1=2)
    assert peaks(build.build())["DRAM"].end_bytes_per_bank == 5


def test_a_memory_of_no_size_has_no_percentage() -> None:
    build = ProfileBuilder()
    build.operation("ttnn.a", trace=0)
    assert peaks(build.build())["TRACE"].peak_percent is None


def test_nothing_seen_no_peaks() -> None:
    empty: Profile = ProfileBuilder().build()
    assert peaks(empty) == {}
