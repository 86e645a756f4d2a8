# SPDX-License-Identifier: Apache-2.0
"""Map operations of the ttnn dialect to calls of the library, and their properties to arguments.

One ``CallForm`` per operation. Most operations have the name that the library gives them and take nothing but tensors;
those are listed by name. What has no form here is not guessed at: its results are allocated as their types say.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


def convert_activation(said: Any) -> dict[str, Any] | None:
    """``#ttnn.unary_with_param<op_type = silu>``, or the bare name."""
    kind = said.get("op_type") if isinstance(said, Mapping) else said
    if not kind:
        return None
    kinds = {"attribute": f"ttnn.UnaryOpType.{str(kind).upper()}"}
    return {"new": "ttnn.UnaryWithParam", "args": [kinds], "kwargs": {}}


_GRID = "compute_with_storage_grid_size"
_NAMES = {"per_core_m": "per_core_M", "per_core_n": "per_core_N"}
_PRODUCTS = (
    ("mcast_in0", "ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig"),
    ("transpose_mcast", "ttnn.MatmulMultiCoreReuseMultiCastProgramConfig"),
    (_GRID, "ttnn.MatmulMultiCoreReuseProgramConfig"),
    ("per_core_m", "ttnn.MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig"),
)
"""A key that distinguishes a configuration from those below it, and its class."""
_UNSAID = ("hop_cores", "sub_core_grids")
"""Sets of cores that the compiler writes although they are empty."""
_FIDELITIES = {"lofi": "LoFi", "hifi2": "HiFi2", "hifi3": "HiFi3", "hifi4": "HiFi4"}


def convert_matmul_config(said: Any) -> dict[str, Any] | None:
    """``#ttnn.matmul_multi_core_reuse..._program_config`` of ``matmul`` and ``linear``."""
    if not isinstance(said, Mapping):
        return None
    made = next((name for sign, name in _PRODUCTS if sign in said), None)
    return None if made is None else {"new": made, "kwargs": _convert_options(said)}


def convert_attention_config(said: Any) -> dict[str, Any] | None:
    """``#ttnn.sdpa_program_config``."""
    if not isinstance(said, Mapping) or _GRID not in said:
        return None
    return {"new": "ttnn.SDPAProgramConfig", "kwargs": _convert_options(said)}


def convert_kernel_config(said: Any) -> dict[str, Any] | None:
    """``#ttnn.device_compute_kernel_config``; all architectures take the same object."""
    if not isinstance(said, Mapping):
        return None
    options: dict[str, Any] = {
        key: value for key, value in said.items() if key != "math_fidelity" and isinstance(value, bool)
    }
    if said.get("math_fidelity") in _FIDELITIES:
        options["math_fidelity"] = {"attribute": f"ttnn.MathFidelity.{_FIDELITIES[said['math_fidelity']]}"}
    return {"new": "ttnn.WormholeComputeKernelConfig", "kwargs": options}


def _convert_options(said: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for key, value in said.items():
        if key in _UNSAID or value is None:
            continue
        if key == _GRID:
            options[key] = {"tuple": value}
        elif key == "fused_activation":
            if activation := convert_activation(value):
                options[key] = activation
        else:
            options[_NAMES.get(key, key)] = value
    return options


_SIZES = ("in_channels", "out_channels", "batch_size", "input_height", "input_width", "kernel_size", "stride")
_MORE = ("padding", "dilation", "groups", "output_padding")
_FLAGS = (
    *("deallocate_activation", "reallocate_halo_output", "config_tensors_in_dram", "act_block_h_override"),
    *("act_block_w_div", "reshard_if_not_optimal", "override_sharding_config", "transpose_shards"),
    *("enable_act_double_buffer", "enable_weights_double_buffer", "enable_kernel_stride_folding"),
)
_SLICES = {"dram_height": "DRAMSliceHeight", "dram_width": "DRAMSliceWidth", "l1_full": "L1Full"}


def convert_convolution(name: str, properties: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """Convert the properties of ``conv2d`` and ``conv_transpose2d`` into keywords."""
    options: dict[str, Any] = {"device": {"device": 0}, "dtype": {"dtype": dtype}}
    options |= {key: properties[key] for key in (*_SIZES, *_MORE) if key in properties}
    config = properties.get("conv2d_config")
    if isinstance(config, Mapping):
        options["conv_config"] = {"new": "ttnn.Conv2dConfig", "kwargs": _convert_conv_config(config)}
    slices = properties.get("conv2d_slice_config")
    if name == "conv2d" and isinstance(slices, list) and len(slices) == 2 and slices[0] in _SLICES:
        options["slice_config"] = _convert_slices(_SLICES[slices[0]], slices[1])
    return options


def _convert_slices(kind: str, count: int) -> dict[str, Any]:
    if kind == "L1Full":
        return {"attribute": "ttnn.Conv2dL1FullSliceConfig"}
    slice_type = {"attribute": f"ttnn.Conv2dSliceConfig.SliceTypeEnum.{kind}"}
    number = {"num_slices": count} if count else {}
    return {"new": "ttnn.Conv2dSliceConfig", "kwargs": {"slice_type": slice_type, **number}}


def _convert_conv_config(config: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {key: config[key] for key in _FLAGS if key in config}
    if "weights_dtype" in config:
        options["weights_dtype"] = {"dtype": _DATA_TYPES.get(config["weights_dtype"], "bfloat16")}
    if "shard_layout" in config:
        options["shard_layout"] = {"attribute": f"ttnn.TensorMemoryLayout.{str(config['shard_layout']).upper()}"}
    if config.get("output_layout") in ("tile", "row_major"):
        options["output_layout"] = {"layout": config["output_layout"]}
    if activation := convert_activation(config.get("activation")):
        options["activation"] = activation
    return options


_DATA_TYPES = {"bf16": "bfloat16", "f32": "float32", "bfp_bf8": "bfloat8_b", "bfp_bf4": "bfloat4_b"}


Properties = Mapping[str, Any]
Value = Any
Convert = Callable[[Any], Value]


def _same(value: Any) -> Value:
    return value


def _tuple(value: Any) -> Value:
    return {"tuple": value}


def _one_or_all(value: Any) -> Value:
    """Return a single dimension of a reduction as a number."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _pairs(value: Any) -> Value:
    """Split ``[0, 1, 0, 2]`` into before and after of each dimension."""
    return {"tuple": [{"tuple": value[at : at + 2]} for at in range(0, len(value), 2)]}


def _padding(value: Any) -> Value:
    """Reorder top, left, bottom, right to the library's top, bottom, left, right."""
    if not isinstance(value, list) or len(value) != 4:
        return value
    top, left, bottom, right = value
    return [top, left] if (top, left) == (bottom, right) else [top, bottom, left, right]


@dataclass(frozen=True, slots=True)
class CallForm:
    """The call for an operation."""

    call: str
    """Name without ``ttnn.``."""
    tensors: tuple[str, ...] = ()
    """Of the operands in order: the keyword, or empty for a tensor that is given by position. Operands beyond are
    given by position; ``*``: all of them as one list."""
    values: tuple[tuple[str, Convert], ...] = ()
    """Properties passed by position after the tensors."""
    options: Mapping[str, tuple[str, Convert]] = field(default_factory=dict)
    """Keyword -> property; left out if the operation does not have it."""
    fixed: Mapping[str, Value] = field(default_factory=dict)
    gives_dtype: bool = False
    """Pass the data type of the result if it differs from the first tensor's."""
    gives_memory: bool = True
    """Pass the memory configuration of the result."""
    gives_layout: bool = False
    in_place: bool = False
    """It writes into its first tensor and creates none."""


def _map_options(**named: str | tuple[str, Convert]) -> dict[str, tuple[str, Convert]]:
    return {keyword: (said, _same) if isinstance(said, str) else said for keyword, said in named.items()}


_UNARY = """abs acos acosh asin asinh atan atanh bitwise_not cbrt ceil cos erf erfc exp expm1 floor gelu hardsigmoid
hardswish isfinite log log1p log2 logical_not mish neg reciprocal relu relu6 rsqrt sigmoid sign silu sin softplus
softsign sqrt square tan tanh"""
_BINARY = "add subtract multiply divide"
_COMPARISONS = """eq ne gt ge lt le logical_and logical_or logical_xor maximum minimum remainder atan2 bitwise_and
bitwise_or bitwise_xor logical_left_shift logical_right_shift"""
_REDUCTIONS = "sum mean max min"
_POOL = {
    **_map_options(batch_size="batch_size", input_h="input_height", input_w="input_width", channels="channels"),
    **_map_options(kernel_size="kernel_size", stride="stride", padding=("padding", _padding), ceil_mode="ceil_mode"),
}
_NORM = ("", "weight", "bias")
_KERNEL = _map_options(compute_kernel_config=("compute_config", convert_kernel_config))
_MATMUL = {
    **_map_options(transpose_a="transpose_a", transpose_b="transpose_b", activation="activation"),
    **_map_options(program_config=("matmul_program_config", convert_matmul_config)),
    **_KERNEL,
}
_HEADS = _map_options(num_heads="num_heads", num_kv_heads="num_kv_heads", transpose_k_heads="transpose_k_heads")
_ATTENTION = {
    **_map_options(is_causal="is_causal", scale="scale", sliding_window_size="sliding_window_size"),
    **_map_options(program_config=("program_config", convert_attention_config)),
    **_KERNEL,
}

CALL_FORMS: dict[str, CallForm] = {
    **{name: CallForm(name) for name in _UNARY.split()},
    **{name: CallForm(name, gives_dtype=True) for name in _BINARY.split()},
    **{name: CallForm(name) for name in _COMPARISONS.split()},
    **{
        name: CallForm(name, options=_map_options(dim=("dim_arg", _one_or_all), keepdim="keep_dim"))
        for name in _REDUCTIONS.split()
    },
    "leaky_relu": CallForm("leaky_relu", values=(("parameter", _same),)),
    "pow_scalar": CallForm("pow", values=(("rhs", _same),)),
    "pow_tensor": CallForm("pow"),
    "clamp_scalar": CallForm("clamp", options=_map_options(min="min", max="max")),
    "clamp_tensor": CallForm("clamp", ("", "min", "max")),
    "where": CallForm("where"),
    "typecast": CallForm("typecast", values=(("result dtype", _same),)),
    "to_dtype": CallForm("typecast", values=(("result dtype", _same),)),
    "to_layout": CallForm("to_layout", values=(("result layout", _same),), gives_dtype=True),
    "to_memory_config": CallForm("to_memory_config"),
    "reshape": CallForm("reshape", values=(("result shape", _same),)),
    "permute": CallForm("permute", values=(("permutation", _tuple),)),
    "transpose": CallForm("transpose", values=(("dim0", _same), ("dim1", _same))),
    "concat": CallForm("concat", ("*",), values=(("dim", _same),)),
    "slice_static": CallForm("slice", values=(("begins", _same), ("ends", _same), ("step", _same))),
    "pad": CallForm("pad", values=(("padding", _pairs), ("value", _same))),
    "repeat": CallForm("repeat", values=(("repeat_dims", lambda dims: {"shape": dims}),)),
    "repeat_interleave": CallForm("repeat_interleave", values=(("repeats", _same), ("dim", _same))),
    "softmax": CallForm(
        "softmax", values=(("dimension", _same),), options={**_map_options(numeric_stable="numericStable"), **_KERNEL}
    ),
    "argmax": CallForm("argmax", options=_map_options(dim="dim", keepdim="keep_dim")),
    "cumsum": CallForm("cumsum", options=_map_options(dim="dim"), gives_memory=False),
    "sort": CallForm("sort", options=_map_options(dim="dim", descending="descending", stable="stable")),
    "topk": CallForm("topk", values=(("k", _same), ("dim", _same))),
    "gather": CallForm("gather", ("", "index"), values=(("dim", _same),)),
    "matmul": CallForm("matmul", options=_MATMUL, gives_dtype=True),
    "linear": CallForm("linear", ("", "", "bias"), options=_MATMUL, gives_dtype=True),
    "rms_norm": CallForm("rms_norm", _NORM, options={**_map_options(epsilon="epsilon"), **_KERNEL}),
    "layer_norm": CallForm("layer_norm", _NORM, options={**_map_options(epsilon="epsilon"), **_KERNEL}),
    "batch_norm_inference": CallForm(
        "batch_norm",
        ("", "running_mean", "running_var", "weight", "bias"),
        options=_map_options(eps="epsilon"),
        fixed={"training": False},
    ),
    "embedding": CallForm("embedding", gives_layout=True),
    "max_pool2d": CallForm("max_pool2d", ("input_tensor",), options={**_POOL, **_map_options(dilation="dilation")}),
    "avg_pool2d": CallForm(
        "avg_pool2d", ("input_tensor",), options={**_POOL, **_map_options(count_include_pad="count_include_pad")}
    ),
    "global_avg_pool2d": CallForm("global_avg_pool2d"),
    "upsample": CallForm("upsample", values=(("scale_factor", _same),), options=_map_options(mode="mode")),
    "nlp_concat_heads": CallForm("experimental.nlp_concat_heads"),
    "nlp_concat_heads_decode": CallForm(
        "experimental.nlp_concat_heads_decode", options=_map_options(num_heads="num_heads"), gives_memory=False
    ),
    "nlp_create_qkv_heads": CallForm("experimental.nlp_create_qkv_heads", options=_HEADS),
    "nlp_create_qkv_heads_decode": CallForm("experimental.nlp_create_qkv_heads_decode", options=_HEADS),
    "concatenate_heads": CallForm("transformer.concatenate_heads"),
    "split_query_key_value_and_split_heads": CallForm(
        "transformer.split_query_key_value_and_split_heads",
        ("", "kv_input_tensor"),
        options=_map_options(num_heads="num_heads", num_kv_heads="num_kv_heads", transpose_key="transpose_key"),
    ),
    "scaled_dot_product_attention": CallForm(
        "transformer.scaled_dot_product_attention", ("", "", "", "attn_mask", "attention_sink"), options=_ATTENTION
    ),
    "scaled_dot_product_attention_decode": CallForm(
        "transformer.scaled_dot_product_attention_decode",
        ("", "", "", "attn_mask", "cur_pos_tensor", "attention_sink"),
        options=_ATTENTION,
    ),
    "paged_scaled_dot_product_attention_decode": CallForm(
        "transformer.paged_scaled_dot_product_attention_decode",
        ("", "", "", "page_table_tensor", "attn_mask", "cur_pos_tensor", "attention_sink"),
        options=_ATTENTION,
    ),
    "rotary_embedding": CallForm("experimental.rotary_embedding"),
    "rotary_embedding_llama": CallForm(
        "experimental.rotary_embedding_llama", options=_map_options(is_decode_mode="is_decode_mode")
    ),
    "fill_cache": CallForm("fill_cache", values=(("batch_offset", _same),), gives_memory=False, in_place=True),
    "paged_update_cache": CallForm(
        "experimental.paged_update_cache",
        ("", "", "update_idxs_tensor", "page_table"),
        options=_map_options(share_cache="share_cache"),
        gives_memory=False,
        in_place=True,
    ),
    "paged_fill_cache": CallForm(
        "experimental.paged_fill_cache",
        ("", "", "", "batch_idx_tensor"),
        options=_map_options(batch_idx="batch_offset"),
        gives_memory=False,
        in_place=True,
    ),
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CREATED = _words("empty full zeros ones constant arange rand zeros_like ones_like full_like create_global_semaphore")
"""Create a tensor from nothing: they allocate their result alone."""

UPLOADS = _words("to_device distribute_tensor load_tensor load_weight")
"""Upload a host tensor: they allocate their result alone."""

PREPARED = _words(
    """prepare_conv2d_weights prepare_conv2d_bias prepare_conv3d_weights prepare_conv_transpose2d_weights
    prepare_conv_transpose2d_bias"""
)
"""Weights prepared on the host, once."""

SILENT = _words(
    """get_device open_device close_device deallocate from_device dump_tensor aggregate_tensor write_tensor
    begin_trace_capture end_trace_capture execute_trace reset_global_semaphore"""
)
"""Allocate nothing on the device."""

SAME_TENSOR = _words("to_tensor_spec mesh_shard")
"""Their result may be their input with another type."""
