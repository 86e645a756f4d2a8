# SPDX-License-Identifier: Apache-2.0
"""Failures: every generation of the texts, each failure once, tied to its operation or to no program at all."""

from __future__ import annotations

import pytest

from support.log_lines import DEVICE, TWO_MB, Log
from ttmem.analysis.failure import RunFailure, failure, failures
from ttmem.base.errors import BadInputError
from unit.readers.test_programs import ADD, LOAD, OUT_OF_MEMORY, TO_DEVICE

NEEDS = (
    "Out of Memory: Not enough space to allocate 3294625792 B DRAM buffer across 12 banks, where each bank needs to "
    "store 274686208 B"
)
OVERFLOW = (
    "TT_THROW: Statically allocated circular buffers on core range [0-0 - 1-1] grow to 2101768 B which is beyond max "
    "L1 size of 1572864 B"
)
STATISTICS = "(allocated: 784847680 B, free: 286974112 B, largest free block: 216504544 B)"
REQUEST = {"requested_bytes": 3294625792, "banks": 12, "bytes_per_bank": 274686208}
ALL = {
    **REQUEST,
    "bank_bytes": 1071821792,
    "allocated": 784847680,
    "free": 286974112,
    "largest_free": 216504544,
}


def failing(*lines: str) -> list[RunFailure]:
    """The failures of a run whose second operation prints these lines."""
    log = Log()
    log.start()
    log.op(DEVICE, 2.0)
    log.op(ADD, 2.0)
    for line in lines:
        log.line(line)
    return failures(log.profile())


@pytest.mark.parametrize(
    ("text", "memory", "numbers"),
    [
        pytest.param(NEEDS, "DRAM", REQUEST, id="first generation"),
        pytest.param(
            f"{NEEDS}, but bank size is only 1071821792 B",
            "DRAM",
            {**REQUEST, "bank_bytes": 1071821792},
            id="second generation",
        ),
        pytest.param(f"{NEEDS}, but bank size is 1071821792 B {STATISTICS}", "DRAM", ALL, id="third generation"),
        pytest.param(
            "Out of Memory: Not enough space after considering dependencies to allocate 3294625792 B DRAM across 12 "
            "banks (274686208 B per bank)",
            "DRAM",
            REQUEST,
            id="dependencies",
        ),
        pytest.param(
            "Out of Memory: Not enough space after considering dependencies to allocate 3294625792 B DRAM across 12 "
            f"banks (274686208 B per bank), bank size is 1071821792 B {STATISTICS}",
            "DRAM",
            ALL,
            id="dependencies with statistics",
        ),
        pytest.param(
            "Out of Memory: Not enough space to allocate 2162688 B L1_SMALL buffer across 64 banks, where each bank "
            "needs to store 33792 B, but bank size is only 32768 B",
            "L1_SMALL",
            {"requested_bytes": 2162688, "banks": 64, "bytes_per_bank": 33792, "bank_bytes": 32768},
            id="L1_SMALL",
        ),
    ],
)
@pytest.mark.parametrize(
    "envelope",
    [
        "2026-05-14 01:00:31.755 | critical |          Always | TT_FATAL: {} (assert.hpp:104)",
        "2025-10-27 10:48:41.750 | critical |          Always | {} (assert.hpp:103)",
        "                 Always | FATAL    | {}",
        "RuntimeError: TT_FATAL @ /x/bank_manager.cpp:462: false\ninfo:\n{}\nbacktrace:\n --- frame",
        (
            "E               RuntimeError: TT_THROW @ /x/bank_manager.cpp:141: tt::exception\nE               info:\n"
            "E               {}\nE               backtrace:\nE                --- frame"
        ),
    ],
    ids=["2026", "2025", "old logger", "exception", "pytest margin"],
)
def test_out_of_memory(text: str, memory: str, numbers: dict[str, int], envelope: str) -> None:
    (found,) = failing(*envelope.format(text).split("\n"))
    assert found.memory == memory
    assert {name: found.numbers[name] for name in numbers} == numbers
    assert found.failure_class.startswith("oom/")
    assert found.message == text
    assert (found.operation_index, found.operation_name, found.operation_location) == (1, "ttnn.add", "add.1")
    assert found.survived is False


def test_three_prints_of_one_failure_are_one_failure() -> None:
    # GIVEN the metal line, the PJRT line and Python's last words
    text = f"{NEEDS}, but bank size is 1071821792 B {STATISTICS}"
    (found,) = failing(
        OUT_OF_MEMORY,
        "2026-05-14 01:00:31.802 (2408.930s) [        4F4456C0]                utils.h:62     ERR| Exception:",
        "{TT_FATAL @ /x/tt_metal/impl/allocator/bank_manager.cpp:462: false",
        "info:",
        text,
        "backtrace:",
        " --- tt::tt_metal::BankManager::allocate_buffer(unsigned long)",
        "}",
        "Traceback (most recent call last):",
        '  File "model.py", line 42, in <module>',
        "RuntimeError: Error code: 13",
    )
    assert found.message == text
    assert dict(found.numbers) == ALL
    assert found.line == 14


@pytest.mark.parametrize("core_range", ["[(x=0,y=0) - (x=4,y=0)]", "[0-0 - 7-7]"], ids=["until 2026", "later"])
def test_clash_with_static_buffers(core_range: str) -> None:
    (found,) = failing(
        f"TT_THROW: Statically allocated circular buffers in program 453 clash with L1 buffers on core range "
        f"{core_range}. L1 buffer allocated at 622592 and static circular buffer region ends at 654368"
    )
    assert (found.failure_class, found.memory, found.operation_index) == ("buffers/clash", "L1", 1)
    assert found.numbers["l1_buffer_address"] == 622592
    assert found.numbers["region_end"] == 654368


def test_static_buffers_that_do_not_fit_at_all() -> None:
    (found,) = failing(
        "TT_THROW: Statically allocated circular buffers on core range [(x=0,y=0) - (x=12,y=9)] grow to 2101768 B "
        "which is beyond max L1 size of 1572864 B"
    )
    assert (found.failure_class, found.memory, found.operation_index) == ("buffers/overflow", "L1", 1)


def test_an_address_below_the_limit() -> None:
    (found,) = failing("TT_FATAL: Out of Memory: Cannot allocate at an address below 1048576. Allocation at 999424")
    assert (found.failure_class, found.operation_index) == ("oom/capacity", 1)


def test_a_fatal_record_of_the_runtime_goes_on_without_prefix() -> None:
    log = Log(colours=True)
    log.start()
    log.op(DEVICE, 2.0)
    log.op(ADD, 2.0)
    line = log.record("Always", "FATAL", "")
    log.line("\x1b[1mDEBUG_ASSERT @ /code/tt-mlir/runtime/lib/ttnn/operations/pool/upsample.cpp:28: false")
    log.line("backtrace:")
    log.line(" --- tt::runtime::ttnn::operations::pool::run(tt::target::ttnn::UpsampleOp const*)\x1b[0m")
    log.line("RuntimeError: Fatal error")
    found = failures(log.profile())
    assert [(item.failure_class, item.operation_index) for item in found] == [("none", 1)]
    assert found[0].line in (line, line + 1)
    assert "upsample.cpp" in found[0].texts.get("file", "") + found[0].message


def test_outside_any_program_no_operation_is_blamed() -> None:
    # GIVEN an upload after the run: the last operation is long done
    log = Log()
    log.start()
    log.op(ADD, 2.0)
    log.finish()
    number = log.line(OUT_OF_MEMORY)
    (found,) = failures(log.profile())
    assert (found.operation_index, found.operation_name, found.operation_location) == (None, "", "")
    assert (found.failure_class, found.line) == ("oom/fragmented", number)


def test_before_anything_ran_a_failure_alone_is_a_profile() -> None:
    log = Log()
    log.line(OUT_OF_MEMORY)
    profile = log.profile()
    (found,) = failures(profile)
    assert found.operation_index is None
    assert failure(profile) == found


def test_a_failure_in_a_nested_program_belongs_to_the_innermost_operation() -> None:
    log = Log()
    log.start()
    log.op(LOAD, 0.0)
    log.load_cached("main_const_eval_0", key="aa11", hit=False)
    log.start("main_const_eval_0")
    log.op(DEVICE, 0.0)
    log.op(TO_DEVICE, 0.0)
    log.line(OUT_OF_MEMORY)
    (found,) = failures(log.profile())
    assert (found.operation_index, found.operation_name) == (2, "ttnn.to_device")


def test_after_a_nested_program_ended_the_caller_is_running_again() -> None:
    log = Log()
    log.start()
    log.op(LOAD, 0.0)
    log.load_cached("main_const_eval_0", key="aa11", hit=False)
    log.start("main_const_eval_0")
    log.op(DEVICE, 0.0)
    log.finish("main_const_eval_0")
    log.line(OUT_OF_MEMORY)
    (found,) = failures(log.profile())
    assert (found.operation_index, found.operation_name) == (0, "ttcore.load_cached")


def test_logs_without_program_lines_blame_the_last_operation() -> None:
    log = Log()
    log.op(ADD, 0.0)
    log.line(OUT_OF_MEMORY)
    (found,) = failures(log.profile())
    assert found.operation_index == 0


def test_expected_errors_are_none() -> None:
    # GIVEN a test that brackets the error it provokes, and a real one after it
    log = Log()
    log.start()
    log.op(ADD, 0.0)
    log.line("[EXPECTED_ERROR BEGIN]")
    for _ in range(20):
        log.line("some output")
    log.line(OUT_OF_MEMORY)
    log.line("[EXPECTED_ERROR END]")
    assert failures(log.profile()) == []
    log.line(OVERFLOW)
    assert [found.failure_class for found in failures(log.profile())] == ["buffers/overflow"]


def test_two_failures_close_together_each_have_their_own_operation() -> None:
    # GIVEN operation lines only: the second failure is printed two lines after the first
    log = Log()
    log.start()
    log.op(DEVICE)
    log.line(OUT_OF_MEMORY)
    log.op(ADD)
    second = log.line(OVERFLOW)
    found = failures(log.profile())
    assert [(item.failure_class, item.operation_index, item.survived) for item in found] == [
        ("oom/fragmented", 0, True),
        ("buffers/overflow", 1, False),
    ]
    assert found[1].line == second
    # AND the one after which nothing ran is what ended the run
    assert failure(log.profile()) == found[1]


def test_a_failure_that_was_survived_is_shown_when_there_is_no_other() -> None:
    log = Log()
    log.start()
    log.op(DEVICE, 0.0)
    log.line(OUT_OF_MEMORY)
    log.op(ADD, 0.0)
    log.finish()
    profile = log.profile()
    found = failure(profile)
    assert found is not None
    assert (found.operation_index, found.survived) == (0, True)


def test_ranks_fail_by_themselves() -> None:
    # GIVEN two ranks whose lines alternate; rank 1 fails while rank 0 prints
    log = Log()
    for rank in (0, 1):
        log.prefix = f"[1,{rank}]<stdout>:"
        log.start()
        log.op(ADD, 2.0)
    log.line("[1,1]<stderr>:TT_FATAL @ /x/bank_manager.cpp:462: false")
    log.line("[1,0]<stdout>:nothing of interest")
    log.line("[1,1]<stderr>:info:")
    log.line(f"[1,0]<stderr>:{OVERFLOW}")
    log.line(f"[1,1]<stderr>:{NEEDS}")
    log.line("launcher: a process exited")
    found = failures(log.profile())
    assert [(item.rank, item.failure_class, item.operation_index) for item in found] == [
        (0, "buffers/overflow", 0),
        (1, "oom/unknown", 0),
    ]


def test_a_segmentation_fault_is_a_crash() -> None:
    (found,) = failing(
        "Fatal Python error: Segmentation fault", "", "Current thread 0x00007f (most recent call first):"
    )
    assert (found.failure_class, found.operation_index) == ("crash", 1)


@pytest.mark.parametrize(
    "text",
    [
        "all errors were handled",
        "INFO: retry on Out of Memory is enabled",
        '#loc7 = loc("-1|RuntimeErrorHandler|forward|3|aten__add")',
        "0 errors, 3 warnings",
    ],
)
def test_words_that_tell_of_no_failure(text: str) -> None:
    assert failing(text) == []


def test_a_run_without_failure_has_none() -> None:
    log = Log()
    log.start()
    log.op(f'%1 = "ttnn.add"(%arg0, %arg0) : ({TWO_MB}, {TWO_MB}) -> {TWO_MB} loc("RuntimeError.1")', 2.0)
    log.finish()
    assert failure(log.profile()) is None


def test_no_device_line_and_no_failure_is_bad_input() -> None:
    log = Log()
    log.line("hello")
    with pytest.raises(BadInputError, match="no line of a tt-mlir runtime log in 1 lines"):
        log.profile()
