# SPDX-License-Identifier: Apache-2.0
"""Operations that move a memory, each distinct one once."""

from __future__ import annotations

from support.build_profile import ProfileBuilder, tensor
from ttmem.analysis.largest_changes import LargestChange, find_largest_changes

T = tensor(32, 32)


def test_largest_effect_of_each_distinct_operation() -> None:
    build = ProfileBuilder()
    for growth in (10, 30):
        build.operation("ttnn.add", results={"%1": T}, location="a", dram=0, l1=5)
        build.operation("ttnn.mul", results={"%2": T}, location="m", dram=growth, l1=7)
        build.operation("ttnn.deallocate", operands={"%1": T}, dram=growth + 20, l1=7)
    build.after_submit(dram=0, l1=0)
    assert find_largest_changes(build.build()) == [
        LargestChange(3, -1, "ttnn.add", "a", 2, T, {"DRAM": 30, "L1": 2}),
        LargestChange(1, -1, "ttnn.mul", "m", 2, T, {"DRAM": 20, "L1": 0}),
    ]
    assert [mover.name for mover in find_largest_changes(build.build(), most=1)] == ["ttnn.add"]


def test_without_states_nothing_moves() -> None:
    build = ProfileBuilder()
    build.operation("ttnn.add")
    assert find_largest_changes(build.build()) == []
