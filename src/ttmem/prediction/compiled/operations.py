# SPDX-License-Identifier: Apache-2.0
"""Which call of the library an operation of the ttnn dialect is, and how its properties become arguments.

One ``Form`` per operation. Most operations have the name that the library gives them and take nothing but tensors;
those are listed by name. What has no form here is not guessed at: its results are allocated as their types say.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ttmem.prediction.compiled.program_configs import attention_config, kernel_config, product_config

Properties = Mapping[str, Any]
Value = Any
Convert = Callable[[Any], Value]


def _same(value: Any) -> Value:
    return value


def _tuple(value: Any) -> Value:
    return {"tuple": value}


def _one_or_all(value: Any) -> Value:
    """Dimensions of a reduction: one as a number, as programs write it."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _pairs(value: Any) -> Value:
    """``[0, 1, 0, 2]``: before and after, dimension by dimension."""
    return {"tuple": [{"tuple": value[at : at + 2]} for at in range(0, len(value), 2)]}


def _padding(value: Any) -> Value:
    """Four sides of a window come as top, left, bottom, right; the library takes top, bottom, left, right."""
    if not isinstance(value, list) or len(value) != 4:
        return value
    top, left, bottom, right = value
    return [top, left] if (top, left) == (bottom, right) else [top, bottom, left, right]


@dataclass(frozen=True, slots=True)
class Form:
    """How an operation is called."""

    call: str
    """In the library, without ``ttnn.``."""
    tensors: tuple[str, ...] = ()
    """Of the operands in order: the keyword, or empty for a tensor that is given by position. Operands beyond are
    given by position; ``*``: all of them as one list."""
    values: tuple[tuple[str, Convert], ...] = ()
    """Properties that follow the tensors by position."""
    options: Mapping[str, tuple[str, Convert]] = field(default_factory=dict)
    """Keyword -> property; left out when the operation does not have it."""
    fixed: Mapping[str, Value] = field(default_factory=dict)
    gives_dtype: bool = False
    """Whether it is told the data type of its result, where that is not its first tensor's."""
    gives_memory: bool = True
    """Whether it is told where its result goes."""
    gives_layout: bool = False
    in_place: bool = False
    """Whether it writes into its first tensor and makes none."""


def _options(**named: str | tuple[str, Convert]) -> dict[str, tuple[str, Convert]]:
    return {keyword: (said, _same) if isinstance(said, str) else said for keyword, said in named.items()}


_UNARY = """abs acos acosh asin asinh atan atanh bitwise_not cbrt ceil cos erf erfc exp expm1 floor gelu hardsigmoid
hardswish isfinite log log1p log2 logical_not mish neg reciprocal relu relu6 rsqrt sigmoid sign silu sin softplus
softsign sqrt square tan tanh"""
_BINARY = "add subtract multiply divide"
_COMPARISONS = """eq ne gt ge lt le logical_and logical_or logical_xor maximum minimum remainder atan2 bitwise_and
bitwise_or bitwise_xor logical_left_shift logical_right_shift"""
_REDUCTIONS = "sum mean max min"
_POOL = {
    **_options(batch_size="batch_size", input_h="input_height", input_w="input_width", channels="channels"),
    **_options(kernel_size="kernel_size", stride="stride", padding=("padding", _padding), ceil_mode="ceil_mode"),
}
_NORM = ("", "weight", "bias")
_KERNEL = _options(compute_kernel_config=("compute_config", kernel_config))
_MATMUL = {
    **_options(transpose_a="transpose_a", transpose_b="transpose_b", activation="activation"),
    **_options(program_config=("matmul_program_config", product_config)),
    **_KERNEL,
}
_HEADS = _options(num_heads="num_heads", num_kv_heads="num_kv_heads", transpose_k_heads="transpose_k_heads")
_ATTENTION = {
    **_options(is_causal="is_causal", scale="scale", sliding_window_size="sliding_window_size"),
    **_options(program_config=("program_config", attention_config)),
    **_KERNEL,
}

FORMS: dict[str, Form] = {
    **{name: Form(name) for name in _UNARY.split()},
    **{name: Form(name, gives_dtype=True) for name in _BINARY.split()},
    **{name: Form(name) for name in _COMPARISONS.split()},
    **{
        name: Form(name, options=_options(dim=("dim_arg", _one_or_all), keepdim="keep_dim"))
        for name in _REDUCTIONS.split()
    },
    "leaky_relu": Form("leaky_relu", values=(("parameter", _same),)),
    "pow_scalar": Form("pow", values=(("rhs", _same),)),
    "pow_tensor": Form("pow"),
    "clamp_scalar": Form("clamp", options=_options(min="min", max="max")),
    "clamp_tensor": Form("clamp", ("", "min", "max")),
    "where": Form("where"),
    "typecast": Form("typecast", values=(("result dtype", _same),)),
    "to_dtype": Form("typecast", values=(("result dtype", _same),)),
    "to_layout": Form("to_layout", values=(("result layout", _same),), gives_dtype=True),
    "to_memory_config": Form("to_memory_config"),
    "reshape": Form("reshape", values=(("result shape", _same),)),
    "permute": Form("permute", values=(("permutation", _tuple),)),
    "transpose": Form("transpose", values=(("dim0", _same), ("dim1", _same))),
    "concat": Form("concat", ("*",), values=(("dim", _same),)),
    "slice_static": Form("slice", values=(("begins", _same), ("ends", _same), ("step", _same))),
    "pad": Form("pad", values=(("padding", _pairs), ("value", _same))),
    "repeat": Form("repeat", values=(("repeat_dims", lambda dims: {"shape": dims}),)),
    "repeat_interleave": Form("repeat_interleave", values=(("repeats", _same), ("dim", _same))),
    "softmax": Form(
        "softmax", values=(("dimension", _same),), options={**_options(numeric_stable="numericStable"), **_KERNEL}
    ),
    "argmax": Form("argmax", options=_options(dim="dim", keepdim="keep_dim")),
    "cumsum": Form("cumsum", options=_options(dim="dim"), gives_memory=False),
    "sort": Form("sort", options=_options(dim="dim", descending="descending", stable="stable")),
    "topk": Form("topk", values=(("k", _same), ("dim", _same))),
    "gather": Form("gather", ("", "index"), values=(("dim", _same),)),
    "matmul": Form("matmul", options=_MATMUL, gives_dtype=True),
    "linear": Form("linear", ("", "", "bias"), options=_MATMUL, gives_dtype=True),
    "rms_norm": Form("rms_norm", _NORM, options={**_options(epsilon="epsilon"), **_KERNEL}),
    "layer_norm": Form("layer_norm", _NORM, options={**_options(epsilon="epsilon"), **_KERNEL}),
    "batch_norm_inference": Form(
        "batch_norm",
        ("", "running_mean", "running_var", "weight", "bias"),
        options=_options(eps="epsilon"),
        fixed={"training": False},
    ),
    "embedding": Form("embedding", gives_layout=True),
    "max_pool2d": Form("max_pool2d", ("input_tensor",), options={**_POOL, **_options(dilation="dilation")}),
    "avg_pool2d": Form(
        "avg_pool2d", ("input_tensor",), options={**_POOL, **_options(count_include_pad="count_include_pad")}
    ),
    "global_avg_pool2d": Form("global_avg_pool2d"),
    "upsample": Form("upsample", values=(("scale_factor", _same),), options=_options(mode="mode")),
    "nlp_concat_heads": Form("experimental.nlp_concat_heads"),
    "nlp_concat_heads_decode": Form(
        "experimental.nlp_concat_heads_decode", options=_options(num_heads="num_heads"), gives_memory=False
    ),
    "nlp_create_qkv_heads": Form("experimental.nlp_create_qkv_heads", options=_HEADS),
    "nlp_create_qkv_heads_decode": Form("experimental.nlp_create_qkv_heads_decode", options=_HEADS),
    "concatenate_heads": Form("transformer.concatenate_heads"),
    "split_query_key_value_and_split_heads": Form(
        "transformer.split_query_key_value_and_split_heads",
        ("", "kv_input_tensor"),
        options=_options(num_heads="num_heads", num_kv_heads="num_kv_heads", transpose_key="transpose_key"),
    ),
    "scaled_dot_product_attention": Form(
        "transformer.scaled_dot_product_attention", ("", "", "", "attn_mask", "attention_sink"), options=_ATTENTION
    ),
    "scaled_dot_product_attention_decode": Form(
        "transformer.scaled_dot_product_attention_decode",
        ("", "", "", "attn_mask", "cur_pos_tensor", "attention_sink"),
        options=_ATTENTION,
    ),
    "paged_scaled_dot_product_attention_decode": Form(
        "transformer.paged_scaled_dot_product_attention_decode",
        ("", "", "", "page_table_tensor", "attn_mask", "cur_pos_tensor", "attention_sink"),
        options=_ATTENTION,
    ),
    "rotary_embedding": Form("experimental.rotary_embedding"),
    "rotary_embedding_llama": Form(
        "experimental.rotary_embedding_llama", options=_options(is_decode_mode="is_decode_mode")
    ),
    "fill_cache": Form("fill_cache", values=(("batch_offset", _same),), gives_memory=False, in_place=True),
    "paged_update_cache": Form(
        "experimental.paged_update_cache",
        ("", "", "update_idxs_tensor", "page_table"),
        options=_options(share_cache="share_cache"),
        gives_memory=False,
        in_place=True,
    ),
    "paged_fill_cache": Form(
        "experimental.paged_fill_cache",
        ("", "", "", "batch_idx_tensor"),
        options=_options(batch_idx="batch_offset"),
        gives_memory=False,
        in_place=True,
    ),
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CREATED = _words("empty full zeros ones constant arange rand zeros_like ones_like full_like create_global_semaphore")
"""Made on the host or on the device out of nothing: their result is all they allocate."""

UPLOADS = _words("to_device distribute_tensor load_tensor load_weight")
"""Bring a host tensor to the device: their result is all they allocate."""

PREPARED = _words(
    """prepare_conv2d_weights prepare_conv2d_bias prepare_conv3d_weights prepare_conv_transpose2d_weights
    prepare_conv_transpose2d_bias"""
)
"""Weights made ready on the host, once."""

SILENT = _words(
    """get_device open_device close_device deallocate from_device dump_tensor aggregate_tensor write_tensor
    begin_trace_capture end_trace_capture execute_trace reset_global_semaphore"""
)
"""Nothing on the device is allocated by them."""

SAME_TENSOR = _words("to_tensor_spec mesh_shard")
"""Their result may be the tensor that they are given, under another type."""
