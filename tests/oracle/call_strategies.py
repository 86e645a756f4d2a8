# SPDX-License-Identifier: Apache-2.0
"""Random calls of every operation that has a rule: one strategy per rule, by the rule's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Step = dict[str, Any]
Shape = list[int]

sizes = st.sampled_from([1, 2, 3, 5, 16, 17, 31, 32, 33, 48, 64, 96, 100, 128, 160, 250, 256])
outer_sizes = st.sampled_from([1, 1, 2, 3, 4, 32])
memories = st.sampled_from(["L1", "L1", "DRAM"])
maybe_memory = st.sampled_from([None, None, "L1", "DRAM"])
UNARY = ("relu", "gelu", "exp", "silu", "sqrt", "tanh", "sigmoid", "neg", "abs", "log", "mish", "square", "leaky_relu")


@st.composite
def shapes(draw: st.DrawFn, min_rank: int = 2, max_rank: int = 5) -> Shape:
    rank = draw(st.integers(min_rank, max_rank))
    return [draw(outer_sizes) for _ in range(rank - 2)] + [draw(sizes) for _ in range(min(rank, 2))]


@st.composite
def tensors(draw: st.DrawFn, shape: Shape | None = None, *, tile_only: bool = False, integers: bool = False) -> Step:
    """Floats, and for operations that only move data integers too."""
    types = ["bfloat16", "bfloat16", "float32", "bfloat8_b"] + (["uint32", "int32", "uint16"] if integers else [])
    dtype = draw(st.sampled_from(types))
    layout = "tile" if tile_only or dtype == "bfloat8_b" else draw(st.sampled_from(["tile", "tile", "row_major"]))
    return {
        "shape": draw(shapes()) if shape is None else shape,
        "dtype": dtype,
        "layout": layout,
        "memory": draw(memories),
    }


def with_memory(draw: st.DrawFn, step: Step) -> Step:
    memory = draw(maybe_memory)
    return step if memory is None else {**step, "memory": memory}


def same_kind(tensor: Step, shape: Shape, draw: st.DrawFn) -> Step:
    return {**tensor, "shape": shape, "memory": draw(memories)}


@st.composite
def sharded(draw: st.DrawFn) -> Step:
    """Tiles in L1 with one shard per core, mostly; now and then a core or a part of a shard is left over."""
    kind = draw(st.sampled_from(["height", "width", "block"]))
    columns, rows = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    height, width = 32 * draw(st.integers(1, 3)), 32 * draw(st.integers(1, 3))
    down = {"height": columns * rows, "width": 1, "block": rows}[kind]
    across = {"height": 1, "width": columns * rows, "block": columns}[kind]
    missing = draw(st.sampled_from([0, 0, 0, 32])) if kind != "width" and down * height > 32 else 0
    return {
        "shape": [1, 1, down * height - missing - draw(st.integers(0, 5)), across * width],
        "dtype": draw(st.sampled_from(["bfloat16", "float32", "bfloat8_b"])),
        "layout": "tile",
        "memory": "L1",
        "shard": {"kind": kind, "shape": [height, width], "ranges": [[0, 0, columns - 1, rows - 1]]},
    }


Case = tuple[list[Step], Step]
"""Tensors to allocate, and the call (without names)."""


@st.composite
def unary(draw: st.DrawFn) -> Case:
    if draw(st.integers(0, 3)) == 0:
        return [draw(sharded())], with_memory(draw, {"op": draw(st.sampled_from(UNARY))})
    return [draw(tensors())], with_memory(draw, {"op": draw(st.sampled_from(UNARY))})


@st.composite
def binary(draw: st.DrawFn) -> Case:
    step = with_memory(draw, {"op": draw(st.sampled_from(["add", "subtract", "multiply", "divide"]))})
    if draw(st.integers(0, 4)) == 0:
        first = draw(sharded())
        return [first] * draw(st.integers(1, 2)), {"op": step["op"]}
    first = draw(tensors())
    if draw(st.integers(0, 3)) == 0:
        return [first], step
    shape = [size if draw(st.integers(0, 2)) else 1 for size in first["shape"]]
    second = same_kind(first, shape[draw(st.integers(0, 1)) if len(shape) > 2 else 0 :], draw)
    return ([first, second] if draw(st.booleans()) else [second, first]), step


@st.composite
def typecast(draw: st.DrawFn) -> Case:
    tensor = draw(tensors(integers=True))
    targets = ["bfloat16", "float32", "uint32", "int32"] + (["bfloat8_b"] if tensor["layout"] == "tile" else [])
    return [tensor], with_memory(draw, {"op": "typecast", "args": {"dtype": draw(st.sampled_from(targets))}})


@st.composite
def clone(draw: st.DrawFn) -> Case:
    return [draw(tensors(integers=True))], with_memory(draw, {"op": "clone"})


@st.composite
def concat(draw: st.DrawFn) -> Case:
    first = draw(tensors(integers=True))
    axis = draw(st.integers(0, len(first["shape"]) - 1))
    inputs = [first]
    for _ in range(draw(st.integers(1, 3))):
        shape = list(first["shape"])
        shape[axis] = draw(st.sampled_from([1, 32, 64, 96]))
        inputs.append({**first, "shape": shape})
    return inputs, with_memory(draw, {"op": "concat", "args": {"dim": axis}})


@st.composite
def transpose(draw: st.DrawFn) -> Case:
    tensor = draw(tensors(integers=True))
    first, second = draw(st.permutations(range(len(tensor["shape"]))))[:2]
    return [tensor], with_memory(draw, {"op": "transpose", "args": {"dim0": first, "dim1": second}})


@st.composite
def permute(draw: st.DrawFn) -> Case:
    tensor = draw(tensors(integers=True))
    dims = list(draw(st.permutations(range(len(tensor["shape"])))))
    return [tensor], with_memory(draw, {"op": "permute", "args": {"dims": dims}})


@st.composite
def slice_(draw: st.DrawFn) -> Case:
    tensor = draw(tensors(integers=True))
    begins = [draw(st.integers(0, size - 1)) for size in tensor["shape"]]
    begins[-2:] = [begin // 32 * 32 for begin in begins[-2:]]
    ends = [draw(st.integers(begin + 1, size)) for begin, size in zip(begins, tensor["shape"], strict=True)]
    return [tensor], with_memory(draw, {"op": "slice", "args": {"begins": begins, "ends": ends}})


@st.composite
def pad(draw: st.DrawFn) -> Case:
    tensor = draw(tensors(draw(shapes(max_rank=4))))
    padding = [[0, draw(st.sampled_from([0, 0, 1, 2]))] for _ in tensor["shape"]]
    padding[-2:] = [[0, draw(st.sampled_from([0, 1, 10, 32]))] for _ in range(2)]
    return [tensor], with_memory(draw, {"op": "pad", "args": {"padding": padding}})


@st.composite
def reshape(draw: st.DrawFn) -> Case:
    tensor = draw(tensors(draw(shapes(max_rank=4)), tile_only=True, integers=True))
    left = 1
    for size in tensor["shape"]:
        left *= size
    shape = []
    for _ in range(draw(st.integers(0, 3))):
        divisors = [d for d in range(1, min(left, 400) + 1) if left % d == 0]
        shape.append(draw(st.sampled_from(divisors)))
        left //= shape[-1]
    shape = list(draw(st.permutations([*shape, left])))
    return [tensor], with_memory(draw, {"op": "reshape", "args": {"shape": shape}})


@st.composite
def softmax(draw: st.DrawFn) -> Case:
    tensor = draw(tensors(draw(shapes(max_rank=4)), tile_only=True))
    return [tensor], with_memory(draw, {"op": "softmax", "args": {"dim": -1}})


@st.composite
def reduce(draw: st.DrawFn) -> Case:
    tensor = draw(tensors(tile_only=True))
    name = draw(st.sampled_from(["sum", "mean", "max", "min"]))
    return [tensor], with_memory(draw, {"op": name, "args": {"dim": draw(st.sampled_from([-1, -2])), "keepdim": True}})


@st.composite
def matmul(draw: st.DrawFn) -> Case:
    rows, depth, columns = (draw(st.sampled_from([1, 2, 3, 4, 6, 8])) for _ in range(3))
    first = draw(tensors([1, 1, rows * 32, depth * 32], tile_only=True))
    second = draw(tensors([1, 1, depth * 32, columns * 32], tile_only=True))
    # Seven rows and eight columns of cores are the least of all boards.
    config = {
        "per_core_M": draw(st.integers(-(-rows // 7), rows)),
        "per_core_N": draw(st.integers(-(-columns // 8), columns)),
        "in0_block_w": draw(st.sampled_from([d for d in range(1, depth + 1) if depth % d == 0])),
    }
    args: Step = {"program_config": config}
    if draw(st.booleans()):
        args["dtype"] = draw(st.sampled_from(["bfloat16", "float32", "bfloat8_b"]))
    return [first, second], with_memory(draw, {"op": "matmul", "args": args})


@st.composite
def to_memory_config(draw: st.DrawFn) -> Case:
    return [draw(tensors(tile_only=True, integers=True))], {"op": "to_memory_config", "memory": draw(memories)}


CALLS: dict[str, Callable[[], st.SearchStrategy[Case]]] = {
    "unary": unary,
    "binary": binary,
    "typecast": typecast,
    "clone": clone,
    "concat": concat,
    "transpose": transpose,
    "permute": permute,
    "slice": slice_,
    "pad": pad,
    "reshape": reshape,
    "softmax": softmax,
    "reduce": reduce,
    "matmul": matmul,
    "to_memory_config": to_memory_config,
}


@st.composite
def slice_off_the_grid(draw: st.DrawFn) -> Case:
    tensor = draw(tensors())
    begins = [draw(st.integers(0, size - 1)) for size in tensor["shape"]]
    ends = [draw(st.integers(begin + 1, size)) for begin, size in zip(begins, tensor["shape"], strict=True)]
    return [tensor], with_memory(draw, {"op": "slice", "args": {"begins": begins, "ends": ends}})


@st.composite
def concat_anywhere(draw: st.DrawFn) -> Case:
    first = draw(tensors())
    axis = draw(st.integers(max(len(first["shape"]) - 2, 0), len(first["shape"]) - 1))
    shape = list(first["shape"])
    shape[axis] = draw(sizes)
    return [first, {**first, "shape": shape}], {"op": "concat", "args": {"dim": axis}}


@st.composite
def reduce_anything(draw: st.DrawFn) -> Case:
    tensor = draw(tensors(tile_only=True))
    rank = len(tensor["shape"])
    args = {"dim": draw(st.integers(-rank, -1)), "keepdim": draw(st.booleans())}
    return [tensor], {"op": draw(st.sampled_from(["sum", "mean", "max"])), "args": args}


@st.composite
def reshape_rows(draw: st.DrawFn) -> Case:
    tensor = {**draw(tensors(draw(shapes(max_rank=3)))), "dtype": "bfloat16", "layout": "row_major"}
    *outer, last = tensor["shape"]
    return [tensor], {"op": "reshape", "args": {"shape": [last, *outer]}}


@st.composite
def to_layout(draw: st.DrawFn) -> Case:
    tensor = draw(tensors())
    return [tensor], {"op": "to_layout", "args": {"layout": draw(st.sampled_from(["tile", "row_major"]))}}


LOOSE_CALLS = (slice_off_the_grid, concat_anywhere, reduce_anything, reshape_rows, to_layout)
"""Calls whose plan is often only bounded: their results still have to be right."""
