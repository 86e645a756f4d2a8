# SPDX-License-Identifier: Apache-2.0
"""Excerpts of public logs, with every figure written out."""

from __future__ import annotations

from support.failure_messages import DATA
from ttmem.failures.failure import Failure
from ttmem.failures.text.find import find_failures


def read(name: str) -> str:
    return (DATA / "real-logs" / f"{name}.log").read_text()


def oom(
    requested: int, banks: int, need: int, bank: int | None = None, statistics: tuple[int, int, int] | None = None
) -> dict[str, int]:
    figures = {"requested_bytes": requested, "banks": banks, "bytes_per_bank": need}
    if bank is not None:
        figures["bank_bytes"] = bank
    if statistics is not None:
        figures |= dict(zip(("allocated", "free", "largest_free"), statistics, strict=True))
    return figures


def summary(failure: Failure) -> tuple[str, str | None, str, dict[str, int], int | None]:
    return failure.failure_class, failure.memory, failure.template, dict(failure.numbers), failure.line


def test_all_generations_of_the_oom_line() -> None:
    assert [summary(failure) for failure in find_failures(read("oom-one-liners"))] == [
        (
            "oom/fragmented", "DRAM", "A3",
            oom(1050673152, 12, 87556096, 1073741792, (943941568, 129800224, 34201600)), 2,
        ),
        (
            "oom/fragmented", "DRAM", "A3",
            oom(141557760, 12, 11796480, 1070773184, (1058111680, 12661504, 6266880)), 3,
        ),
        (
            "oom/too-big", "DRAM", "A3",
            oom(44493176832, 8, 5561647104, 4273390016, (2263928320, 2009461696, 2002774720)), 4,
        ),
        (
            "oom/fragmented", "DRAM", "A3",
            oom(58720256, 12, 4894720, 1071821792, (888424448, 183397344, 3382944)), 5,
        ),
        ("oom/too-big", "L1_SMALL", "A2", oom(2162688, 64, 33792, 32768), 6),
        ("oom/too-big", "L1", "A2", oom(16777216, 8, 2097152, 1364928), 7),
        ("oom/unknown", "L1", "A1", oom(32768, 1, 32768), 8),
    ]  # fmt: skip


def test_clash_and_overflow_with_both_spellings_of_core_ranges() -> None:
    failures = find_failures(read("l1-clash-one-liners"))
    assert [(*summary(failure), failure.texts["core_range"]) for failure in failures] == [
        (
            "buffers/clash", "L1", "C1",
            {"program": 453, "l1_buffer_address": 622592, "region_end": 654368, "overlap_bytes": 31776}, 2,
            "[(x=0,y=0) - (x=4,y=0)]",
        ),
        (
            "buffers/overflow", "L1", "C2",
            {"region_end": 2101768, "l1_bytes": 1572864}, 3,
            "[(x=0,y=0) - (x=12,y=9)]",
        ),
        (
            "buffers/clash", "L1", "C1",
            {"program": 65868, "l1_buffer_address": 665600, "region_end": 890144, "overlap_bytes": 224544}, 4,
            "[(x=0,y=0) - (x=3,y=7)]",
        ),
        (
            "buffers/clash", "L1", "C1",
            {"program": 350188, "l1_buffer_address": 104448, "region_end": 107936, "overlap_bytes": 3488}, 5,
            "[0-0 - 7-7]",
        ),
    ]  # fmt: skip
    assert {failure.texts["buffer_family"] for failure in failures} == {"circular"}


def test_metal_and_pjrt_prints_are_one_failure() -> None:
    (failure,) = find_failures(read("tt-xla-issue4685-oom-metal-and-pjrt"))
    assert failure == Failure(
        failure_class="oom/fragmented",
        memory="DRAM",
        message="Out of Memory: Not enough space to allocate 3294625792 B DRAM buffer across 12 banks, where each bank "
        "needs to store 274686208 B, but bank size is 1071821792 B (allocated: 784847680 B, free: 286974112 B, "
        "largest free block: 216504544 B)",
        template="A3",
        numbers=oom(3294625792, 12, 274686208, 1071821792, (784847680, 286974112, 216504544)),
        texts={"file": "bank_manager.cpp:462"},
        line=2,
    )


def test_exception_text_with_backtrace() -> None:
    (failure,) = find_failures(read("tt-xla-issue5494-oom-backtrace"))
    assert summary(failure) == (
        "oom/capacity",
        "DRAM",
        "A3",
        oom(1050673152, 12, 87556096, 1070773184, (999249056, 71524128, 71231936)),
        4,
    )
    assert failure.texts == {"file": "bank_manager.cpp:462"}


def test_second_generation_with_a_progress_bar_between_its_prints() -> None:
    (failure,) = find_failures(read("tt-metal-issue31211-oom-v2"), include_other=True)
    assert summary(failure) == ("oom/unknown", "DRAM", "A2", oom(131072000, 12, 10924032, 1073741792), 2)
    assert failure.texts == {"file": "bank_manager.cpp:433"}


def test_first_generation_behind_a_pytest_margin() -> None:
    (failure,) = find_failures(read("tt-torch-issue727-oom-v1-pytest"), include_other=True)
    assert summary(failure) == ("oom/unknown", "DRAM", "A1", oom(5805965312, 12, 483831808), 4)
    assert failure.texts == {"file": "bank_manager.cpp:141"}


def test_runtime_assert_is_told_only_on_request() -> None:
    text = read("tt-mlir-issue1680-runtime-fatal")
    assert find_failures(text) == []
    (failure,) = find_failures(text, include_other=True)
    assert failure == Failure(
        failure_class="none",
        memory=None,
        message="DEBUG_ASSERT @ upsample.cpp:28: false",
        template="R1",
        texts={"file": "upsample.cpp:28", "condition": "false"},
        line=2,
    )


def test_logs_without_a_memory_failure_have_none() -> None:
    for name in (
        "multihost-prefix",
        "tt-mlir-issue2602-ops",
        "tt-mlir-issue3383-conv2d-l1-sharded",
        "tt-mlir-pr5967-program-level-debug",
        "tt-xla-issue494-callsite-loc",
        "tt-xla-pjrt-error-lines",
    ):
        assert find_failures(read(name)) == [], name


def test_line_numbers_count_from_where_the_text_begins() -> None:
    (failure,) = find_failures(read("tt-xla-issue5494-oom-backtrace"), first_line=1001)
    assert failure.line == 1004
