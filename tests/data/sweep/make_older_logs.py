# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501  (lines as tools print them)
"""Writes the hand-made logs of this folder in the forms that pytest and the older test scripts print.

Traps on purpose: every outcome stands in the log and again in pytest's summary; log lines hold the words ERROR and
FAILED; a skip hides an out-of-memory or a wrong argument; a file has no test at all; a teardown fails after a pass;
parameters hold blanks and brackets; a log ends in the middle of a test; DRAM and L1 failures share a file.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent / "older_logs"
FRAMES = "backtrace:\n --- tt::tt_metal::BankManager::allocate_buffer(unsigned long, unsigned long)\n --- python(+0x1)"


def oom(total: int, memory: str, banks: int, per_bank: int) -> str:
    return (
        f"Out of Memory: Not enough space to allocate {total} B {memory} buffer across {banks} banks, where each bank "
        f"needs to store {per_bank} B"
    )


def thrown(sentence: str) -> str:
    return f"TT_THROW @ /src/tt_metal/impl/allocator/bank_manager.cpp:141: tt::exception\ninfo:\n{sentence}\n{FRAMES}"


def log(name: str, body: str, summary: str, counted: str) -> None:
    head = (
        "2025-08-18 19:08:54.952 | info     |   SiliconDriver | Opened PCI device 0\n"
        "============================= test session starts ==============================\n"
        "platform linux -- Python 3.10.12, pytest-7.2.2\ncollecting ... collected items\n\n"
    )
    tail = (
        f"=========================== short test summary info ============================\n{summary}"
        if summary
        else ""
    )
    end = f"======================== {counted} in 12.34s =========================\n"
    (HERE / name).write_text(f"{head}{body}\n{tail}{end}")


def clampmin() -> None:
    """Ten lines of two OOMs, two plain failures: 2 OOM, 2 failed, 0 passed."""
    cases = (([1, 3, 2176, 3840], 534773760, 8355840), ([1, 96, 1088, 1920], 401080320, 6266880))
    body, summary = "", ""
    for number, (shape, total, per_bank) in enumerate(cases):
        sentence = oom(total, "L1", 64, per_bank)
        body += (
            f"tests/test_clampmin.py::test_clampmin[input_shape{number}] 2025-08-18 19:08:58.663 | critical |          Always | "
            f"{sentence} (assert.hpp:107)\nSKIPPED (OOM: {shape} - {thrown(sentence)})\n"
        )
        summary += f"SKIPPED [1] tests/test_clampmin.py:52: OOM: {shape} - {thrown(sentence)}\n"
    for number in (2, 3):
        body += (
            f"tests/test_clampmin.py::test_clampmin[input_shape{number}] 2025-08-18 19:09:01.001 | ERROR    | Op | retry FAILED once\n"
            "FAILED\n"
        )
        summary += f"FAILED tests/test_clampmin.py::test_clampmin[input_shape{number}] - TypeError: clip(): missing 1 required argument\n"
    block = "".join(
        f"________________________ test_clampmin[input_shape{number}] ________________________\n"
        "    def test_clampmin(device, input_shape):\n>       ttnn.clip(x)\nE       TypeError: clip(): missing 1 required argument\n"
        for number in (2, 3)
    )
    body += f"=================================== FAILURES ===================================\n{block}"
    log("test_clampmin_results.txt", body, summary, "2 failed, 2 skipped")


def add() -> None:
    """Three passes, an OOM in DRAM, an OOM in L1, a clash, a teardown error after a pass: 3 passed, 3 memory, 1 failed."""
    dram, l1 = oom(16777216000, "DRAM", 12, 1398102016), oom(802160640, "L1", 64, 12533760)
    clash = (
        "Statically allocated circular buffers in program 7 clash with L1 buffers on core range [0-0 - 7-7]. L1 buffer "
        "allocated at 106496 and static circular buffer region ends at 118112"
    )
    body = (
        "tests/test_add.py::test_add[shape=[1, 32, 64, 64]-dram] PASSED [ 12%]\n"
        "tests/test_add.py::test_add[shape=[1, 32, 64, 64]-l1] PASSED [ 25%]\n"
        "tests/test_add.py::test_add[1x64x64x64-bf16] some line of the program\nPASSED\n"
        "tests/test_add.py::test_add[shape=[160, 100, 512, 1, 1]-dram] FAILED [ 50%]\n"
        "tests/test_add.py::test_add[shape=[1, 96, 2176, 1920]-l1] FAILED [ 62%]\n"
        "tests/test_add.py::test_add[shape=[1, 42471, 512]-l1] FAILED [ 75%]\n"
        "tests/test_add.py::test_add[teardown] PASSED [ 87%]\n"
        "tests/test_add.py::test_add[teardown] ERROR [100%]\n"
        "==================================== ERRORS ====================================\n"
        "_______________________ ERROR at teardown of test_add[teardown] ________________\n"
        "E       RuntimeError: device was left open\n"
        "=================================== FAILURES ===================================\n"
    )
    for name, sentence in (
        ("shape=[160, 100, 512, 1, 1]-dram", dram), ("shape=[1, 96, 2176, 1920]-l1", l1), ("shape=[1, 42471, 512]-l1", clash),
    ):  # fmt: skip
        body += f"_____ test_add[{name}] _____\n>       ttnn.add(a, b)\nE       RuntimeError: TT_THROW @ x.cpp:1: tt::exception\n"
        body += f"E       info:\nE       {sentence}\n"
    summary = (
        "PASSED tests/test_add.py::test_add[shape=[1, 32, 64, 64]-dram]\n"
        "PASSED tests/test_add.py::test_add[shape=[1, 32, 64, 64]-l1]\n"
        "PASSED tests/test_add.py::test_add[1x64x64x64-bf16]\n"
        "PASSED tests/test_add.py::test_add[teardown]\n"
        "ERROR tests/test_add.py::test_add[teardown] - RuntimeError: device was left open\n"
        "FAILED tests/test_add.py::test_add[shape=[160, 100, 512, 1, 1]-dram] - RuntimeError: TT_THROW @ x.cpp:1: tt::exception\n"
        "FAILED tests/test_add.py::test_add[shape=[1, 96, 2176, 1920]-l1] - RuntimeError: TT_THROW @ x.cpp:1: tt::exception\n"
        "FAILED tests/test_add.py::test_add[shape=[1, 42471, 512]-l1] - RuntimeError: TT_THROW @ x.cpp:1: tt::exception\n"
    )
    log("test_add_results.txt", body, summary, "3 failed, 4 passed, 1 error")


def others() -> None:
    log("test_bmm_results.txt", "", "", "no tests ran")
    reason = "incompatible function arguments. The following argument types are supported: expand(...)"
    log(
        "test_expand_results.txt",
        f"tests/test_expand.py::test_expand[input_shape0] SKIPPED ({reason})\n"
        "tests/test_expand.py::test_expand[input_shape1] SKIPPED (needs two devices)\n",
        f"SKIPPED [1] tests/test_expand.py:31: {reason}\nSKIPPED [1] tests/test_expand.py:31: needs two devices\n",
        "2 skipped",
    )
    sentence = oom(131072000, "L1", 64, 2048000)
    log(
        "relu_results.txt",  # a quiet run: dots, and everything else in the summary
        "tests/test_relu.py ..sss\n",
        f"SKIPPED [3] tests/test_relu.py:40: OOM: [1, 3, 1088, 1920] - {thrown(sentence)}\n"
        "PASSED tests/test_relu.py::test_relu[a]\nPASSED tests/test_relu.py::test_relu[b]\n",
        "2 passed, 3 skipped",
    )
    (HERE / "test_tanh_results.txt").write_text(
        "============================= test session starts ==============================\n"
        "tests/test_tanh.py::test_tanh[input_shape0] PASSED\ntests/test_tanh.py::test_tanh[input_shape1] opening the device\n"
    )


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    clampmin()
    add()
    others()
