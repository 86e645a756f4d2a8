# SPDX-License-Identifier: Apache-2.0
"""Values that a trace without data cannot know: numbers read from tensors, and the size of a mask's selection.

A number is taken as one that goes on (false, 1), a selection as all that it could select. Both are told.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

_MOST_NUMBERS = 2000
"""A loop that ends when a tensor says so would not end here."""
_NUMBERS: dict[type, Any] = {bool: False, int: 1, float: 1.0, complex: 1 + 0j}


class StandIns:
    """Runs operators; what was taken for what is in ``told``, with the module that asked."""

    def __init__(self) -> None:
        self.told: Counter[str] = Counter()
        self._numbers = 0

    def run(self, func: Any, args: Any, kwargs: Any, module: str) -> Any:
        """Return the operator's result, or its substitute."""
        try:
            return func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            stand_in = _SHAPES.get(func._schema.name)
            if func._schema.name == "aten::_local_scalar_dense":
                return self._number(args[0], module)
            if stand_in is None:
                raise
            self.told[
                f"values decide how much {func._schema.name} in {module or 'the model'} selects: all is taken"
            ] += 1
            return stand_in(func, *args, **kwargs)

    def remarks(self) -> list[str]:
        return [f"{text} ({count} times)" if count > 1 else text for text, count in self.told.items()]

    def _number(self, tensor: Any, module: str) -> Any:
        self._numbers += 1
        if self._numbers > _MOST_NUMBERS:
            raise RuntimeError(f"the model reads more than {_MOST_NUMBERS} numbers from tensors, which have none here")
        kind = next(kind for kind, holds in _KINDS if holds(tensor.dtype))
        taken = _NUMBERS[kind]
        self.told[f"a number that {module or 'the model'} reads from a tensor is taken as {taken}"] += 1
        return taken


_KINDS = (
    (bool, lambda dtype: dtype == torch.bool),
    (complex, lambda dtype: dtype.is_complex),
    (float, lambda dtype: dtype.is_floating_point),
    (int, lambda dtype: True),
)


def _all_places(_: Any, mask: Any) -> Any:
    return mask.new_empty((mask.numel(), mask.dim()), dtype=torch.long)


def _all_elements(_: Any, tensor: Any, mask: Any) -> Any:
    return tensor.new_empty((torch.broadcast_shapes(tensor.shape, mask.shape).numel(),))


def _index(func: Any, tensor: Any, indices: Any) -> Any:
    """A mask is a list of places for each of its dimensions."""
    places: list[Any] = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            places += [index.new_empty((index.numel(),), dtype=torch.long) for _ in range(index.dim())]
        else:
            places.append(index)
    return func(tensor, places)


def _unique(_: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    count = tensor.numel()
    return tensor.new_empty(count), tensor.new_empty(tensor.shape, dtype=torch.long), tensor.new_empty(
        count, dtype=torch.long
    )  # fmt: skip


def _counts(_: Any, tensor: Any, weights: Any = None, minlength: int = 0) -> Any:
    return tensor.new_empty(max(minlength, tensor.numel()), dtype=torch.long if weights is None else weights.dtype)


def _unique_rows(_: Any, tensor: Any, dim: int = 0, *args: Any, **kwargs: Any) -> Any:
    count = tensor.shape[dim]
    places = tensor.new_empty(count, dtype=torch.long)
    return tensor.new_empty(tensor.shape), places, tensor.new_empty(count, dtype=torch.long)


def _repeat(_: Any, repeats: Any, output_size: Any = None) -> Any:
    """Return the source element of each copy; the number of copies depends on values."""
    return repeats.new_empty(output_size if output_size is not None else repeats.numel(), dtype=torch.long)


_SHAPES: dict[str, Any] = {
    "aten::bincount": _counts,
    "aten::unique_dim": _unique_rows,
    "aten::unique_consecutive": _unique,
    "aten::repeat_interleave": _repeat,
    "aten::nonzero": _all_places,
    "aten::masked_select": _all_elements,
    "aten::index": _index,
    "aten::_unique2": _unique,
}
