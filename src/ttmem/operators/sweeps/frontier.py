# SPDX-License-Identifier: Apache-2.0
"""Limits as plain data: where a dimension ends, and the line between shapes that pass and shapes that do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import prod


@dataclass(frozen=True, slots=True)
class Limit:
    """Where one dimension of a shape ends."""

    op: str
    board: str
    memory: str
    layout: str
    engine: str
    dim: int
    """The dimension that was grown."""
    shape: tuple[int, ...] | None
    """The largest that passes; null: not even the smallest does."""
    fails_at: tuple[int, ...] | None
    """One more along ``dim``, or the smallest that surely fails where some before it are not judged; null: none."""
    status: str
    """Of what fails: oom, clash, overflow; or why the search ended (invalid, unsupported, ...)."""
    message: str
    padded_bytes: int | None
    peak_bytes_per_bank: int | None
    confidence: str
    asked: int
    """Questions that the search took."""
    not_judged_at: tuple[int, ...] | None = None
    """The smallest about which the twin says neither pass nor failure, above ``shape``; null: there is none."""

    @property
    def elements(self) -> int:
        return prod(self.shape) if self.shape else 0


@dataclass(frozen=True, slots=True)
class Frontier(Limit):
    """The limit of one operator: the largest of all widths, the narrower one of equals; and each of them."""

    frontier: tuple[Limit, ...] = ()

    @classmethod
    def over(cls, limits: Sequence[Limit]) -> Frontier:
        largest = max(limits, key=lambda limit: limit.elements)
        return cls(**{one.name: getattr(largest, one.name) for one in fields(Limit)}, frontier=tuple(limits))
