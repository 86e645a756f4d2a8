# SPDX-License-Identifier: Apache-2.0
"""Drawings of pages beside line charts: values in, the app draws them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal


@dataclass(frozen=True, slots=True)
class Outcome:
    """The kinds of a cell."""

    name: str
    level: Literal["ok", "warn", "alarm", "none"]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows by columns, each cell coloured by what happened there."""

    TYPE: ClassVar[str] = "matrix"
    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    cells: Sequence[Sequence[int]]
    """Per row and column: index into ``outcomes``, -1 where nothing was tried."""
    remarks: Sequence[Sequence[str]]
    outcomes: Sequence[Outcome]


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of periods: (from, to, kind)."""

    name: str
    spans: Sequence[tuple[float, float, str]]


@dataclass(frozen=True, slots=True)
class Lanes:
    """Several actors over one clock."""

    TYPE: ClassVar[str] = "lanes"
    title: str
    unit: str
    end: float
    lanes: Sequence[Lane]
