# SPDX-License-Identifier: Apache-2.0
"""Which host tensor an upload came from, so that one that is uploaded twice is known again."""

import weakref
from collections.abc import Iterable
from typing import Any

from .library import Library


class Origins:
    """Numbers for host tensors. A number means one object as long as it lives: addresses are used again, it is not."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._next = 2

    def of(self, arguments: Iterable[Any]) -> int:
        """Of the first host tensor among the arguments, a view counted as what it looks at; 0 when there is none.

        Those of torch get even numbers, the library's own, which count themselves, odd ones.
        """
        ttnn = self._library.ttnn
        for argument in arguments:
            if isinstance(argument, ttnn.Tensor) and argument.storage_type() != ttnn.DEVICE_STORAGE_TYPE:
                return 2 * int(getattr(argument, "tensor_id", 0)) + 1
            if type(argument).__module__.partition(".")[0] == "torch" and hasattr(argument, "data_ptr"):
                base = getattr(argument, "_base", None)
                return self._number(argument if base is None else base)
        return 0

    def _number(self, tensor: Any) -> int:
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        try:
            self._known[id(tensor)] = (weakref.ref(tensor), self._next)
        except TypeError:
            return 0
        self._next += 2
        return self._next - 2
