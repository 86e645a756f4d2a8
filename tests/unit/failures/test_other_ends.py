# SPDX-License-Identifier: Apache-2.0
"""Deaths of processes, timeouts, the host's memory, and errors that have nothing to do with memory."""

from __future__ import annotations

import pytest

from ttmem.failures.diagnosis.diagnose import explain
from ttmem.failures.failure import Failure
from ttmem.failures.text.find import find_failures


def told(text: str, *, include_other: bool = False) -> list[tuple[str, str | None]]:
    return [(f.failure_class, f.texts.get("signal")) for f in find_failures(text, include_other=include_other)]


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ("Fatal Python error: Segmentation fault\n\nThread 0x00007f (most recent call first):", "SIGSEGV"),
        ("Segmentation fault (core dumped)", "SIGSEGV"),
        ("Segmentation fault", "SIGSEGV"),
        ("Fatal Python error: Aborted", "SIGABRT"),
        ("Aborted (core dumped)", "SIGABRT"),
        ("Bus error (core dumped)", "SIGBUS"),
        ("Illegal instruction (core dumped)", "SIGILL"),
        ("Killed", "SIGKILL"),
        ("./run.sh: line 12: 12345 Killed                  python model.py", "SIGKILL"),
        ("/tmp/x.sh: line 3:   815 Segmentation fault      (core dumped) python model.py --batch 8", "SIGSEGV"),
        ("zsh: segmentation fault (core dumped)  python model.py", "SIGSEGV"),
        ("zsh: killed     python model.py", "SIGKILL"),
        ("mpirun noticed that process rank 1 exited on signal 11 (Segmentation fault).", "SIGSEGV"),
        ("[host:815] Signal: Segmentation fault (11)", "SIGSEGV"),
        ("subprocess.CalledProcessError: Command 'x' died with <Signals.SIGABRT: 6>.", "SIGABRT"),
        ("*** SIGSEGV received at time=1757 on cpu 3 ***", "SIGSEGV"),
        ("Process finished with exit code 139 (interrupted by signal 11: SIGSEGV)", "SIGSEGV"),
        ("Command 'pytest' returned non-zero exit status 139.", "SIGSEGV"),
        ("Exit code: 134", "SIGABRT"),
        ("terminate called after throwing an instance of 'std::runtime_error'", "SIGABRT"),
    ],
)
def test_a_dead_process_is_a_crash_with_its_signal(text: str, signal: str) -> None:
    assert told(text) == [("crash", signal)]


@pytest.mark.parametrize(
    "text",
    [
        "##[error]Process completed with exit code 137.",
        "container exited with code 137",
        "exit code 137",
        "exit status 137",
        "ERROR: Job failed: exit status 137",
        "Error: waiting for process: exit status: 137",
        "subprocess.CalledProcessError: Command 'pytest' returned non-zero exit status 137.",
        "make: *** [Makefile:7: test] Error 137",
        "command terminated with exit code 137",
        'b2c4 ttnn "python run.py" 2 hours ago Exited (137) 5 minutes ago',
        "script returned exit code 137",
        "Exit code: 137",
        "./run.sh: line 12: 12345 Killed                  python model.py\nexit status 137",
    ],
)
def test_a_status_of_137_is_most_likely_the_hosts_memory_and_says_its_doubt(text: str) -> None:
    (told,) = explain(text)
    assert (told.failure.failure_class, told.failure.texts["signal"]) == ("host/memory", "SIGKILL")
    assert (told.confidence, told.failure.numbers["exit_code"]) == ("likely", 137)
    assert "most likely the host ran out of memory" in told.headline
    assert "a kill by hand" in told.headline
    assert "ask-the-kernel" in {remedy.id for remedy in told.remedies}


@pytest.mark.parametrize(
    "text",
    [
        "The worker was Killed by the operator.",
        "Killed 3 stale processes",
        "a Segmentation fault in the simulator was fixed in the last release",
        "Aborted: the user pressed q",
        "Process completed with exit code 1.",
        "exit code 0",
        "exited with code 1370",
        "the exit code 137 means that the kernel ended it",
        "INFO - oom_score_adj is 300",
    ],
)
def test_the_words_alone_are_no_death(text: str) -> None:
    assert told(text, include_other=True) == []


def test_prints_of_one_death_are_one_crash() -> None:
    text = (
        "Fatal Python error: Segmentation fault\n\n"
        "run.sh: line 2: 77 Segmentation fault (core dumped) python x\n"
        "exit code: 139"
    )
    (failure,) = find_failures(text)
    assert (failure.texts["signal"], dict(failure.numbers), failure.line) == ("SIGSEGV", {"exit_code": 139}, 1)


def test_only_the_kernel_can_say_that_the_host_ran_out_of_memory() -> None:
    # GIVEN the kernel's report and the shell's word for the same death
    text = "[ 815.1] Out of memory: Killed process 4242 (python3) total-vm:67108864kB, anon-rss:65011712kB\nKilled"
    # THEN it is the host's memory, told once
    (failure,) = find_failures(text)
    assert failure.failure_class == "host/memory"
    assert failure.numbers == {"pid": 4242}
    assert failure.texts == {"killer": "kernel", "signal": "SIGKILL", "process": "python3"}


@pytest.mark.parametrize(
    "text",
    [
        "Memory cgroup out of memory: Killed process 12 (python) total-vm:1kB",
        "kernel: python invoked oom-killer: gfp_mask=0x1100dca(GFP_HIGHUSER_MOVABLE), order=0",
        "UMD: Mapping a hugepage failed. (device: 0, 1/4 errno: Cannot allocate memory).",
        "ttSiliconDevice::init_hugepage: no huge page mount found for hugepage_size: 1073741824.",
        "UMD: Failed to allocate memory for device/host shared buffer (size: 4096 errno: 12).",
        "Hugepage auxiliary region exhausted: requested 64 bytes (64 aligned), 32 of 32 used",
        "RuntimeError: tt_tlb_alloc failed with error code -12 for TLB size 2097152",
        "Failed to allocate TLB window of size 2097152",
        "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 4398046511104 bytes.",
        "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\nAborted",
        "MemoryError",
    ],
)
def test_the_hosts_own_shortages(text: str) -> None:
    assert [failure.failure_class for failure in find_failures(text, include_other=True)] == ["host/memory"]


@pytest.mark.parametrize(
    "text",
    [
        "| critical | Always | TT_THROW: TIMEOUT: device timeout, potential hang detected, the device is unrecoverable",
        "E   Failed: Timeout (>300.0s) from pytest-timeout.",
        "E   Failed: Timeout >300.0s",
        "subprocess.TimeoutExpired: Command 'python x' timed out after 30 seconds",
    ],
)
def test_timeouts(text: str) -> None:
    assert told(text, include_other=True) == [("timeout", None)]


def test_an_abort_is_how_an_uncaught_failure_ends() -> None:
    text = (
        "2026-07-18 00:48:19.094 | critical |          Always | TT_THROW: TIMEOUT: device timeout, potential hang "
        "detected, the device is unrecoverable (assert.hpp:104)\n"
        "terminate called after throwing an instance of 'std::runtime_error'\n"
        "  what():  TT_THROW @ /__w/tt_metal/impl/dispatch/system_memory_manager.cpp:765: tt::exception\n"
        "info:\nTIMEOUT: device timeout, potential hang detected, the device is unrecoverable\n\n"
        "Fatal Python error: Aborted\n"
    )
    assert told(text, include_other=True) == [("timeout", None)]


def test_a_segmentation_fault_after_a_failure_is_told_too() -> None:
    text = "Number of shards along width 8 must not exceed number of cores 7\nSegmentation fault (core dumped)"
    assert told(text) == [("shard/spec", None), ("crash", "SIGSEGV")]


def test_an_exception_of_unknown_wording_is_told_once_and_only_on_request() -> None:
    text = (
        "2026-07-18 00:48:19.094 | critical | Always | TT_FATAL: Input must be tiled, got ROW_MAJOR (assert.hpp:104)\n"
        "RuntimeError: TT_FATAL @ /home/x/ttnn/operations/op.cpp:31: input.layout() == Layout::TILE\n"
        "info:\n"
        "Input must be tiled, got ROW_MAJOR\n"
        "backtrace:\n"
        " --- ttnn::operations::f()\n"
    )
    assert find_failures(text) == []
    assert find_failures(text, include_other=True) == [
        Failure(
            failure_class="none",
            memory=None,
            message="Input must be tiled, got ROW_MAJOR",
            template="X1",
            texts={"file": "op.cpp:31", "condition": "input.layout() == Layout::TILE"},
            line=1,
        )
    ]


def test_a_message_of_several_lines() -> None:
    text = "TT_FATAL @ a/op.cpp:31: ok\ninfo:\nfirst line\nsecond line\n\nunrelated\n"
    (failure,) = find_failures(text, include_other=True)
    assert failure.message == "first line second line"


def test_an_exception_without_a_message_tells_its_condition() -> None:
    (failure,) = find_failures("RuntimeError: TT_ASSERT @ a/op.cpp:31: x == y\nbacktrace:\n --- f", include_other=True)
    assert (failure.message, failure.template) == ("TT_ASSERT @ op.cpp:31: x == y", "X1")


def test_runtime_assert_with_a_memory_message_is_classified_by_it() -> None:
    text = (
        "\x1b[32m                 Always\x1b[0m | \x1b[1m\x1b[31m   FATAL\x1b[0m | Out of Memory: Not enough "
        "space to allocate 2048 B L1 buffer across 2 banks, where each bank needs to store 1024 B\n"
        "\x1b[1mLOG_FATAL @ /code/runtime.cpp:12: false\nbacktrace:\n --- f\n\x1b[0m"
    )
    (failure,) = find_failures(text, include_other=True)
    assert (failure.failure_class, failure.memory, failure.template) == ("oom/unknown", "L1", "A1")


def test_runtime_assert_of_unknown_wording() -> None:
    text = "      Always |    FATAL | Unsupported data type\nDEBUG_ASSERT @ /code/types.cpp:7: false\nbacktrace:\n"
    (failure,) = find_failures(text, include_other=True)
    assert (failure.failure_class, failure.template, failure.message) == ("none", "R1", "Unsupported data type")
    assert failure.texts == {"file": "types.cpp:7", "condition": "false"}


def test_warnings_are_marked() -> None:
    text = (
        "2026-05-14 01:00:31.755 | warning  |           Metal | Allocating device buffers is potentially unsafe due "
        "to the existence of an active trace. Use the trace allocation tracker to verify. (allocator.cpp:12)"
    )
    (failure,) = find_failures(text)
    assert (failure.failure_class, failure.is_warning) == ("trace/unsafe", True)


def test_an_optimisers_rejected_layouts_are_told_once_and_only_alone() -> None:
    rejected = "Not enough L1 memory. totalL1Usage: {} [overallPeakL1Usage=1, additionalL1Usage=2] limit: 3"
    text = "\n".join(rejected.format(usage) for usage in range(1000, 1100))
    (failure,) = find_failures(text)
    assert (failure.failure_class, failure.is_warning, failure.numbers["required_bytes"]) == (
        "compile/memory",
        True,
        1000,
    )
    assert told(text + "\nNumber of shards along width 8 must not exceed number of cores 7") == [("shard/spec", None)]


def test_a_compile_refusal_holds_its_reason() -> None:
    text = (
        "OperationValidationAndFallback: Operation ttnn.conv2d failed validation (original error: 3 - Out of Memory: "
        "Not enough space to allocate 64 B L1 buffer across 2 banks, where each bank needs to store 32 B). No fallback "
        "configuration worked (tested up to 12 combinations)."
    )
    (failure,) = find_failures(text)
    assert (failure.failure_class, dict(failure.numbers)) == ("compile/memory", {"combinations": 12})
    assert failure.texts["reason"].startswith("3 - Out of Memory")


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("bias.value().buffer() != nullptr", "Bias tensor buffer must not be null"),
        ("tensor->is_allocated()", "gate_proj: nothing to read"),
        ("shapes.size() == 2", "Gamma must be allocated on device."),
        ("ok", "Expected the mask to be allocated"),
        ("ok", "Input h_prev buffer should be allocated on device"),
        ("ok", "Tensor does not have buffer (on device but deallocated)"),
    ],
)
def test_an_assertion_of_any_wording_that_asks_for_memory_is_use_after_free(condition: str, message: str) -> None:
    text = f"TT_FATAL @ /b/op.cpp:55: {condition}\ninfo:\n{message}\nbacktrace:\n --- f"
    assert told(text, include_other=True) == [("lifetime/use-after-free", None)]
    if condition in ("ok", "shapes.size() == 2"):  # as the logger prints it: without its condition
        assert told(f"TT_FATAL: {message} (assert.hpp:104)", include_other=True) == [("lifetime/use-after-free", None)]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("!output.is_allocated()", "output was given twice"),
        ("ok", "weight must be allocated with an NdShardSpec"),
        ("a == b", "Output tensor must be allocated on the same mesh device as the input"),
        ("ok", "Expect input tensor to be deallocated after move op"),
    ],
)
def test_an_assertion_about_something_else_is_not(condition: str, message: str) -> None:
    text = f"TT_FATAL @ /b/op.cpp:55: {condition}\ninfo:\n{message}\nbacktrace:\n --- f"
    assert told(text, include_other=True) == [("none", None)]
