# SPDX-License-Identifier: Apache-2.0
"""Convolutions of compiled modules as calls: weights from the host or prepared, and the configuration object."""

from collections.abc import Mapping
from typing import Any

from ttmem.prediction.compiled.activations import fused_activation

_SIZES = ("in_channels", "out_channels", "batch_size", "input_height", "input_width", "kernel_size", "stride")
_MORE = ("padding", "dilation", "groups", "output_padding")
_FLAGS = (
    *("deallocate_activation", "reallocate_halo_output", "config_tensors_in_dram", "act_block_h_override"),
    *("act_block_w_div", "reshard_if_not_optimal", "override_sharding_config", "transpose_shards"),
    *("enable_act_double_buffer", "enable_weights_double_buffer", "enable_kernel_stride_folding"),
)
_SLICES = {"dram_height": "DRAMSliceHeight", "dram_width": "DRAMSliceWidth", "l1_full": "L1Full"}


def convolution_options(name: str, properties: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """Keywords of ``conv2d`` and ``conv_transpose2d`` beside tensors."""
    options: dict[str, Any] = {"device": {"device": 0}, "dtype": {"dtype": dtype}}
    options |= {key: properties[key] for key in (*_SIZES, *_MORE) if key in properties}
    config = properties.get("conv2d_config")
    if isinstance(config, Mapping):
        options["conv_config"] = {"new": "ttnn.Conv2dConfig", "kwargs": _configuration(config)}
    slices = properties.get("conv2d_slice_config")
    if name == "conv2d" and isinstance(slices, list) and len(slices) == 2 and slices[0] in _SLICES:
        options["slice_config"] = _sliced(_SLICES[slices[0]], slices[1])
    return options


def _sliced(kind: str, count: int) -> dict[str, Any]:
    if kind == "L1Full":
        return {"attribute": "ttnn.Conv2dL1FullSliceConfig"}
    slice_type = {"attribute": f"ttnn.Conv2dSliceConfig.SliceTypeEnum.{kind}"}
    number = {"num_slices": count} if count else {}
    return {"new": "ttnn.Conv2dSliceConfig", "kwargs": {"slice_type": slice_type, **number}}


def _configuration(config: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {key: config[key] for key in _FLAGS if key in config}
    if "weights_dtype" in config:
        options["weights_dtype"] = {"dtype": _DATA_TYPES.get(config["weights_dtype"], "bfloat16")}
    if "shard_layout" in config:
        options["shard_layout"] = {"attribute": f"ttnn.TensorMemoryLayout.{str(config['shard_layout']).upper()}"}
    if config.get("output_layout") in ("tile", "row_major"):
        options["output_layout"] = {"layout": config["output_layout"]}
    if activation := fused_activation(config.get("activation")):
        options["activation"] = activation
    return options


_DATA_TYPES = {"bf16": "bfloat16", "f32": "float32", "bfp_bf8": "bfloat8_b", "bfp_bf4": "bfloat4_b"}
