# SPDX-License-Identifier: Apache-2.0
"""Writes into a part of a tensor: torch changes the whole by changing a view of it, a graph must say so."""

from __future__ import annotations

from typing import Any

from .rewrites import replace_operator


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
