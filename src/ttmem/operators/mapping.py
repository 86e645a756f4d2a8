# SPDX-License-Identifier: Apache-2.0
"""Map the operators of some cases, or all known ones, to ttnn, with the twin's coverage of models' calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from ttmem.base import toml
from ttmem.operators.bound_case import CannotRunError
from ttmem.operators.case import Case
from ttmem.operators.case_program import lower_case
from ttmem.operators.catalogue_entries import DEVICE, FREE, NONE, Operator, catalogue


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
    """Counts by device call, without ``ttnn.``; several calls of one operator are joined."""

    @property
    def total(self) -> KnownCalls:
        return KnownCalls(*map(sum, zip(*self.places.values(), strict=True)))

    def find_operation(self, name: str) -> KnownCalls | None:
        """Return the calls that use an operation; None: no model uses it."""
        found = [calls for key, calls in self.operations.items() if name in key.split(" + ")]
        return KnownCalls(*map(sum, zip(*found, strict=True))) if found else None

    def once(self, known: KnownCalls) -> int:
        """Calls as the models make them, on one board and in one memory."""
        return known.total // max(len(self.places), 1)


@cache
def model_calls() -> ModelCalls:
    """Figures of the last run of ``bench/twin_coverage.py``."""
    told = toml.load_packaged("ttmem.operators", "catalogue_data/model_calls.toml")

    def table(name: str) -> dict[str, KnownCalls]:
        found: Mapping[str, Sequence[int]] = told[name]
        return {key: KnownCalls(*figures) for key, figures in found.items()}

    return ModelCalls(told["models"], told["compared_rows"], table("places"), table("operators"), table("operations"))


UNKNOWN = "unknown"
"""The support of an operator that the catalogue does not have."""

Cells = Mapping[tuple[str, str], str]
"""(memory, layout) -> status, of an operator that was tried on an engine."""
CELLS = (("DRAM", "tile"), ("L1", "tile"), ("DRAM", "row_major"), ("L1", "row_major"))


@dataclass(frozen=True, slots=True)
class MappedOperator:
    """An operator, its number of uses and whether its cases can run."""

    aten: str
    operator: Operator | None
    cases: tuple[Case, ...] = ()
    cannot_run: Mapping[str, int] = field(default_factory=dict)
    """Why cases have no call on the device -> how many."""
    cells: Cells = field(default_factory=dict)

    @property
    def support(self) -> str:
        return self.operator.support if self.operator else UNKNOWN

    @property
    def calls(self) -> int:
        return sum(case.count for case in self.cases)

    @property
    def unique_shapes(self) -> int:
        return len({tuple(tensor.shape for tensor in case.tensors) for case in self.cases})

    @property
    def runnable_cases(self) -> int:
        return len(self.cases) - sum(self.cannot_run.values()) if self.support in (DEVICE, FREE) else 0


@dataclass(frozen=True, slots=True)
class Mapped:
    """Map the operators, the most called first."""

    operators: tuple[MappedOperator, ...]
    from_cases: bool

    def count(self, support: str) -> int:
        return sum(mapped.support == support for mapped in self.operators)

    def count_by_kind(self) -> dict[str, int]:
        counted = Counter(mapped.operator.kind if mapped.operator else UNKNOWN for mapped in self.operators)
        return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))

    @property
    def calls(self) -> int:
        return sum(mapped.calls for mapped in self.operators)

    @property
    def covered_calls(self) -> int:
        """Calls that the device runs or that need no work there."""
        return sum(mapped.calls for mapped in self.operators if mapped.support in (DEVICE, FREE))


def map_cases(cases: Sequence[Case] | None, cells: Mapping[str, Cells] | None = None) -> Mapped:
    """The operators of the cases; without cases, the whole catalogue."""
    tried = cells or {}
    if cases is None:
        found = [MappedOperator(op.aten, op, cells=tried.get(op.aten, {})) for op in catalogue().operators.values()]
        return Mapped(tuple(found), from_cases=False)
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.op, []).append(case)
    mapped = [
        MappedOperator(aten, catalogue().find(aten), tuple(group), dict(_cannot_run(aten, group)), tried.get(aten, {}))
        for aten, group in groups.items()
    ]
    return Mapped(tuple(sorted(mapped, key=lambda one: (-one.calls, one.aten))), from_cases=True)


def _cannot_run(aten: str, cases: Iterable[Case]) -> Mapping[str, int]:
    operator = catalogue().find(aten)
    if operator is None or operator.support != DEVICE:
        return {}
    reasons: Counter[str] = Counter()
    for case in cases:
        try:
            lower_case(case)
        except CannotRunError as error:
            reasons[str(error)] += 1
    return reasons


def is_unsupported(support: str) -> bool:
    """Return operators that do not run on the device and need work: on the host, or unsupported."""
    return support not in (DEVICE, FREE)


def support_words(support: str) -> str:
    """For people."""
    return {DEVICE: "yes", FREE: "no work", NONE: "no", UNKNOWN: "not known"}.get(support, "host")
