# SPDX-License-Identifier: Apache-2.0
"""The operators of the first seeds, as steps for the engine: each at two sizes and in seven ways to lie in memory.

Letters: ``D`` DRAM tile, ``L`` L1 tile, ``d`` DRAM row-major, ``l`` L1 row-major, ``H`` ``W`` ``B`` L1 height, width
and block sharded (tile).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

Step = dict[str, Any]

LETTERS = "DLdlHWB"
SMALL, LARGE = [1, 1, 64, 64], [1, 16, 2048, 2048]
GRID = 8


def placed(shape: list[int], letter: str) -> dict[str, Any]:
    """Memory, layout and shards that a letter stands for."""
    if letter in "Dd":
        return {"memory": "DRAM", "layout": "tile" if letter == "D" else "row_major"}
    if letter in "Ll":
        return {"memory": "L1", "layout": "tile" if letter == "L" else "row_major"}
    rows, columns = -(-prod(shape[:-1]) // 32), -(-shape[-1] // 32)
    if letter == "H":
        shard, ranges = _along(rows, columns, GRID * GRID)
    elif letter == "W":
        (width, height), ranges = _along(columns, rows, GRID * GRID)
        shard = [height, width]
    else:
        (height, _), (width, _) = _along(rows, 1, GRID)[0], _along(columns, 1, GRID)[0]
        shard = [height, width]
        ranges = [[0, 0, -(-columns * 32 // width) - 1, -(-rows * 32 // height) - 1]]
    kind = {"H": "height", "W": "width", "B": "block"}[letter]
    return {"memory": "L1", "layout": "tile", "shard": {"kind": kind, "shape": shard, "ranges": ranges}}


def _along(tiles: int, other_tiles: int, most_cores: int) -> tuple[list[int], list[list[int]]]:
    """Shards of whole tiles along one side, one per core, row by row over the grid."""
    per_core = -(-tiles // most_cores)
    cores = -(-tiles // per_core)
    whole, rest = divmod(cores, GRID)
    ranges = [[0, 0, GRID - 1, whole - 1]] if whole else []
    if rest:
        ranges.append([0, whole, rest - 1, whole])
    return [per_core * 32, other_tiles * 32], ranges


def alloc(name: str, shape: list[int], letter: str, dtype: str = "bfloat16") -> Step:
    return {"alloc": name, "shape": shape, "dtype": dtype, **placed(shape, letter)}


def call(function: str, *arguments: Any, **options: Any) -> Step:
    return {"call": f"ttnn.{function}", "args": list(arguments), "kwargs": options, "out": "out"}


def t(name: str) -> dict[str, str]:
    return {"tensor": name}


Cells = Callable[[bool, str], list[Step]]


def unary(function: str, *arguments: Any, large_shape: list[int] = LARGE, **options: Any) -> Cells:
    def cells(large: bool, letter: str) -> list[Step]:
        return [alloc("a", large_shape if large else SMALL, letter), call(function, t("a"), *arguments, **options)]

    return cells


def binary(function: str, **options: Any) -> Cells:
    def cells(large: bool, letter: str) -> list[Step]:
        shape = LARGE if large else SMALL
        return [alloc("a", shape, letter), alloc("b", shape, letter), call(function, t("a"), t("b"), **options)]

    return cells


def _matmul(function: str, batch: int, bias: bool = False) -> Cells:
    def cells(large: bool, letter: str) -> list[Step]:
        outer = [1, batch]
        m, k, n = (2048, 4096, 2048) if large else (64, 64, 64)
        steps = [alloc("a", [*outer, m, k], letter), alloc("b", [*outer, k, n], letter)]
        if function == "addmm":
            return [*steps, alloc("c", [*outer, m, n], letter), call("addmm", t("c"), t("a"), t("b"))]
        if bias:
            steps[1] = alloc("b", [1, 1, k, n], "D" if letter in "HWB" else letter)
            steps.append(alloc("c", [1, 1, 1, n], "D" if letter in "HWB" else letter))
            return [*steps, call(function, t("a"), t("b"), bias=t("c"))]
        return [*steps, call(function, t("a"), t("b"))]

    return cells


def _norm_of_vector(large: bool, letter: str) -> list[Step]:
    squared, summed = call("square", t("a")), call("sum", t("out"), dim=-1, keepdim=True)
    return [alloc("a", LARGE if large else SMALL, letter), squared, summed, call("sqrt", t("out"))]


def _concat(function: str, dim: int, large_shape: list[int] = LARGE) -> Cells:
    def cells(large: bool, letter: str) -> list[Step]:
        shape = large_shape if large else SMALL
        return [alloc("a", shape, letter), alloc("b", shape, letter), call(function, [t("a"), t("b")], dim)]

    return cells


def _in_place(large: bool, letter: str) -> list[Step]:
    return [alloc("a", LARGE if large else SMALL, letter), call("silu", t("a"), output_tensor=t("a"))]


def _ones(large: bool, letter: str) -> list[Step]:
    where = placed(LARGE if large else SMALL, letter)
    options = {"layout": {"layout": where["layout"]}, "memory_config": where, "device": {"device": True}}
    return [call("ones", LARGE if large else SMALL, dtype={"dtype": "bfloat16"}, **options)]


def _expand(large: bool, letter: str) -> list[Step]:
    shape, wanted = ([1, 1, 2048, 2048], LARGE) if large else ([1, 1, 1, 64], SMALL)
    return [alloc("a", shape, letter), call("expand", t("a"), wanted)]


def _split(sizes: bool) -> Cells:
    def cells(large: bool, letter: str) -> list[Step]:
        half = 1024 if large else 32
        wanted: Any = [half, half] if sizes else half
        return [alloc("a", LARGE if large else SMALL, letter), call("split", t("a"), wanted, dim=-1)]

    return cells


def _topk(large: bool, letter: str) -> list[Step]:
    return [alloc("a", [1, 1, 2048, 8192] if large else SMALL, letter), call("topk", t("a"), 32, dim=-1)]


def _reshape(function: str) -> Cells:
    def cells(large: bool, letter: str) -> list[Step]:
        wanted = [1, 16, 1024, 4096] if large else [1, 1, 32, 128]
        if function == "view":
            wanted = [1, 1, 32768, 2048] if large else [1, 64, 64]
        return [alloc("a", LARGE if large else SMALL, letter), call(function, t("a"), {"tuple": wanted})]

    return cells


def _upsample(large: bool, letter: str) -> list[Step]:
    return [alloc("a", [1, 512, 512, 64] if large else [1, 32, 32, 32], letter), call("upsample", t("a"), 2)]


def _pad(large: bool, letter: str) -> list[Step]:
    padding = [{"tuple": [0, 0]}, {"tuple": [0, 0]}, {"tuple": [0, 32]}, {"tuple": [0, 32]}]
    return [alloc("a", LARGE if large else SMALL, letter), call("pad", t("a"), padding, 0.0)]


def _pool(function: str, large_side: int = 512, **options: Any) -> Cells:
    def cells(large: bool, letter: str) -> list[Step]:
        side, channels = (large_side, 64) if large else (32, 64)
        sizes = {"batch_size": 1, "input_h": side, "input_w": side, "channels": channels}
        return [
            alloc("a", [1, 1, side * side, channels], letter),
            call(function, input_tensor=t("a"), **sizes, **options),
        ]

    return cells


def _conv(large: bool, letter: str) -> list[Step]:
    side, channels = (256, 64) if large else (32, 32)
    weights: Step = {"host": "w", "shape": [channels, channels, 3, 3], "dtype": "float32"}
    options = {
        "in_channels": channels,
        "out_channels": channels,
        "kernel_size": {"tuple": [3, 3]},
        "stride": {"tuple": [1, 1]},
        "padding": {"tuple": [1, 1]},
        "batch_size": 1,
        "input_height": side,
        "input_width": side,
        "device": {"device": True},
    }
    conv = call("conv2d", input_tensor=t("a"), weight_tensor=t("w"), **options)
    return [alloc("a", [1, 1, side * side, channels], letter), weights, conv]


def _batch_norm(large: bool, letter: str) -> list[Step]:
    batch, channels, side = (4, 64, 512) if large else (1, 32, 32)
    stats = ("running_mean", "running_var", "weight", "bias")
    steps = [alloc("a", [batch, channels, side, side], letter)]
    steps += [alloc(name, [1, channels, 1, 1], "D" if letter in "HWB" else letter) for name in stats]
    return [*steps, call("batch_norm", t("a"), **{name: t(name) for name in stats})]


def _group_norm(large: bool, letter: str) -> list[Step]:
    rows, channels = (65536, 320) if large else (1024, 64)
    grid = {"new": "ttnn.CoreGrid", "kwargs": {"y": 1, "x": 1}}
    options = {"num_groups": 32 if large else 2, "core_grid": grid, "inplace": False}
    return [alloc("a", [1, 1, rows, channels], letter), call("group_norm", t("a"), **options)]


def _attention(large: bool, letter: str) -> list[Step]:
    shape = [1, 16, 8192, 128] if large else [1, 4, 128, 64]
    steps = [alloc(name, shape, letter) for name in "qkv"]
    return [*steps, call("transformer.scaled_dot_product_attention", t("q"), t("k"), t("v"), is_causal=True)]


def _embedding(large: bool, letter: str) -> list[Step]:
    """Sharded weights are refused, so the sharded letters mean weights in L1 too."""
    rows, width = (32000, 4096) if large else (128, 64)
    letter = "l" if letter in "HWB" else letter
    indices: Step = {"alloc": "i", "shape": [1, 128], "dtype": "uint32", "layout": "row_major", "memory": "DRAM"}
    return [alloc("w", [rows, width], letter), indices, call("embedding", t("i"), t("w"))]


def _where(large: bool, letter: str) -> list[Step]:
    shape = LARGE if large else SMALL
    steps = [alloc(name, shape, letter) for name in "abc"]
    return [*steps, call("where", t("a"), t("b"), t("c"))]


def _slice(large: bool, letter: str) -> list[Step]:
    shape = LARGE if large else SMALL
    ends = [*shape[:2], shape[2] // 2, shape[3]]
    return [alloc("a", shape, letter), call("slice", t("a"), [0, 0, 0, 0], ends)]


def _squeeze(large: bool, letter: str) -> list[Step]:
    return [alloc("a", LARGE if large else SMALL, letter), call("squeeze", t("a"), 0)]


OPERATORS: dict[str, Cells] = {
    "add": binary("add"),
    "addmm": _matmul("addmm", 1),
    "bmm": _matmul("matmul", 8),
    "cat": _concat("concat", -1),
    "clamp": unary("clamp", min=-1.0, max=1.0),
    "clamp_min": unary("clamp", min=0.0),
    "clone": unary("clone"),
    "copy_": binary("copy"),
    "div": binary("div"),
    "dropout": unary("experimental.dropout", seed=1, probability=0.1, scale=1.0),
    "expand": _expand,
    "gelu": unary("gelu"),
    "hardtanh": unary("hardtanh"),
    "identity": unary("identity"),
    "leaky_relu": unary("leaky_relu", negative_slope=0.1),
    "linalg_vector_norm": _norm_of_vector,
    "linear": _matmul("linear", 1, bias=True),
    "log": unary("log"),
    "max_pool2d": _pool("max_pool2d", kernel_size=[2, 2], stride=[2, 2], padding=[0, 0], dilation=[1, 1]),
    "mean": unary("mean", dim=-1, keepdim=True),
    "mish": unary("mish"),
    "mm": _matmul("matmul", 1),
    "mul": binary("mul"),
    "native_batch_norm": _batch_norm,
    "ones": _ones,
    "permute": unary("permute", {"tuple": [0, 1, 3, 2]}),
    "relu": unary("relu"),
    "sigmoid": unary("sigmoid"),
    "silu": unary("silu"),
    "silu_": _in_place,
    "softmax": unary("softmax", dim=-1),
    "softplus": unary("softplus"),
    "split": _split(sizes=False),
    "split_with_sizes": _split(sizes=True),
    "stack": _concat("stack", 0, [2048, 2048]),
    "sub": binary("sub"),
    "tanh": unary("tanh"),
    "topk": _topk,
    "transpose": unary("transpose", -2, -1),
    "_unsafe_view": _reshape("reshape"),
    "view": _reshape("view"),
    "unsqueeze": unary("unsqueeze", 0, large_shape=[2048, 2048]),
    "upsample_nearest2d": _upsample,
    "roll": unary("roll", 3, 2),
    "constant_pad_nd": _pad,
    "adaptive_avg_pool2d": _pool("adaptive_avg_pool2d", 256, output_size=[8, 8]),
    "adaptive_max_pool2d": _pool("adaptive_max_pool2d", 256, output_size=[8, 8]),
    "conv2d": _conv,
    "layer_norm": unary("layer_norm"),
    "group_norm": _group_norm,
    "scaled_dot_product_attention": _attention,
    "embedding": _embedding,
    "where": _where,
    "exp": unary("exp"),
    "sqrt": unary("sqrt"),
    "pow": unary("pow", 2.0),
    "squeeze": _squeeze,
    "slice": _slice,
}
