# SPDX-License-Identifier: Apache-2.0
"""How the operators of some cases, or all that are known, map to ttnn."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ttmem.operators.bound_case import CannotRunError
from ttmem.operators.case import Case
from ttmem.operators.case_program import recipe_of
from ttmem.operators.catalogue_entries import DEVICE, FREE, NONE, Operator, catalogue

UNKNOWN = "unknown"
"""The support of an operator that the catalogue does not have."""

Cells = Mapping[tuple[str, str], str]
"""(memory, layout) -> status, of an operator that was tried on an engine."""
CELLS = (("DRAM", "tile"), ("L1", "tile"), ("DRAM", "row_major"), ("L1", "row_major"))


@dataclass(frozen=True, slots=True)
class MappedOperator:
    """One operator, how often it is used and whether its cases can be run."""

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
    """All of them, the most called first."""

    operators: tuple[MappedOperator, ...]
    from_cases: bool

    def count(self, support: str) -> int:
        return sum(mapped.support == support for mapped in self.operators)

    def by_kind(self) -> dict[str, int]:
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
            recipe_of(case)
        except CannotRunError as error:
            reasons[str(error)] += 1
    return reasons


def is_unsupported(support: str) -> bool:
    """Neither run by the device nor without work: the host's, or nobody's."""
    return support not in (DEVICE, FREE)


def support_words(support: str) -> str:
    """For people."""
    return {DEVICE: "yes", FREE: "no work", NONE: "no", UNKNOWN: "not known"}.get(support, "host")
