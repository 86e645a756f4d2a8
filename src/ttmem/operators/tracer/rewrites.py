# SPDX-License-Identifier: Apache-2.0
"""Operators of which the device has a part only (rows of a matrix, the last dimension): the rest through that part.

These are forms that run on a device. What torch itself takes apart is in ``taking_apart``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

Made = Any
"""A tensor, or None where the form does not apply."""


def rewrite(name: str, named: dict[str, Any]) -> Made:
    """Return the result of an operator rewritten with others; None: no rewrite exists or is needed."""
    form = _FORMS.get(name)
    return form(named) if form is not None else None


def replace_operator(base: Any, part: Any, cuts: Sequence[tuple[int, int]]) -> Any:
    """``base`` with ``part`` in a box of it: as pieces before, within and after it are joined, dimension by dimension.

    ``cuts`` are start and end along each dimension; a library without writes into a part has no other way.
    """
    cut = [dim for dim, (start, end) in enumerate(cuts) if (start, end) != (0, base.shape[dim])]
    if not cut:
        return part
    dim = cut[0]
    start, end = cuts[dim]
    inner = list(cuts)
    inner[dim] = (0, end - start)
    if len(cut) > 1:
        part = replace_operator(base.narrow(dim, start, end - start), part, inner)
    before = [base.narrow(dim, 0, start)] if start else []
    after = [base.narrow(dim, end, base.shape[dim] - end)] if end < base.shape[dim] else []
    return torch.cat([*before, part, *after], dim)


def _rows(tensor: Any, dim: int, index: Any) -> Any:
    """Elements along any dimension as rows of a matrix: an embedding."""
    rank = tensor.dim()
    order = [dim, *(other for other in range(rank) if other != dim)]
    front = tensor.permute(order) if order != list(range(rank)) else tensor
    rest = list(front.shape[1:])
    rows = front.reshape(front.shape[0], prod(rest)) if rank != 2 else front
    taken = torch.index_select(rows, 0, index).reshape(index.shape[0], *rest)
    back = [order.index(place) for place in range(rank)]
    return taken.permute(back) if back != list(range(rank)) else taken


def _index_select(named: dict[str, Any]) -> Made:
    tensor, dim, index = named["self"], named["dim"], named["index"]
    if not tensor.dim() or (tensor.dim() == 2 and dim % 2 == 0):
        return None
    return _rows(tensor, dim % tensor.dim(), index.reshape(-1))


def _index(named: dict[str, Any]) -> Made:
    """Places along neighbouring dimensions are places along all of them as one."""
    tensor, indices = named["self"], list(named["indices"])
    given = [dim for dim, one in enumerate(indices) if one is not None]
    whole = all(indices[dim].dtype in (torch.int64, torch.int32) for dim in given)
    if not given or not whole or given != list(range(given[0], given[-1] + 1)):
        return None
    if tensor.dim() == 2 and given == [0] and indices[0].dim() == 1:
        return None
    first, lengths = given[0], [tensor.shape[dim] for dim in given]
    places = indices[first]
    for dim in given[1:]:
        places = places * tensor.shape[dim] + indices[dim]
    outer, inner = list(tensor.shape[:first]), list(tensor.shape[given[-1] + 1 :])
    joined = tensor.reshape(*outer, prod(lengths), *inner) if len(given) > 1 else tensor
    taken = _rows(joined, first, places.reshape(-1)) if joined.dim() != 2 or first else torch.index_select(
        joined, 0, places.reshape(-1))  # fmt: skip
    return taken.reshape(*outer, *places.shape, *inner)


def _flip(named: dict[str, Any]) -> Made:
    made = named["self"]
    for dim in named["dims"]:
        size = made.shape[dim]
        made = _rows(made, dim % made.dim(), torch.arange(size - 1, -1, -1))
    return made


def _unfold(named: dict[str, Any]) -> Made:
    """Windows along a dimension: their elements, then the window's own dimension at the end."""
    tensor, size, step = named["self"], named["size"], named["step"]
    if not tensor.dim():
        return None
    dim = named["dimension"] % tensor.dim()
    windows = (tensor.shape[dim] - size) // step + 1
    places = torch.arange(windows).unsqueeze(1) * step + torch.arange(size)
    taken = _rows(tensor, dim, places.reshape(-1))
    split = taken.reshape(*tensor.shape[:dim], windows, size, *tensor.shape[dim + 1 :])
    return split.movedim(dim + 1, -1)


def _pad(named: dict[str, Any]) -> Made:
    """Negative padding is a slice."""
    tensor, amounts = named["self"], list(named["pad"])
    if all(amount >= 0 for amount in amounts):
        return None
    for place in range(0, len(amounts), 2):
        dim = tensor.dim() - 1 - place // 2
        start, end = max(-amounts[place], 0), max(-amounts[place + 1], 0)
        if start or end:
            tensor = tensor.narrow(dim, start, tensor.shape[dim] - start - end)
    left = [max(amount, 0) for amount in amounts]
    return torch.constant_pad_nd(tensor, left, named["value"]) if any(left) else tensor


def _layer_norm(named: dict[str, Any]) -> Made:
    """Several dimensions as one."""
    tensor, normal = named["input"], list(named["normalized_shape"])
    if len(normal) < 2:
        return None
    flat = tensor.reshape(*tensor.shape[: tensor.dim() - len(normal)], prod(normal))
    weight, bias = (None if one is None else one.reshape(-1) for one in (named["weight"], named["bias"]))
    made = torch.ops.aten.native_layer_norm(flat, [prod(normal)], weight, bias, named["eps"])[0]
    return made.reshape(tensor.shape)


def _slice_scatter(named: dict[str, Any]) -> Made:
    tensor, dim = named["self"], named["dim"] % max(named["self"].dim(), 1)
    start, end, step = slice(named["start"], named["end"], named["step"]).indices(tensor.shape[dim])
    cuts = [(0, size) for size in tensor.shape]
    cuts[dim] = (start, max(start, end))
    return replace_operator(tensor, named["src"], cuts) if step == 1 else None


def _select_scatter(named: dict[str, Any]) -> Made:
    tensor, dim = named["self"], named["dim"] % max(named["self"].dim(), 1)
    cuts = [(0, size) for size in tensor.shape]
    start = named["index"] % tensor.shape[dim]
    cuts[dim] = (start, start + 1)
    return replace_operator(tensor, named["src"].unsqueeze(dim), cuts)


def _group_product(named: dict[str, Any]) -> Made:
    """Rows that were sorted by their matrix, as if each matrix got equally many."""
    rows, matrices = named["self"], named["mat2"]
    if rows.dim() != 2 or matrices.dim() != 3:
        return None
    groups, (count, width) = matrices.shape[0], rows.shape
    each = -(-count // groups)
    padded = torch.constant_pad_nd(rows, [0, 0, 0, each * groups - count], 0.0) if count % groups else rows
    made = torch.bmm(padded.reshape(groups, each, width), matrices.to(rows.dtype)).reshape(groups * each, -1)
    made = made.narrow(0, 0, count) if count % groups else made
    return made if named.get("bias") is None else made + named["bias"][0]


def _clamp(named: dict[str, Any]) -> Made:
    """Bounds that are tensors."""
    low, high = named.get("min"), named.get("max")
    if not any(isinstance(bound, torch.Tensor) for bound in (low, high)):
        return None
    made = named["self"] if low is None else torch.maximum(named["self"], low)
    return made if high is None else torch.minimum(made, high)


def _convolution(named: dict[str, Any]) -> Made:
    """A transposed one over one dimension is one over two, of which the first is one element long."""
    weight = named["weight"]
    if weight.dim() != 3 or not named["transposed"]:
        return None
    sizes = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}
    wide = [[one, *named[name]] for name, one in sizes.items()]
    signal, stride, padding, dilation, more = named["input"].unsqueeze(-2), *wide
    made = torch.ops.aten.convolution(
        signal, weight.unsqueeze(-2), named["bias"], stride, padding, dilation, True, more, named["groups"]
    )
    return made.squeeze(-2)


def _only_piece(named: dict[str, Any]) -> Made:
    """Nothing is cut."""
    tensor, dim = named["self"], named["dim"]
    sizes = named.get("split_sizes", named.get("split_size"))
    if sizes is None:
        return tensor.select(dim, 0) if tensor.shape[dim] == 1 else None
    is_whole = len(sizes) == 1 if isinstance(sizes, (list, tuple)) else sizes >= tensor.shape[dim]
    return torch.ops.aten.alias(tensor) if is_whole else None


def _pool(name: str) -> Callable[[dict[str, Any]], Made]:
    """Wrap an image without a batch as a batch of one."""

    def pool(named: dict[str, Any]) -> Made:
        if named["self"].dim() != 3:
            return None
        made = getattr(torch.ops.aten, name)(*{**named, "self": named["self"].unsqueeze(0)}.values())
        return (made[0] if isinstance(made, tuple) else made).squeeze(0)

    return pool


_FORMS: dict[str, Callable[[dict[str, Any]], Made]] = {
    "index_select": _index_select,
    "index": _index,
    "_unsafe_index": _index,
    "flip": _flip,
    "unfold": _unfold,
    "constant_pad_nd": _pad,
    "native_layer_norm": _layer_norm,
    "slice_scatter": _slice_scatter,
    "select_scatter": _select_scatter,
    "_grouped_mm": _group_product,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp,
    "convolution": _convolution,
    **dict.fromkeys(("unbind", "split", "split_with_sizes"), _only_piece),
    **{
        name: _pool(name)
        for name in ("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "adaptive_max_pool2d")
    },
}
