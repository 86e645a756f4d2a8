# SPDX-License-Identifier: Apache-2.0
"""The load phase: what was there before the first operation, and what const-eval added."""

from __future__ import annotations

from support.build_profile import ProfileBuilder, tensor
from ttmem.analysis.load_phase import LoadPhase, const_eval_programs, load_phase

T = tensor(32, 32)


def test_resident_const_eval_and_uploads() -> None:
    build = ProfileBuilder(error_bytes=7)
    with build.program("main"):
        build.operation("ttnn.get_device", dram=1000)  # 0: 1000 B were uploaded before any operation
        build.operation("ttcore.load_cached", results={"%0": T}, callee="main_const_eval_0", dram=1000)  # 1
        build.lookup("main_const_eval_0", hit=False)
        with build.program("main_const_eval_0"):
            build.operation("ttnn.to_device", results={"%0": T}, dram=1000)  # 2: +600
            build.operation("ttnn.to_layout", results={"%1": T}, dram=1600)  # 3: +600
            build.operation("ttnn.deallocate", operands={"%0": T}, dram=2200)  # 4: -600
        build.operation("ttnn.to_device", results={"%1": T}, dram=1600)  # 5: +50
        build.operation("ttnn.add", results={"%2": T}, dram=1650)  # 6: +200
    build.after_submit(dram=1850)
    assert load_phase(build.build()) == LoadPhase(
        memory="DRAM",
        rank=None,
        before_first_bytes_per_bank=1000,
        const_eval_programs=1,
        const_eval_operations=3,
        const_eval_bytes_per_bank=600,
        upload_operations=1,
        upload_bytes_per_bank=50,
        loaded_at_index=5,
        loaded_bytes_per_bank=1600,
    )


def test_without_const_eval_nothing_was_loaded_inside_runs() -> None:
    build = ProfileBuilder()
    build.operation("ttnn.add", dram=5)
    found = load_phase(build.build())
    assert found is not None
    assert (found.before_first_bytes_per_bank, found.loaded_at_index, found.loaded_bytes_per_bank) == (5, None, None)


def test_a_memory_that_was_never_seen() -> None:
    assert load_phase(ProfileBuilder().build()) is None


def test_a_program_is_const_eval_by_name_by_caller_or_by_its_parent() -> None:
    build = ProfileBuilder()
    with build.program("main"):
        build.operation("ttcore.load_cached", callee="fold")
        with build.program("fold"):
            build.operation("func.call", callee="inner")
            with build.program("inner"):
                build.operation("ttnn.add")
        build.operation("func.call", callee="helper")
        with build.program("helper"):
            build.operation("ttnn.add")
        with build.program("forward_const_eval_3"):
            build.operation("ttnn.add")
    profile = build.build()
    assert const_eval_programs(profile, profile.timelines[0]) == [False, True, True, False, True]
