# SPDX-License-Identifier: Apache-2.0
"""What a log or traceback names around a failure."""

from __future__ import annotations

import pytest

from ttmem.failures.diagnosis.diagnose import explain
from ttmem.failures.text.context import Context, KnownTensor, read_context
from unit.failures.test_harmless import OPERATION

PYTEST = """\
tests/ttnn/test_x.py::test_conv[device_params={'l1_small_size': 16384}-batch_size=8]
2026-05-14 01:00:31.755 | critical | Always | TT_THROW: Statically allocated circular buffers in program 10594 clash \
with L1 buffers on core range [0-0 - 7-7]. L1 buffer allocated at 709760 and static circular buffer region ends at \
1364672 (assert.hpp:104)
self = FastOperation(python_fully_qualified_name='ttnn.conv2d', function=<ttnn._ttnn>)
function_args = (ttnn.Tensor([..], shape=Shape([1, 1, 131072, 64]), dtype=DataType::BFLOAT16, layout=Layout::TILE),)
E       RuntimeError: TT_THROW @ /home/alice/tt-metal/tt_metal/impl/program/program.cpp:1779: tt::exception
E       info:
E       Statically allocated circular buffers in program 10594 clash with L1 buffers on core range [0-0 - 7-7]. L1 \
buffer allocated at 709760 and static circular buffer region ends at 1364672
E       backtrace:
E        --- /home/alice/venv/lib/_ttnncpp.so(+0x16da2ea) [0x7fcb00]
E        --- tt::tt_metal::detail::ProgramImpl::validate_circular_buffer_region(tt::tt_metal::IDevice const*)
E        --- ttnn::operations::conv::conv2d::Conv2dDeviceOperation::create_program(int)
FAILED tests/ttnn/test_x.py::test_conv[device_params={'l1_small_size': 16384}-batch_size=8] - RuntimeError: TT_THROW @ \
/home/alice/tt-metal/tt_metal/impl/program/program.cpp:1779: tt::exception
"""


def test_a_pytest_log_names_test_operation_settings_and_tensors() -> None:
    assert read_context(PYTEST) == Context(
        operation="ttnn.conv2d",
        test="tests/ttnn/test_x.py::test_conv[device_params={'l1_small_size': 16384}-batch_size=8]",
        family="conv",
        settings={"l1_small_size": 16384},
        tensors=(KnownTensor((1, 1, 131072, 64), "bfloat16", "tile"),),
        frames=(
            "tt::tt_metal::detail::ProgramImpl::validate_circular_buffer_region",
            "ttnn::operations::conv::conv2d::Conv2dDeviceOperation::create_program",
        ),
    )


def test_a_pytest_log_is_one_failure_with_its_context() -> None:
    (diagnosis,) = explain(PYTEST)
    assert (diagnosis.failure.failure_class, diagnosis.failure.line) == ("buffers/clash", 2)
    assert diagnosis.context.operation == "ttnn.conv2d"
    remedy = {item.id: item for item in diagnosis.remedies}["smaller-l1-small-lifts-tensors"]
    assert (remedy.saves_bytes_per_bank, remedy.solves) == (16384, False)
    # Advice for other operations is left out when the operation is known.
    assert "matmul-config" not in {item.id for item in diagnosis.remedies}


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        (OPERATION, "ttnn.add"),
        ('Executing operation: "ttnn.deallocate"(%5) <{force = false}> : (tensor<1xbf16>)', "ttnn.deallocate"),
        ("--- ttnn::prim::softmax(int)", "ttnn.softmax"),
        ("--- void ttnn::LayerNormDeviceOperation::run()", "ttnn.layer_norm"),
        ("    out = ttnn.linear(x, w, bias=b)", "ttnn.linear"),
        ("x = ttnn.Tensor(y)", ""),
        ("nothing of interest", ""),
    ],
)
def test_operations(text: str, operation: str) -> None:
    assert read_context(text).operation == operation


def test_tensors_of_an_operation_line() -> None:
    (tensor,) = read_context(OPERATION).tensors[:1]
    assert tensor == KnownTensor((32, 32), "bfloat16", "tile")


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        ("running on wormhole_b0", {"architecture": "wormhole"}),
        ("Blackhole and blackhole again", {"architecture": "blackhole"}),
        ("wormhole or blackhole", {}),
        ("the n150 in rack 3", {"board": "n150"}),
        ("an n150 and a p150a", {}),
        ("status: FAIL_L1_OUT_OF_MEM", {"sweep_status": "FAIL_L1_OUT_OF_MEM"}),
    ],
)
def test_words_that_name_a_board(text: str, hints: dict[str, str]) -> None:
    assert read_context(text).hints == hints


def test_a_tensor_named_in_the_text_is_recognised_by_its_bytes() -> None:
    text = (
        "args = (ttnn.Tensor([..], shape=Shape([8192, 7168]), dtype=DataType::BFLOAT16, layout=Layout::TILE),)\n"
        "E  Out of Memory: Not enough space to allocate 117440512 B DRAM buffer across 12 banks, where each bank needs "
        "to store 9787392 B, but bank size is 1073741792 B (allocated: 976657856 B, free: 97083936 B, largest free "
        "block: 4587840 B)"
    )
    (diagnosis,) = explain(text)
    assert diagnosis.tensor is not None
    assert (diagnosis.tensor.confidence, diagnosis.tensor.shape) == ("certain", (8192, 7168))
