# SPDX-License-Identifier: Apache-2.0
"""The largest passing sizes of a case: one dimension at a time, or a frontier over two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from itertools import product, starmap
from math import prod

from ttmem.base.bisection import find_first_failure
from ttmem.base.errors import BadInputError
from ttmem.failures.outcome import MEMORY_STATUSES, PASS
from ttmem.operators.case import Case, CaseTensor
from ttmem.operators.catalogue_entries import DEVICE, catalogue
from ttmem.operators.sweeps.ask_engine import CaseRunner
from ttmem.operators.sweeps.plan import Point, SweepSettings, padded_tile_elements
from ttmem.operators.sweeps.resize import main_shape, resizable, resize
from ttmem.operators.sweeps.result import Result


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """The largest passing size of a dimension."""

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
class Frontier(SizeLimit):
    """The limit of one operator: the largest of all widths, the narrower one of equals; and each of them."""

    frontier: tuple[SizeLimit, ...] = ()

    @classmethod
    def spanning(cls, limits: Sequence[SizeLimit]) -> Frontier:
        largest = max(limits, key=lambda limit: limit.elements)
        return cls(**{one.name: getattr(largest, one.name) for one in fields(SizeLimit)}, frontier=tuple(limits))


MOST_ELEMENTS = 1 << 34
"""Four times what the largest board's DRAM holds in bfloat16: beyond, a dimension has no limit worth the name."""
WIDTHS = tuple(32 << step for step in range(10))
"""Widths of a frontier, 32 to 16,384."""


def find_smallest_cases(cases: Sequence[Case], ops: Sequence[str]) -> list[Case]:
    """Return the smallest case of each of these operators (none: of all)."""
    wanted = {catalogue().aten_name(op) for op in ops}
    smallest: dict[str, Case] = {}
    for case in sorted(cases, key=padded_tile_elements):
        if not wanted or case.op in wanted:
            smallest.setdefault(case.op, case)
    return list(smallest.values())


def base_case(op: str, shape: Sequence[int] | None = None) -> Case:
    """The case that is grown: the catalogue's example, or one with this first tensor and the rest filled in."""
    name = catalogue().aten_name(op)
    operator = catalogue().find(name)
    if operator is None:
        import difflib

        close = difflib.get_close_matches(name, catalogue().operators, n=1)
        raise BadInputError(
            f"unknown operator '{op}'", hint=f"did you mean '{close[0]}'?" if close else "'ttmem ops map' lists them"
        )
    if operator.support != DEVICE:
        raise BadInputError(f"{name} does not run on the device", hint=operator.note)
    example = operator.example_case()
    if shape is None:
        return example
    if len(example.tensors) > 1 and not operator.missing_tensors:
        raise BadInputError(f"{name} needs more than one tensor", hint="give a case file instead of --shape")
    dtype = example.tensors[0].dtype if example.tensors else "bfloat16"
    return Case(name, (CaseTensor(tuple(shape), dtype),))


def find_limits(
    cases: Sequence[Case],
    *,
    settings: SweepSettings,
    boards: Sequence[str],
    memories: Sequence[str],
    layouts: Sequence[str] = ("tile",),
    dim: int | None = None,
    widths: Sequence[int] = WIDTHS,
    watch: Callable[[SizeLimit], None] | None = None,
) -> list[Frontier]:
    """Frontiers of every case on every board and memory: limits for each width that it can have, or for its own."""
    with closing(CaseRunner(settings)) as engine:
        frontiers = []
        for point in starmap(Point, product(cases, boards, memories, layouts)):
            grown = _find_growing_dimension(point.case, dim)
            limits = []
            for case in _widths(point.case, grown, widths):
                limits.append(_search(replace(point, case=case), grown, engine))
                if watch:
                    watch(limits[-1])
            frontiers.append(Frontier.spanning(limits))
        return frontiers


def _find_growing_dimension(case: Case, dim: int | None) -> int:
    """The second-last dimension, rows of tiles, unless another is asked for or it cannot be."""
    able = list(resizable(case))
    if not able:
        raise BadInputError(f"no dimension of {case.op} can be grown by itself", hint="sweep its cases instead")
    rank = len(main_shape(case))
    if dim is not None:
        if not -rank <= dim < rank or dim % rank not in able:
            hint = f"possible: {', '.join(map(str, able))}"
            raise BadInputError(f"dimension {dim} of {case.op} cannot be grown", hint=hint)
        return dim % rank
    return max([one for one in able if one < rank - 1] or able)


def _widths(case: Case, grown: int, widths: Sequence[int]) -> Iterator[Case]:
    last = len(main_shape(case)) - 1
    if last not in resizable(case) or grown == last or not widths:
        yield case
    else:
        yield from filter(None, (resize(case, last, width) for width in widths))


Answer = tuple[Case, Result]


class _Search:
    """Sizes of one dimension, each asked once."""

    def __init__(self, point: Point, dim: int, engine: CaseRunner) -> None:
        self._point, self._dim, self._engine = point, dim, engine
        self._answers: dict[int, Answer] = {}
        shape = main_shape(point.case)
        self._most = MOST_ELEMENTS // max(prod(shape) // max(shape[dim], 1), 1)

    @property
    def asked(self) -> int:
        return len(self._answers)

    def at(self, length: int) -> Answer:
        if length not in self._answers:
            changed = resize(self._point.case, self._dim, length)
            assert changed is not None
            self._answers[length] = changed, next(iter(self._engine.ask([replace(self._point, case=changed)])))
        return self._answers[length]

    def double_until_failure(self) -> tuple[int, int | None, int | None]:
        """Try the sizes 1, 2, 4, ...: return the last that passes (0: none), the first above it without a verdict,
        and the first that fails."""
        passes, not_judged, length = 0, None, 1
        while length <= self._most:
            result = self.at(length)[1]
            if result.status == PASS:
                passes, not_judged = length, None
            elif not result.is_judged:
                not_judged = not_judged or length
            elif passes or length >= 32 or result.status in MEMORY_STATUSES:
                return passes, not_judged, length
            # else: some operations refuse sizes below a tile
            length *= 2
        return passes, not_judged, None

    def bisect(self, low: int, high: int, is_below: Callable[[Result], bool]) -> int:
        """The first size above which ``is_below`` does not hold, between one where it holds and one where not."""
        return find_first_failure(low, high, lambda length: is_below(self.at(length)[1]))


def _search(point: Point, dim: int, engine: CaseRunner) -> SizeLimit:
    """Small first: the sizes 1, 2, 4, ... until one fails, then halves of the gap. What is not judged is neither."""
    search = _Search(point, dim, engine)
    passes, not_judged, fails = search.double_until_failure()
    above = not_judged or fails
    if passes and above:
        above = search.bisect(passes, above, lambda result: result.status == PASS)
        passes = above - 1
        not_judged, fails = (None, above) if search.at(above)[1].is_judged else (above, fails)
    if not_judged and fails:
        fails = search.bisect(not_judged, fails, lambda result: not result.outcome.is_failure)
    best = search.at(passes) if passes else None
    failed = search.at(fails) if fails else None
    unsure = search.at(not_judged) if not_judged else None
    end = failed or unsure
    answered = best or end
    return SizeLimit(
        point.case.op,
        point.board,
        point.memory,
        point.layout,
        engine=answered[1].engine if answered else "",
        dim=dim,
        shape=main_shape(best[0]) if best else None,
        fails_at=main_shape(failed[0]) if failed else None,
        status=end[1].status if end else "none",
        message=end[1].message if end else "it did not fail up to the largest size that was tried",
        padded_bytes=best[1].padded_bytes if best else None,
        peak_bytes_per_bank=best[1].peak_bytes_per_bank if best else None,
        confidence=_least_sure(best, failed, unsure),
        asked=search.asked,
        not_judged_at=main_shape(unsure[0]) if unsure else None,
    )


def _least_sure(*found: Answer | None) -> str:
    order = ("real", "exact", "bounded", "unknown")
    return max((one[1].confidence for one in found if one), key=order.index, default="unknown")
