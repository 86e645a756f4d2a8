# SPDX-License-Identifier: Apache-2.0
"""Operators rewritten as others that the device has: decompositions, rewrites, writes into views."""

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


MOST_CALLS = 64
"""What falls into more pieces than this is better named as a whole."""
_ATTENTION = {
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
}


def is_attention_of_other_heads(name: str, args: Any, multiple: int) -> bool:
    """Return True for fused attention whose heads are no multiple."""
    return bool(multiple) and name in _ATTENTION and any(tensor.shape[-1] % multiple for tensor in args[:3])


def attention(named: dict[str, Any]) -> Any:
    """Decompose it into products and a softmax."""
    mask = named.get("attn_mask", named.get("attn_bias"))
    is_causal, scale = bool(named.get("is_causal")), named.get("scale")
    given = named["query"], named["key"], named["value"], mask, 0.0, is_causal, None
    return torch.ops.aten._scaled_dot_product_attention_math.default.decompose(*given, scale=scale)[0]


def add_mask_rows(recorder: Any, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Arguments of fused attention with one row of the mask for each of the query, which the device does not repeat."""
    for word in ("attn_mask", "attn_bias") if name in _ATTENTION else ():
        mask, place = kwargs.get(word), -1
        for number, argument in enumerate(func._schema.arguments):
            if argument.name == word and number < len(args):
                mask, place = args[number], number
        if isinstance(mask, torch.Tensor) and mask.dim() > 1 and mask.shape[-2] == 1 < args[0].shape[-2]:
            with recorder:
                mask = mask.expand(*mask.shape[:-2], args[0].shape[-2], mask.shape[-1])
            if place < 0:
                return args, {**kwargs, word: mask}
            return (*args[:place], mask, *args[place + 1 :]), kwargs
    return args, kwargs


def decomposition(func: Any) -> Any:
    """torch's own, or None. (Its table is loaded when it is first wanted.)"""
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
        return func.decompose
    from torch._decomp import decomposition_table

    return decomposition_table.get(func)


def storage_of(tensor: Any) -> int:
    """Equal for all views of one tensor; of those without a storage of the plain kind none is."""
    try:
        key: int = tensor.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):
        return -id(tensor)
    return key


def write_into_view(schema: Any, args: Any, kwargs: Any) -> list[Any]:
    """The tensors that a call changes."""
    found: list[Any] = []
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[position] if position < len(args) and not argument.kwarg_only else kwargs.get(argument.name)
        found += value if isinstance(value, (list, tuple)) else [value] if value is not None else []
    return found


def whole_with(base: Any, view: Any, part: Any) -> Any:
    """The whole as it is after its view became ``part``; None where the view is no box of it."""
    if view.numel() == base.numel():
        return part.reshape(base.shape)
    cuts = _box(base, view)
    if cuts is None:
        return None
    return replace_operator(base, part.reshape([end - start for start, end in cuts]), cuts)


def _box(base: Any, view: Any) -> list[tuple[int, int]] | None:
    """Start and end along each dimension of the whole."""
    if not base.is_contiguous():
        return None
    left = view.storage_offset() - base.storage_offset()
    lengths = list(zip(view.shape, view.stride(), strict=True))
    cuts: list[tuple[int, int]] = []
    for size, stride in zip(base.shape, base.stride(), strict=True):
        start, left = divmod(left, stride)
        along = next((place for place, (count, step) in enumerate(lengths) if step == stride and count > 1), None)
        length = lengths.pop(along)[0] if along is not None else 1
        if start < 0 or start + length > size:
            return None
        cuts.append((start, start + length))
    is_whole = not left and all(count == 1 for count, _ in lengths)
    return cuts if is_whole else None
