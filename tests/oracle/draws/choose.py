# SPDX-License-Identifier: Apache-2.0
"""The source of choices for random calls, and a pseudo-random one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol, TypeVar

from ttmem.twin.operations.record import OperationRecord, Step

T = TypeVar("T")


class Choose(Protocol):
    """A source of choices; the oracle's is hypothesis, so that a failing call shrinks."""

    def integer(self, low: int, high: int) -> int:
        """Return a number between the two, both included."""

    def one_of(self, values: Sequence[T]) -> T:
        """Return one of the values."""


class RandomChoose:
    """Choices of a pseudo-random generator: the same seed makes the same calls."""

    def __init__(self, seed: str | int) -> None:
        self._random = Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def one_of(self, values: Sequence[T]) -> T:
        return self._random.choice(values)


Draw = Callable[[OperationRecord, Choose], list[Step]]
"""Makes a random call: allocations, then the call. Mostly calls whose plan is exact."""
