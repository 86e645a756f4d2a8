# SPDX-License-Identifier: Apache-2.0
"""What the twin knows of the calls that models make: ``catalogue_data/model_calls.toml``, measured against the mock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from ttmem.base import toml


class KnownCalls(NamedTuple):
    """Calls of models by how certain the twin is of them, summed over the places that were measured."""

    exact: int
    bounded: int
    unknown: int

    @property
    def total(self) -> int:
        return self.exact + self.bounded + self.unknown

    def percent(self, calls: int) -> float:
        """A share of them, rounded down: 100 % means all."""
        return int(1000 * calls / max(self.total, 1)) / 10

    @property
    def exact_percent(self) -> float:
        return self.percent(self.exact)


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """The coverage of a set of models."""

    models: int
    compared_rows: int
    """Cases times places that the mock was asked too."""
    places: Mapping[str, KnownCalls]
    """Boards and memories."""
    operators: Mapping[str, KnownCalls]
    """By aten name."""
    operations: Mapping[str, KnownCalls]
    """By what is called on the device, without ``ttnn.``; several calls that stand for one operator are joined."""

    @property
    def total(self) -> KnownCalls:
        return KnownCalls(*map(sum, zip(*self.places.values(), strict=True)))

    def of_operation(self, name: str) -> KnownCalls | None:
        """All calls in which an operation takes part; None: no model uses it."""
        found = [calls for key, calls in self.operations.items() if name in key.split(" + ")]
        return KnownCalls(*map(sum, zip(*found, strict=True))) if found else None

    def once(self, known: KnownCalls) -> int:
        """Calls as the models make them, on one board and in one memory."""
        return known.total // max(len(self.places), 1)


@cache
def model_calls() -> ModelCalls:
    """As ``bench/twin_coverage.py`` last measured them."""
    told = toml.load_packaged("ttmem.operators", "catalogue_data/model_calls.toml")

    def table(name: str) -> dict[str, KnownCalls]:
        found: Mapping[str, Sequence[int]] = told[name]
        return {key: KnownCalls(*figures) for key, figures in found.items()}

    return ModelCalls(told["models"], told["compared_rows"], table("places"), table("operators"), table("operations"))
