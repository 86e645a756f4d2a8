# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of the catalogue: values that a call needs and that follow from the case.

Each rule takes a bound case and gives a plain value. ``CannotRunError`` from a rule means that the case has no such
call, and its text is the reason that the user reads.
"""

from collections.abc import Callable
from math import isinf, prod
from typing import Any

from ttmem.operators import image_rules
from ttmem.operators.bound_case import Bound, CannotRunError, demand, sizes
from ttmem.operators.image_rules import Rule, ShapeRule

LARGEST_BFLOAT16 = 3.3895313892515355e38
"""Replaces infinity, which the wire (JSON) and some operations do not take."""
INFINITIES = ("inf", "-inf", "nan")
"""As sources write them."""


def _shape(bound: Bound) -> list[int]:
    return list(bound.first.shape)


def _axis(bound: Bound, dim: Any, *, extra: int = 0) -> int:
    rank = len(bound.first.shape) + extra
    if not isinstance(dim, int) or isinstance(dim, bool) or not -rank <= dim < max(rank, 1):
        raise CannotRunError(f"dimension {dim!r} does not exist in {_shape(bound)}")
    return dim % max(rank, 1)


# --- shapes -------------------------------------------------------------------------------------------------------


def resolved_size(bound: Bound) -> list[int]:
    """torch's -1 worked out."""
    name = "size" if "size" in bound.operator.args else "shape"
    wanted = sizes(bound.argument(name), name)
    elements = prod(bound.first.shape)
    if wanted.count(-1) == 1:
        known = -prod(wanted)
        wanted[wanted.index(-1)] = elements // known if known else 0
    demand(prod(wanted) == elements, f"{_shape(bound)} has {elements} elements, {wanted} has {prod(wanted)}")
    return wanted


def expanded_size(bound: Bound) -> list[int]:
    """-1 keeps the input's own size, counted from the right."""
    wanted, own = sizes(bound.argument("size"), "size"), _shape(bound)
    offset = len(wanted) - len(own)
    return [own[i - offset] if size == -1 and i >= offset else size for i, size in enumerate(wanted)]


def squeezed_size(bound: Bound) -> list[int]:
    """Without the dimensions of size 1 that are named, or all of them."""
    dims = bound.argument("dim")
    rank = range(len(bound.first.shape))
    named = set(rank) if dims is None else {_axis(bound, dim) for dim in (dims if isinstance(dims, list) else [dims])}
    return [size for axis, size in enumerate(bound.first.shape) if size != 1 or axis not in named]


def _size_along(bound: Bound, axis: int) -> int:
    demand(bound.first.shape, "a tensor without dimensions has nothing along one")
    return bound.first.shape[axis]


def half_of_dim(bound: Bound) -> int:
    """For a split whose size is not known."""
    return max(-(-_size_along(bound, _axis(bound, bound.argument("dim"))) // 2), 1)


def halves_of_dim(bound: Bound) -> list[int]:
    size, half = _size_along(bound, _axis(bound, bound.argument("dim"))), half_of_dim(bound)
    return [half, size - half] if size > half else [half]


def _vectors(bound: Bound, axis: int, start: int, end: int, step: int) -> tuple[list[int], list[int], list[int]]:
    own = _shape(bound)
    starts, ends, steps = [0] * len(own), list(own), [1] * len(own)
    starts[axis], ends[axis], steps[axis] = start, end, step
    return starts, ends, steps


def _slice(bound: Bound) -> tuple[list[int], list[int], list[int]]:
    axis = _axis(bound, bound.argument("dim"))
    size = _size_along(bound, axis)
    start, end, step = (bound.argument(name) for name in ("start", "end", "step"))
    begin, stop, stride = slice(start, end, step).indices(size)
    demand(stop > begin, "the slice is empty")
    return _vectors(bound, axis, begin, stop, stride)


def _select(bound: Bound) -> tuple[list[int], list[int], list[int]]:
    axis = _axis(bound, bound.argument("dim"))
    size, index = _size_along(bound, axis), bound.argument("index")
    if not isinstance(index, int) or not -size <= index < size:
        raise CannotRunError(f"index {index!r} is outside of {size}")
    return _vectors(bound, axis, index % size, index % size + 1, 1)


def channels_last_dims(bound: Bound) -> list[int]:
    """For a permutation that is not known: channels to the end, the one that vision models need most."""
    rank = len(bound.first.shape)
    return [0, *range(2, rank), 1] if rank > 2 else list(range(rank))[::-1]


def pad_pairs(bound: Bound) -> list[dict[str, list[int]]]:
    """torch: pairs from the last dimension on; ttnn: a pair for each dimension in order."""
    amounts = sizes(bound.argument("pad"), "pad")
    demand(all(size >= 0 for size in amounts), "negative padding: a slice, not a pad")
    pairs = [amounts[i : i + 2] for i in range(0, len(amounts), 2)][::-1]
    return [{"tuple": pair} for pair in [[0, 0]] * (len(bound.first.shape) - len(pairs)) + pairs]


def _shuffle(bound: Bound) -> tuple[list[int], list[int]]:
    """The shapes between and after: groups of channels become blocks of pixels."""
    demand(len(bound.first.shape) == 4, "pixel_shuffle of an image [N, C, H, W] only")
    batch, channels, height, width = bound.first.shape
    factor: int = bound.argument("upscale_factor")
    channels //= factor**2
    return [batch, channels, factor, factor, height, width], [batch, channels, height * factor, width * factor]


# --- normalisation, reductions ------------------------------------------------------------------------------------


def normalises_last_dim(bound: Bound) -> None:
    normalised = bound.case.args.get("normalized_shape")
    if isinstance(normalised, list) and len(normalised) > 1:
        raise CannotRunError(f"normalises {len(normalised)} dimensions; ttnn only the last one")


def dim_or_all(bound: Bound) -> Any:
    """An empty list means all dimensions in torch."""
    return bound.argument("dim") or (0 if bound.argument("dim") == 0 else None)


def finite(value: Any) -> Any:
    """JSON knows no infinity: sources write it as a text."""
    number = float(value) if isinstance(value, str) else value
    if isinstance(number, float) and (isinf(number) or number != number):
        return LARGEST_BFLOAT16 if number > 0 else -LARGEST_BFLOAT16
    return number


# --- matrices, indices, types -------------------------------------------------------------------------------------


def transposed_first(bound: Bound) -> list[int]:
    """A second operand that fits, where the source does not list it."""
    demand(len(bound.first.shape) >= 2, f"{_shape(bound)} is no matrix")
    *outer, rows, columns = _shape(bound)
    return [*outer, columns, rows]


def indexes_rows_of_matrix(bound: Bound) -> None:
    indices = bound.tensors.get("indices", [])
    leading = bound.case.args.get("indices")
    if len(bound.first.shape) != 2 or len(indices) != 1 or (leading and leading[0] is None):
        raise CannotRunError("only rows of a matrix can be indexed (as an embedding); the rest is the host's")
    demand(indices[0].dtype != "bool", "indexing with truth values gives a shape that only the data knows")


def changes_dtype(bound: Bound) -> bool:
    dtype = bound.argument("dtype")
    return dtype is not None and bound.device_dtype(dtype) != bound.device_dtype(bound.first.dtype)


def result_dtype(bound: Bound) -> dict[str, str]:
    dtype = bound.case.args.get("dtype")
    if dtype is None and bound.tensors:
        dtype = bound.first.dtype
    return {"dtype": bound.device_dtype(dtype or "float32")}


_NAMED = (
    resolved_size, expanded_size, squeezed_size, half_of_dim, halves_of_dim, channels_last_dims, pad_pairs,
    normalises_last_dim, dim_or_all, transposed_first, indexes_rows_of_matrix, changes_dtype, result_dtype,
)  # fmt: skip


def _part(of: Callable[[Bound], tuple[list[int], ...]], part: int) -> Rule:
    return lambda bound: of(bound)[part]


SHAPE_RULES: dict[str, ShapeRule] = {
    **image_rules.SHAPE_RULES,
    "per_channel": lambda bound, shape: [1, prod(shape), 1, 1],
    "bias_row": lambda bound, shape: [1, *shape] if len(shape) == 1 else list(shape),
    "bias_four": lambda bound, shape: [1, 1, 1, prod(shape)],
    "transposed": lambda bound, shape: [*shape[:-2], *shape[:-3:-1]],
    "as_row": lambda bound, shape: [1, prod(shape)],
    "rank_four": lambda bound, shape: [*[1] * (4 - len(shape)), *shape],
}
"""How a tensor of the model must be shaped for the call."""

RULES: dict[str, Rule] = {
    **image_rules.RULES,
    **{rule.__name__: rule for rule in _NAMED},
    **{
        f"{name}_{word}": _part(vectors, part)
        for name, vectors in (("slice", _slice), ("select", _select))
        for part, word in enumerate(("starts", "ends", "steps"))
    },
    "shuffle_split_size": _part(_shuffle, 0),
    "shuffle_size": _part(_shuffle, 1),
    "none": lambda bound: None,
    "own_shape": _shape,
    "like_first": _shape,
    "like_channels": lambda bound: [bound.first.shape[1] if len(bound.first.shape) > 1 else 1],
    "like_index": lambda bound: list(bound.tensor("index").shape),
    "ones": lambda bound: [1] * len(bound.first.shape),
    "no_padding": lambda bound: [0, 0],
    "pads_front": lambda bound: any(sizes(bound.argument("pad"), "pad")[::2]),
    "positive_dims": lambda bound: [_axis(bound, dim) for dim in sizes(bound.argument("dims"), "dims")],
    "one_core": lambda bound: {"new": "ttnn.CoreGrid", "kwargs": {"y": 1, "x": 1}},
    "finite_value": lambda bound: 0.0 if bound.has("value") else finite(bound.argument("value")),
    "finite_fill": lambda bound: finite(bound.argument("fill_value")),
    # torch: the smallest step of float32
    "finite_eps": lambda bound: 1.1920928955078125e-07 if bound.argument("eps") is None else bound.argument("eps"),
    "square_of_last": lambda bound: [_size_along(bound, -1)] * 2,
    "first_index": lambda bound: {"tensor": "indices.0"},
    "target_dtype": lambda bound: {"dtype": bound.device_dtype(bound.argument("dtype"))},
    "is_image": lambda bound: demand(len(bound.first.shape) == 4, f"ttnn.batch_norm takes rank 4, not {_shape(bound)}"),
    "has_whole_tiles_of_channels": lambda bound: demand(
        len(bound.first.shape) > 2 and bound.first.shape[1] % 32 == 0, "ttnn.group_norm wants a multiple of 32 channels"
    ),
    "is_euclidean": lambda bound: demand(
        bound.argument("ord") in (2, 2.0), f"a norm of order {bound.argument('ord')!r} has no form here"
    ),
    "selects_rows_of_matrix": lambda bound: demand(
        len(bound.first.shape) == 2 and bound.argument("dim") in (0, -2),
        "only rows of a matrix can be selected (as an embedding); the rest is the host's",
    ),
    "is_tanh_gelu": lambda bound: bound.argument("approximate") == "tanh",
    "is_boolean": lambda bound: bound.first.dtype == "bool",
    "has_factor": lambda bound: bound.argument("alpha") not in (1, 1.0, None),
    "has_rounding": lambda bound: bound.argument("rounding_mode") is not None,
    "has_one_dim": lambda bound: isinstance(bound.argument("dim"), int),
    "has_other": lambda bound: bound.has("other"),
}
"""Every rule that the catalogue may name."""
