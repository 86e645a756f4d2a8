# SPDX-License-Identifier: Apache-2.0
"""Text that tells of no failure gives none, and ordinary log lines do not even get a second look."""

from __future__ import annotations

import pytest

from support.failure_messages import DATA
from ttmem.failures.text.find import find_failures
from ttmem.failures.text.scan import FAILURE_WORDS, ShapeFilter, split_shapes

PROSE = [
    "An engineer meets `Out of Memory: Not enough space to allocate ...` and reads logs by eye.",
    "Catch it with expect_error(RuntimeError, 'Out of Memory|clash with L1 buffers').",
    "Statically allocated circular buffers may clash with L1 buffers; move the tensor to DRAM.",
    "The circular buffers grow beyond max L1 size when in0_block_w is too large, so choose a smaller one.",
    "Before the op runs we check that the Tensor is not allocated twice.",
    "Memory usage was fine, no out of memory error was seen, nothing was killed.",
    "12 passed, 3 skipped (Skipping test because it won't fit in L1!) in 4.21s",
    "Set trace_region_size to a non-zero value and l1_small_size to 32768.",
    "TT_METAL_HOME=/opt/tt-metal TT_LOGGER_LEVEL=error python model.py",
    "Error rate 0.013; the largest free block of DRAM is 3382944 B.",
    "x = ttnn.to_memory_config(x, ttnn.DRAM_MEMORY_CONFIG)  # avoids the L1 buffer clash",
]

OPERATION = (
    "\x1b[32m            RuntimeTTNN\x1b[0m | \x1b[1m\x1b[38;5;240m   DEBUG\x1b[0m | Executing operation: %7 = "
    '"ttnn.add"(%5, %6) : (tensor<32x32xbf16, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, '
    "memref<1x1x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<dram>>, <interleaved>>>) -> tensor<32x32xbf16> "
    'loc("add.3")'
)
VIEW = (
    "                 Always |     INFO | Device DRAM memory state: MemoryView{numBanks: 12, "
    "totalBytesPerBank: 1024.000 MB, totalBytesAllocatedPerBank: 0.008 MB, totalBytesFreePerBank: 1023.992 MB, "
    "largestContiguousBytesFreePerBank: 1023.992 MB}"
)
LOG_LINES = [
    OPERATION,
    VIEW,
    '       RuntimeTTNN |    DEBUG | Executing operation: "ttnn.deallocate"(%5) <{force = false}> : (tensor<1xbf16>)',
    "                 Always |     INFO | Device memory state before operation EltwiseBinaryOp",
    "                 Always |     INFO | Device memory state after submit",
    "            RuntimeTTNN |    DEBUG | Starting execution of program: main",
    "            RuntimeTTNN |    DEBUG | Finished execution of program: main_const_eval_17",
    "                 Always |    DEBUG | Device grid size = { 8, 8 }",
    "                 Always |  WARNING | getting output tensor is not supported for GetDeviceOp",
    "2026-05-14 01:00:00.006 | info     |           Metal | Program cache: 2934 entries (mesh_device.cpp:173)",
    "2026-05-14 01:00:00.014 (   0.014s) [        4F4456C0]    buffer_instance.cc:343      1| BufferInstance::copy",
    "2025-03-26 16:36:46,812 - DEBUG - executing golden comparison",
    "decode:  37%|####      | 632/1000 [00:01<00:09, 12.1it/s]",
]


@pytest.mark.parametrize("text", PROSE)
def test_prose_about_failures_is_no_failure(text: str) -> None:
    assert find_failures(text, include_other=True) == []


def test_prose_stays_harmless_in_company() -> None:
    assert find_failures("\n".join(PROSE), include_other=True) == []


@pytest.mark.parametrize("line", LOG_LINES, ids=range(len(LOG_LINES)))
def test_ordinary_log_lines_have_no_failure_word_and_no_failure(line: str) -> None:
    assert ShapeFilter().find(split_shapes(line.encode())) == set()
    assert find_failures(line, include_other=True) == []


def test_every_line_of_the_excerpts_that_begins_a_failure_has_a_failure_word() -> None:
    for path in sorted((DATA / "real-logs").iterdir()):
        lines = path.read_text().split("\n")
        for failure in find_failures("\n".join(lines), include_other=True):
            if failure.template.startswith("W"):
                continue  # wrappers need no second look: what they wrap has one
            assert failure.line is not None
            assert any(word in lines[failure.line - 1].encode() for word in FAILURE_WORDS), (path.name, failure)


def test_failure_words_can_be_looked_up_without_digits() -> None:
    assert not [word for word in FAILURE_WORDS if any(chr(byte).isdigit() for byte in word)]
    assert len(set(FAILURE_WORDS)) == len(FAILURE_WORDS)
