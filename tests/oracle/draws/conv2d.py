# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.conv2d``."""

from __future__ import annotations

from typing import Any

from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.conv2d import format_convolution
from ttmem.twin.operations.record import OperationRecord, Step


def draw_conv2d(record: OperationRecord, choose: Choose) -> list[Step]:
    """As models have them: kernels of one pixel, with a stride, dilated, depthwise, in groups, in patches."""
    size = choose.one_of((1, 1, 2, 3, 3, 3, 5, 7))
    stride, padding = choose.one_of((1, 1, 2, size)), choose.one_of((0, size // 2))
    dilation = choose.one_of((1, 1, 1, 2)) if size > 1 and stride == 1 else 1
    height, width = (choose.one_of((7, 14, 28, 33, 56)) for _ in range(2))
    channels, out = choose.one_of((3, 16, 32, 64, 100, 256)), choose.one_of((8, 32, 64, 72, 256, 512))
    groups = choose.one_of((1, 1, 1, channels))
    more: dict[str, Any] = {"padding": [padding] * 2, "dilation": [dilation] * 2, "groups": groups}
    if record.name == "conv_transpose2d":
        more["output_padding"] = [choose.integer(0, stride - 1)] * 2
    if choose.integer(0, 1):
        more |= _draw_choices(choose)
    if record.name != "conv2d":
        more.pop("slice_config", None)
    batch = choose.one_of((1, 1, 1, 2, 3))
    if not choose.integer(0, 5):
        more["given"] = {"shape": [batch, height, width, channels], "layout": choose.one_of(("tile", "row_major"))}
    first, *rest = format_convolution(
        record.name,
        {"batch_size": batch, "input_height": height, "input_width": width},
        channels,
        out if groups == 1 else channels,
        kernel_size=[size] * 2,
        stride=[stride] * 2,
        has_bias=bool(choose.integer(0, 1)),
        dtype=choose.one_of(("bfloat16", "bfloat16", "float32")),
        memory=choose.one_of(("L1", "DRAM")),
        **more,
    )
    if choose.integer(0, 19):
        return [first, *rest]
    return [{"host": first["alloc"], **{name: first[name] for name in ("shape", "dtype", "layout")}}, *rest]


def _draw_choices(choose: Choose) -> dict[str, Any]:
    """As hand-written models have them."""
    flags = ("deallocate_activation", "reallocate_halo_output", "enable_act_double_buffer")
    config: Step = {
        name: bool(choose.integer(0, 1))
        for name in (*flags, "enable_weights_double_buffer", "reshard_if_not_optimal", "full_inner_dim")
        if not choose.integer(0, 2)
    }
    if kind := choose.one_of(("", "HEIGHT", "BLOCK", "WIDTH")):
        config["shard_layout"] = {"attribute": f"ttnn.TensorMemoryLayout.{kind}_SHARDED"}
    if rows := choose.one_of((0, 0, 32, 64, 96, 160)):
        config["act_block_h_override"] = rows
    if dtype := choose.one_of(("", "bfloat16", "bfloat8_b")):
        config["weights_dtype"] = {"dtype": dtype}
    if not choose.integer(0, 4):
        config["enable_kernel_stride_folding"] = False
    if not choose.integer(0, 3):
        relu = {"attribute": "ttnn.UnaryOpType.RELU"}
        config["activation"] = {"new": "ttnn.UnaryWithParam", "args": [relu], "kwargs": {}}
    if layout := choose.one_of(("", "", "tile", "row_major")):
        config["output_layout"] = {"layout": layout}
    more: Step = {"conv_config": {"new": "ttnn.Conv2dConfig", "kwargs": config}}
    if not choose.integer(0, 2):
        sums = {name: bool(choose.integer(0, 1)) for name in ("fp32_dest_acc_en", "packer_l1_acc")}
        more["compute_config"] = {"new": "ttnn.WormholeComputeKernelConfig", "kwargs": sums}
    if not choose.integer(0, 3):
        more["slice_config"] = {"attribute": "ttnn.Conv2dL1FullSliceConfig"}
    for name in ("return_output_dim", "return_weights_and_bias"):
        if not choose.integer(0, 2):
            more[name] = True
    return more


def draw_conv1d(record: OperationRecord, choose: Choose) -> list[Step]:
    kernel, channels = choose.one_of((2, 3, 4, 5)), choose.one_of((16, 32, 40, 128, 256))
    groups = choose.one_of((1, 1, channels))
    return format_convolution(
        record.name,
        {"batch_size": choose.one_of((1, 2)), "input_length": choose.one_of((30, 64, 200, 1500))},
        channels,
        channels if groups > 1 else choose.one_of((16, 64, 200)),
        kernel_size=kernel,
        stride=choose.one_of((1, 2)),
        padding=choose.one_of((0, kernel // 2)),
        dilation=choose.one_of((1, 1, 2)),
        groups=groups,
        has_bias=bool(choose.integer(0, 1)),
        memory=choose.one_of(("L1", "DRAM")),
    )


DRAWS: dict[str, Draw] = {
    "conv2d": draw_conv2d,
    "conv_transpose2d": draw_conv2d,
    "conv1d": draw_conv1d,
}
