# SPDX-License-Identifier: Apache-2.0
"""The operation of a text is the user's call, from whichever sign the text has, and never from template arguments."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ttmem.engines.interpreters import Interpreter
from ttmem.failures.diagnosis.diagnose import explain
from ttmem.failures.text.context import find_call, find_family, read_context

CLASH = (
    "TT_THROW: Statically allocated circular buffers in program 38 clash with L1 buffers on core range [0-0 - 7-7]. "
    "L1 buffer allocated at 875008 and static circular buffer region ends at 949664"
)
CONFIG = (
    "std::variant<ttnn::prim::LayerNormDefaultProgramConfig, ttnn::prim::LayerNormShardedMultiCoreProgramConfig> const&"
)
LAUNCH = "void ttnn::device_operation::detail::launch_operation_with_adapter<ttnn::device_operation"
BACKTRACES = {
    "the outermost call": (
        (
            "backtrace:\n"
            " --- tt::tt_metal::detail::ProgramImpl::validate_circular_buffer_region(tt::tt_metal::IDevice const*)\n"
            f" --- ttnn::prim::layer_norm(ttnn::Tensor const&, float, {CONFIG})\n"
            f" --- ttnn::rms_norm(ttnn::Tensor const&, float, {CONFIG})\n"
            " --- /usr/bin/python3(+0x15cb2e) [0x55d1a2]"
        ),
        "ttnn.rms_norm",
    ),
    "a call with its data moved inside": (
        (
            " --- ttnn::prim::tilize(ttnn::Tensor const&)\n --- ttnn::tilize(ttnn::Tensor const&)\n"
            " --- ttnn::conv_transpose2d(ttnn::Tensor const&, ttnn::Tensor const&)"
        ),
        "ttnn.conv_transpose2d",
    ),
    "two name spaces": (
        (
            f" --- {LAUNCH}::MeshDeviceOperationAdapter<ttnn::prim::SdpaDecodeDeviceOperation> >(int)\n"
            " --- ttnn::prim::sdpa_decode(ttnn::Tensor const&)\n"
            " --- ttnn::transformer::paged_scaled_dot_product_attention_decode(ttnn::Tensor const&, int)"
        ),
        "ttnn.transformer.paged_scaled_dot_product_attention_decode",
    ),
    "bare names, as people shorten them": (
        "  ttnn::prim::SdpaDecodeDeviceOperation\n  ttnn::transformer::paged_scaled_dot_product_attention_decode",
        "ttnn.transformer.paged_scaled_dot_product_attention_decode",
    ),
    "only what was launched": (
        f" --- {LAUNCH}::MeshDeviceOperationAdapter<ttnn::prim::SdpaDecodeDeviceOperation> >(int)",
        "ttnn.transformer.scaled_dot_product_attention_decode",
    ),
    "an older build": (
        " --- ttnn::operations::matmul::LinearOperation::invoke(ttnn::Tensor const&, ttnn::Tensor const&)",
        "ttnn.linear",
    ),
    "an older build's norm": (" --- ttnn::operations::normalization::ExecuteRMSNorm::invoke(int)", "ttnn.rms_norm"),
    "a mangled name": (" --- /x/_ttnncpp.so(_ZN4ttnn4prim7softmaxERKNS_6TensorE+0x1f) [0x7f10]", "ttnn.softmax"),
    "a mangled call": (" --- /x/_ttnncpp.so(_ZN4ttnn6linearERKNS_6TensorES3_+0x1f) [0x7f10]", "ttnn.linear"),
    "a device operation in a sentence": ("it fails inside `SliceDeviceOperation` while it is enqueued", "ttnn.slice"),
    "one that many calls share": (" --- ttnn::prim::unary(ttnn::Tensor const&)\n --- other", ""),
    "one that many calls share, below its call": (
        " --- ttnn::prim::unary(ttnn::Tensor const&)\n --- ttnn::gelu(ttnn::Tensor const&, bool)",
        "ttnn.gelu",
    ),
    "a cut name": (
        f" --- ttnn::prim::layer_norm(ttnn::Tensor const&, float, {CONFIG}\n --- ttnn::la",
        "ttnn.layer_norm",
    ),
    "frames with arrows": ("ttnn::tilize → MeshBuffer::create → BankManager::allocate_buffer", "ttnn.tilize"),
    "a cut name alone": (" --- ttnn::la", ""),
    "template arguments alone": (f" --- std::_Function_handler<void ({CONFIG})>::_M_invoke(std::_Any_data const&)", ""),
    "cut within template arguments": (
        " --- std::__detail::visit<std::variant<ttnn::prim::LayerNormDefaultProgramConfig",
        "",
    ),
    "tt-mlir's runtime": (
        " --- tt::runtime::ttnn::operations::conv::run(tt::target::ttnn::Conv2dOp const*)",
        "ttnn.conv2d",
    ),
    "tt-mlir's runtime, another name space": (
        " --- tt::runtime::ttnn::operations::normalization::run(tt::target::ttnn::SoftmaxOp const*, int)",
        "ttnn.softmax",
    ),
    "tt-mlir's runtime, an operation of several calls": (
        " --- tt::runtime::ttnn::operations::eltwise::run(tt::target::ttnn::EltwiseUnaryOp const*)",
        "",
    ),
    "an operation without the word device": (
        " --- ttnn::operations::moreh::moreh_layer_norm::MorehLayerNormOperation::invoke(ttnn::Tensor const&)",
        "ttnn.moreh_layer_norm",
    ),
    "one that was launched": (f" --- {LAUNCH}::Adapter<ttnn::MorehSumOperation> >(int)", "ttnn.moreh_sum"),
    "a call registered by its name": (
        (
            " --- ttnn::operations::sliding_window::halo::HaloDeviceOperation::validate(int)\n"
            " --- ttnn::decorators::registered_operation_t<reflect::v1_2_6::fixed_string<char, 16ul>"
            '{"ttnn::max_pool2d"}, ttnn::operations::pool::Pool2DOp>::operator()(ttnn::Tensor const&) const'
        ),
        "ttnn.max_pool2d",
    ),
    "a line of the compiler": (
        '%23 = "ttnn.slice_static"(%22) <{begins = [0 : i32]}> : (tensor<6x3x258112xf32, #ttnn_layout1>)',
        "ttnn.slice",
    ),
    "a line of the compiler, another name space": (
        '%9 = "ttnn.scaled_dot_product_attention"(%7, %8) : (tensor<1x8x32x64xbf16>)',
        "ttnn.transformer.scaled_dot_product_attention",
    ),
    "lines of the compiler": ('%2 = "ttnn.relu"(%1)\n%3 = "ttnn.sum"(%2)', ""),
}


def traceback(code: str, marks: str = "") -> str:
    below = f"    {marks}\n" if marks else ""
    site = '  File "/home/alice/model.py", line 41, in forward\n'
    return f"Traceback (most recent call last):\n{site}    {code}\n{below}RuntimeError: {CLASH}"


TRACEBACKS = {
    "a Python traceback": (
        (
            "Traceback (most recent call last):\n"
            '  File "/home/alice/model.py", line 41, in forward\n    y = self.attention(ttnn.reshape(x, shape))\n'
            '  File "/home/alice/attention.py", line 9, in attention\n'
            "    return ttnn.transformer.scaled_dot_product_attention(q, k, v)\n"
            f"RuntimeError: {CLASH}"
        ),
        "ttnn.transformer.scaled_dot_product_attention",
    ),
    "pytest's": (
        (
            "    def test_softmax(device):\n        x = ttnn.from_torch(t)\n        w = ttnn.linear(x, x)\n"
            ">       y = ttnn.softmax(x, dim=-1)\n\ntests/test_x.py:24: \n"
            f"E       RuntimeError: {CLASH}"
        ),
        "ttnn.softmax",
    ),
    "pytest's short form": (
        (
            "models/block.py:59: in __call__\n    x = self.conv(x)\n"
            "models/block.py:90: in __call__\n    [x, size] = ttnn.conv2d(\n"
            f"E       RuntimeError: {CLASH}"
        ),
        "ttnn.conv2d",
    ),
    "an upload": (
        (
            'Traceback (most recent call last):\n  File "m.py", line 3, in f\n    w = ttnn.from_torch(t)\n'
            '  File "/venv/lib/site-packages/ttnn/operations/core.py", line 288, in from_torch\n'
            f"    return ttnn.to_device(tensor, device)\nRuntimeError: {CLASH}"
        ),
        "ttnn.from_torch",
    ),
    "code and a message": (
        (
            "device = ttnn.open_device(device_id=0)\nx = ttnn.from_torch(t, device=device)\ny = ttnn.gelu(x)\n"
            f"ttnn.close_device(device)\n{CLASH}"
        ),
        "ttnn.gelu",
    ),
    "marks below the inner call": (
        traceback("x = ttnn.relu(ttnn.matmul(a, b))", "              ^^^^^^^^^^^^^^^^^"),
        "ttnn.matmul",
    ),
    "marks of Python 3.13 below the outer call": (
        traceback("x = ttnn.relu(ttnn.matmul(a, b))", "    ~~~~~~~~~^^^^^^^^^^^^^^^^^^^"),
        "ttnn.relu",
    ),
    "marks below another call": (traceback("x = block(ttnn.matmul(a, b))", "    ^^^^^^^^^^^^^^^^^^^^^^^^"), ""),
    "two calls without marks": (traceback("x = ttnn.relu(ttnn.matmul(a, b))"), ""),
    "a comment": (traceback("y = ttnn.topk(x, 5)  # was ttnn.softmax(x)"), "ttnn.topk"),
    "only a comment": (traceback("y = block(x)  # was ttnn.softmax(x)"), ""),
    "a string": (traceback('log("it\'s ttnn.gelu(x)"); y = ttnn.topk(x, 5)'), "ttnn.topk"),
    "code with a comment and a string": (
        f"y = ttnn.topk(x)  # not ttnn.gelu(x)\nlog('ttnn.exp(x)')\n{CLASH}",
        "ttnn.topk",
    ),
    "an argument that describes": (
        traceback("y = self.norm(x, memory_config=ttnn.create_sharded_memory_config((32, 32)))"),
        "",
    ),
    "an upload as an argument": (traceback("y = model(ttnn.from_torch(x))"), ""),
    "code that computes twice": (f"y = ttnn.gelu(x)\nz = ttnn.softmax(y)\n{CLASH}", ""),
    "a sentence": (f"ttnn.scatter_add runs out of memory for this model\n{CLASH}", "ttnn.scatter_add"),
}


@pytest.mark.parametrize(("text", "call"), BACKTRACES.values(), ids=BACKTRACES)
def test_backtraces(text: str, call: str) -> None:
    (diagnosis,) = explain(f"{CLASH}\n{text}\n")
    assert diagnosis.context.operation == call


@pytest.mark.parametrize(("text", "call"), TRACEBACKS.values(), ids=TRACEBACKS)
def test_tracebacks(text: str, call: str) -> None:
    (diagnosis,) = explain(text)
    assert diagnosis.context.operation == call


def test_of_two_failures_each_has_its_own_call() -> None:
    other = CLASH.replace("875008", "700000").replace("program 38", "program 41")
    text = f"{CLASH}\nbacktrace:\n --- ttnn::gelu(int)\n{other}\nbacktrace:\n --- ttnn::softmax(int)\n"
    assert [diagnosis.context.operation for diagnosis in explain(text)] == ["ttnn.gelu", "ttnn.softmax"]


OOM = (
    "TT_FATAL: Out of Memory: Not enough space to allocate 204800000 B DRAM buffer across 12 banks, where each bank "
    "needs to store 17088000 B, but bank size is 1073741792 B (allocated: 1063741792 B, free: 10000000 B, largest free "
    "block: 9000000 B)"
)
SOFTMAX = 'Traceback (most recent call last):\n  File "m.py", line 3, in f\n    y = ttnn.softmax(a)\n'


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (
            f"{SOFTMAX}RuntimeError: {OOM}\nretry\n{CLASH}\nbacktrace:\n --- ttnn::linear(int)\n",
            ["ttnn.softmax", "ttnn.linear"],
        ),
        (f"{OOM}\nbacktrace:\n --- ttnn::softmax(int)\n\n{CLASH}\n", ["ttnn.softmax", ""]),
        (f"{OOM}\n\n{SOFTMAX}RuntimeError: {CLASH}\n", ["", "ttnn.softmax"]),
        # The library's line and Python's are two prints of one failure.
        (
            f"critical | Always | {OOM}\n{SOFTMAX}RuntimeError: {OOM}\n{CLASH}\n --- ttnn::gelu(int)",
            ["ttnn.softmax", "ttnn.gelu"],
        ),
        (f'Executing operation: %1 = "ttnn.add"(%0)\n{OOM}\n{CLASH}\n --- ttnn::gelu(int)', ["ttnn.add", "ttnn.gelu"]),
    ],
)
def test_no_failure_has_the_call_of_another(text: str, calls: list[str]) -> None:
    assert [diagnosis.context.operation for diagnosis in explain(text)] == calls


@pytest.fixture(scope="module")
def ttnn_library(ttnn_interpreter: Interpreter) -> bytes:
    """The compiled operations of the published ttnn."""
    code = "import importlib.util; print(importlib.util.find_spec('ttnn').submodule_search_locations[0])"
    found = subprocess.run([ttnn_interpreter.path, "-c", code], capture_output=True, text=True, check=True)
    return (Path(found.stdout.strip()) / "build" / "lib" / "_ttnncpp.so").read_bytes()


def test_every_device_operation_of_the_published_ttnn_has_a_call(ttnn_library: bytes) -> None:
    mangled = re.findall(rb"(?<!\d)(\d{1,3})([A-Z]\w{3,120}?Operation)(?=E)", ttnn_library)
    names = {name.decode() for size, name in mangled if int(size) == len(name)}
    assert len(names) > 200
    unknown = {name for name in names if not find_call(name) and not find_family("", name)}
    assert unknown - WITHOUT_CALL == set()


WITHOUT_CALL = {
    *("DescriptorAdapterOperation", "OldInfraDeviceOperation"),
    *("ApplyDeviceDelayDeviceOperation", "FusionDispatchOpDeviceOperation", "RebankRmDeviceOperation"),
    "RebankRmMergeDeviceOperation",
}
"""Adapters of several operations, and steps that no call of ttnn names."""


def test_families_are_of_calls_and_of_device_operations_that_share_a_name() -> None:
    assert find_family("ttnn.transformer.paged_scaled_dot_product_attention_decode") == "attention"
    assert find_family("ttnn.conv_transpose2d") == "conv_transpose"
    assert find_family("ttnn.experimental.conv3d") == "conv3d"
    assert find_family("ttnn.max_pool2d") == "pool"
    assert find_family("", "ttnn::prim::UnaryDeviceOperation") == "elementwise"
    assert find_family("", "ReduceDeviceOperation") == "reduction"
    assert find_family("") == ""


def test_of_a_text_about_several_calls_none_is_taken() -> None:
    assert read_context("ttnn.gelu and ttnn.softmax both fail").operation == ""
