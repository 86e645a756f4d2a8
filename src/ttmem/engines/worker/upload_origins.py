# SPDX-License-Identifier: Apache-2.0
"""Origins of uploads: identifies a host tensor that is uploaded more than once."""

import weakref
from collections.abc import Hashable, Iterable
from typing import Any

from .library import Library

_SAMPLED = 4096
_LEAST_DIFFERENT = 16
"""Distinct values of the sample: masks, zeros and ones are alike without being the same."""


class UploadOrigins:
    """Numbers host tensors: equal values have equal numbers, in whatever copy."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._objects: dict[int, tuple[weakref.ref[Any], int]] = {}
        """By identity, which Python uses again: a token is valid while its object lives."""
        self._numbers: dict[Hashable, int] = {}
        self._made: dict[int, int] = {}
        """Numbers of the library's host tensors that were made from another host tensor."""

    def find_origin(self, arguments: Iterable[Any]) -> int:
        """Return the number of the first host tensor among the arguments; 0 when there is none.

        Torch tensors have even numbers, the library's own, which count themselves, odd ones.
        """
        for argument in arguments:
            if self._is_ours(argument):
                own = int(getattr(argument, "tensor_id", 0))
                return self._made.get(own, 2 * own + 1)
            if type(argument).__module__.partition(".")[0] == "torch" and hasattr(argument, "data_ptr"):
                return self._number(argument)
        return 0

    def inherit(self, result: Any, origin: int) -> None:
        """Give the number of a host tensor to another form of the same values."""
        if origin and self._is_ours(result):
            self._made[int(getattr(result, "tensor_id", 0))] = origin

    def _is_ours(self, value: Any) -> bool:
        ttnn = self._library.ttnn
        return isinstance(value, ttnn.Tensor) and value.storage_type() != ttnn.DEVICE_STORAGE_TYPE

    def _number(self, tensor: Any) -> int:
        """Number a tensor; a view counts as the part that it shows of its base."""
        key: Hashable = _sample_values(tensor)
        if key is None:
            base = getattr(tensor, "_base", None)
            shown = () if base is None else (tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
            key = (self._find_token(tensor if base is None else base), shown)
        return self._numbers.setdefault(key, 2 * len(self._numbers) + 2)

    def _find_token(self, tensor: Any) -> int:
        known = self._objects.get(id(tensor))
        if known is None or known[0]() is not tensor:
            known = self._objects[id(tensor)] = (weakref.ref(tensor), len(self._numbers))
        return known[1]


def _sample_values(tensor: Any) -> tuple[Hashable, ...] | None:
    """Return a few thousand values spread over a tensor; None where they are too few, or too much alike, to identify
    it."""
    try:
        count = tensor.numel()
        if count < _SAMPLED:
            return None
        values = tensor.detach().reshape(-1)[:: count // _SAMPLED][:_SAMPLED].tolist()
    except Exception:  # a fake tensor of torch may have no values
        return None
    if len(set(values)) < _LEAST_DIFFERENT:
        return None
    return tuple(tensor.shape), str(tensor.dtype), hash(tuple(values))
