# SPDX-License-Identifier: Apache-2.0
"""Rules that say along which dimension an operation may be cut without changing its result, and which tensors are
cut for it. Rules go by name, so they hold for ttnn's operations and torch's functions of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.twin.operations import RECORDS


class ChunkError(BadInputError):
    """Pieces would change the result, or no rule says whether they do."""


@dataclass(frozen=True, slots=True)
class ChunkCut:
    """The dimension and tensors along which a call is cut."""

    size: int
    """Length of the dimension that is cut."""
    tensors: tuple[tuple[int, int], ...]
    """Index of each tensor to cut (in order, lists and keywords included), and its dimension."""
    result_dimension: int
    """Dimension along which the results are joined, counted from the end."""


@dataclass(frozen=True, slots=True)
class ChunkedCall:
    """A call, as the rules need it."""

    name: str
    shapes: Sequence[tuple[int, ...]]
    """Shapes of the tensors, in order."""
    keywords: Sequence[str]
    """Keyword of each tensor; empty if it was passed by position."""
    values: Sequence[Any]
    """Plain arguments by position."""
    options: Mapping[str, Any]

    def option(self, position: int, *names: str, default: Any = None) -> Any:
        """Return a plain argument by keyword, or by position."""
        for name in names:
            if name in self.options:
                return self.options[name]
        return self.values[position] if position < len(self.values) else default


Rule = Callable[[ChunkedCall, int], ChunkCut]

_ELEMENTWISE = ("unary", "binary", "comparison", "typecast", "clone", "where")
_ALSO_ELEMENTWISE = ("mul", "sub", "div", "true_divide", "clamp_min", "clamp_max", "clip", "lerp", "addcmul", "addcdiv")
"""Names that torch uses."""


def _align_dimension(shape: tuple[int, ...], dimension: int, rank: int) -> int | None:
    """Return a result's dimension in an operand of lower rank; None if the operand is broadcast along it."""
    own = dimension - (rank - len(shape))
    return own if own >= 0 and shape[own] != 1 else None


def _cut_elementwise(asked: ChunkedCall, dimension: int) -> ChunkCut:
    rank = max(len(shape) for shape in asked.shapes)
    at = _check_dimension(dimension, rank)
    cuts = [
        (place, own)
        for place, shape in enumerate(asked.shapes)
        if (own := _align_dimension(shape, at, rank)) is not None
    ]
    if not cuts:
        raise ChunkError(f"dimension {dimension} has one element: there is nothing to cut")
    size = asked.shapes[cuts[0][0]][cuts[0][1]]
    return ChunkCut(size, tuple(cuts), at - rank)


def _cut_matmul(asked: ChunkedCall, dimension: int) -> ChunkCut:
    left, right, *rest = asked.shapes
    if len(left) < 2 or len(right) < 2:
        raise ChunkError("a product with a vector is not cut")
    if any(asked.options.get(name) for name in ("transpose_a", "transpose_b")):
        raise ChunkError("a product that transposes its operands is not cut")
    rank = max(len(left), len(right))
    at = _check_dimension(dimension, rank) - rank
    bias = [(2, own) for shape in rest[:1] if (own := _align_dimension(shape, rank + at, rank)) is not None]
    if at == -2:
        return ChunkCut(left[-2], ((0, len(left) - 2), *bias), at)
    if at == -1:
        return ChunkCut(right[-1], ((1, len(right) - 1), *bias), at)
    cuts = [
        (place, own)
        for place, shape in enumerate((left, right))
        if (own := _align_dimension(shape, rank + at, rank)) is not None
    ]
    if not cuts:
        raise ChunkError(f"dimension {dimension} has one element: there is nothing to cut")
    return ChunkCut((left, right)[cuts[0][0]][cuts[0][1]], (*cuts, *bias), at)


def _cut_torch_linear(asked: ChunkedCall, dimension: int) -> ChunkCut:
    """Cut torch's linear, whose weight is transposed."""
    given, weight, *rest = asked.shapes
    at = _check_dimension(dimension, len(given))
    if at == len(given) - 1:
        return ChunkCut(weight[0], ((1, 0), *((2, 0) for _ in rest[:1])), -1)
    return ChunkCut(given[at], ((0, at),), at - len(given))


def _cut_reduction(asked: ChunkedCall, dimension: int) -> ChunkCut:
    """Cut a reduction; ``max`` and ``min`` of two tensors are elementwise."""
    return _cut_elementwise(asked, dimension) if len(asked.shapes) == 2 else _cut_reduced(asked, dimension)


def _cut_other_dimensions(names: tuple[str, ...], default: int | None, what: str) -> Rule:
    """Return a rule for operations along one dimension: any other one may be cut."""

    def rule(asked: ChunkedCall, dimension: int) -> ChunkCut:
        shape = asked.shapes[0]
        along = asked.option(0, *names, default=default)
        if along is None:
            raise ChunkError(f"{asked.name} over all dimensions needs every element at once")
        at = _check_dimension(dimension, len(shape))
        looked = {
            _check_dimension(one, len(shape)) for one in (along if isinstance(along, (list, tuple)) else (along,))
        }
        if at in looked:
            raise ChunkError(f"{asked.name} {what} dimension {dimension}: pieces of it would change the result")
        kept = bool(asked.option(1, "keepdim", "keep_dim", default=what != "reduces"))
        behind = sum(one > at for one in looked) if not kept else 0
        return ChunkCut(shape[at], ((0, at),), at - len(shape) + behind)

    return rule


def _cut_norm(asked: ChunkedCall, dimension: int) -> ChunkCut:
    """Cut a norm over the last dimension (torch says over how many); weights are the same for every piece."""
    shape = asked.shapes[0]
    normalised = asked.option(0, "normalized_shape", default=[0])
    count = len(normalised) if isinstance(normalised, (list, tuple)) else 1
    at = _check_dimension(dimension, len(shape))
    if at >= len(shape) - count:
        raise ChunkError(f"{asked.name} is over dimension {dimension}: pieces of it would change the result")
    beside = [place for place, keyword in enumerate(asked.keywords) if keyword == "residual_input_tensor"]
    return ChunkCut(shape[at], ((0, at), *((place, at) for place in beside)), at - len(shape))


def _cut_concat(asked: ChunkedCall, dimension: int) -> ChunkCut:
    shape = asked.shapes[0]
    along = _check_dimension(asked.option(0, "dim", default=0), len(shape))
    at = _check_dimension(dimension, len(shape))
    if at == along:
        raise ChunkError(f"the tensors are joined along dimension {dimension}: cut along another one")
    return ChunkCut(shape[at], tuple((place, at) for place in range(len(asked.shapes))), at - len(shape))


def _cut_attention(asked: ChunkedCall, dimension: int) -> ChunkCut:
    query, key, *_ = asked.shapes
    at = _check_dimension(dimension, len(query))
    if at >= len(query) - 2:
        raise ChunkError(f"attention is over dimension {dimension}: cut along users (0) or heads (1)")
    if at == len(query) - 3 and query[at] != key[at]:
        raise ChunkError("heads that share keys and values are not cut: cut along users (0)")
    cuts = [(place, at) for place, shape in enumerate(asked.shapes) if len(shape) == len(query) and shape[at] != 1]
    return ChunkCut(query[at], tuple(cuts), at - len(query))


def _cut_embedding(asked: ChunkedCall, dimension: int) -> ChunkCut:
    """Cut an embedding: its result has one more dimension than the indices, which torch and ttnn take first."""
    numbers = asked.shapes[0]
    at = _check_dimension(dimension, len(numbers) + 1)
    if at == len(numbers):
        return ChunkCut(asked.shapes[1][-1], ((1, len(asked.shapes[1]) - 1),), -1)
    return ChunkCut(numbers[at], ((0, at),), at - len(numbers) - 1)


_cut_reduced = _cut_other_dimensions(("dim",), None, "reduces")
_RULES: dict[str, Rule] = {
    **dict.fromkeys(("matmul", "linear", "mm", "bmm"), _cut_matmul),
    **dict.fromkeys(("softmax", "log_softmax"), _cut_other_dimensions(("dim",), -1, "looks along")),
    **dict.fromkeys(("cumsum", "cumprod"), _cut_other_dimensions(("dim",), None, "looks along")),
    **dict.fromkeys(("sum", "mean", "max", "min", "amax", "amin", "prod"), _cut_reduction),
    **dict.fromkeys(("layer_norm", "rms_norm"), _cut_norm),
    **dict.fromkeys(("concat", "cat"), _cut_concat),
    "scaled_dot_product_attention": _cut_attention,
    "embedding": _cut_embedding,
}
KNOWN = ("elementwise", *_RULES)


def _check_dimension(number: int, rank: int) -> int:
    if not -rank <= number < rank:
        raise ChunkError(f"dimension {number} of a tensor of rank {rank}")
    return number % rank


def find_rule(name: str, given: str | None = None) -> Rule:
    """Return the rule of an operation, or the one that the caller names."""
    if given == "elementwise":
        return _cut_elementwise
    wanted = (given or name).rpartition(".")[2]
    if wanted == "linear" and not name.startswith("ttnn."):
        return _cut_torch_linear
    if wanted in _RULES:
        return _RULES[wanted]
    if given is not None:
        raise ChunkError(f"no rule '{given}'", hint=f"known: {', '.join(KNOWN)}")
    record = RECORDS.get(name.removeprefix("ttnn.")) or RECORDS.get(wanted)
    if wanted in _ALSO_ELEMENTWISE or (record is not None and record.family in _ELEMENTWISE):
        return _cut_elementwise
    raise ChunkError(
        f"no rule says whether pieces change the result of '{name}'",
        hint="name a rule: ttmem.chunked(fn, rule='elementwise')",
    )
