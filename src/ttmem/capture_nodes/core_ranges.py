# SPDX-License-Identifier: Apache-2.0
"""The cores that a static buffer lies on, as the library prints them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_RECTANGLE = re.compile(
    r"\(?(?:x=)?(\d{1,9})\s?[-,]\s?(?:y=)?(\d{1,9})\)?\s*-\s*\(?(?:x=)?(\d{1,9})\s?[-,]\s?(?:y=)?(\d{1,9})\)?"
)
_WIDEST_GRID = 256
"""Cores in one direction; more is a damaged text, not a chip."""


class CoreRectangle(NamedTuple):
    """Both corners belong to it."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def cores(self) -> int:
        """How many there are."""
        return (self.right - self.left + 1) * (self.bottom - self.top + 1)


@lru_cache(maxsize=1024)
def core_rectangles(text: str) -> tuple[CoreRectangle, ...]:
    """``{[0-0 - 7-3]}`` and the older ``{[(x=0,y=0) - (x=7,y=3)]}``; what cannot be a chip's cores is left out."""
    found = (CoreRectangle(*map(int, corners)) for corners in _RECTANGLE.findall(text))
    return tuple(one for one in found if one.left <= one.right < _WIDEST_GRID and one.top <= one.bottom < _WIDEST_GRID)


@lru_cache(maxsize=256)
def cores_in(rectangles: tuple[CoreRectangle, ...]) -> frozenset[tuple[int, int]]:
    """Every core of some rectangles, each once."""
    return frozenset(
        (x, y)
        for left, top, right, bottom in rectangles
        for x in range(left, right + 1)
        for y in range(top, bottom + 1)
    )
