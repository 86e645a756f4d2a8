# SPDX-License-Identifier: Apache-2.0
"""Compare results with an earlier sweep or with a file of expected failures."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ttmem.analysis.budget import PERCENT, parse_limit
from ttmem.analysis.budget import Limit as GrowthLimit
from ttmem.base.atomic_files import write_bytes
from ttmem.base.errors import BadInputError
from ttmem.failures.outcome import PASS
from ttmem.operators.sweeps.journal import is_results, read_results
from ttmem.operators.sweeps.result import Result, check_status, json_lines

NEWLY_FAILS, NEWLY_PASSES, FAILS_OTHERWISE, NEEDS_MORE, NEEDS_LESS = (
    "newly-fails", "newly-passes", "fails-otherwise", "needs-more", "needs-less",
)  # fmt: skip
CHANGES = (NEWLY_FAILS, FAILS_OTHERWISE, NEEDS_MORE, NEEDS_LESS, NEWLY_PASSES)
"""In the order in which people want to see them."""


@dataclass(frozen=True, slots=True)
class Change:
    """A case in one memory and layout of one board with another result than before."""

    change: str
    before: Result
    after: Result

    @property
    def growth_bytes_per_bank(self) -> int | None:
        """Change of the peak; None when one of the two is unknown."""
        peaks = self.before.peak_bytes_per_bank, self.after.peak_bytes_per_bank
        return None if peaks[0] is None or peaks[1] is None else peaks[1] - peaks[0]

    @property
    def growth_percent(self) -> float | None:
        """Change relative to the peak before; None also when that was zero."""
        growth, before = self.growth_bytes_per_bank, self.before.peak_bytes_per_bank
        return None if growth is None or not before else 100 * growth / before


@dataclass(frozen=True, slots=True)
class SweepComparison:
    """Return the differences, the worst first."""

    compared: int
    unchanged: int
    changes: tuple[Change, ...]
    only_before: int
    """Results that the other sweep does not have."""
    only_after: int

    def count_kind(self, change: str) -> Sequence[Change]:
        return [one for one in self.changes if one.change == change]

    def is_regression(self, limit: GrowthLimit | None) -> bool:
        """Return whether a case newly fails, or a peak grew by more than the limit (None: any growth is fine)."""
        if self.count_kind(NEWLY_FAILS):
            return True
        if limit is None:
            return False
        in_percent = limit.unit == PERCENT
        figures = (one.growth_percent if in_percent else one.growth_bytes_per_bank for one in self.changes)
        return any(figure is not None and figure > limit.amount for figure in figures)


def parse_fail_on(text: str) -> GrowthLimit | None:
    """Parse ``new-failure`` (None) or ``growth:5%``."""
    if text == "new-failure":
        return None
    kind, _, amount = text.partition(":")
    if kind != "growth" or not amount:
        hint = "write new-failure, or growth:5% (also growth:64KiB per bank)"
        raise BadInputError(f"'{text}' is nothing to fail on", hint=hint)
    return parse_limit(amount)


def compare_folders(before: Path, after: Path) -> SweepComparison:
    """Compare two folders of ``ttmem sweep run``."""
    for place in (before, after):
        if not place.exists():
            raise BadInputError("no such file or folder", where=str(place))
        if not is_results(place):
            raise BadInputError(
                "holds no results of a sweep", where=str(place), hint="'ttmem sweep run' makes such folders"
            )
    return compare(read_results(before)[0], read_results(after)[0])


def compare(before: Iterable[Result], after: Iterable[Result]) -> SweepComparison:
    """Cases are the same when their id, board, memory and layout are."""
    first, second = ({result.place: result for result in results} for results in (before, after))
    both = [(first[place], second[place]) for place in first if place in second]
    changes = [
        Change(change, one, other) for one, other in both if (change := _change(one, other)) is not None
    ]  # fmt: skip
    changes.sort(key=lambda one: (CHANGES.index(one.change), -abs(one.growth_bytes_per_bank or 0), one.after.place))
    return SweepComparison(
        compared=len(both),
        unchanged=len(both) - len(changes),
        changes=tuple(changes),
        only_before=len(first) - len(both),
        only_after=len(second) - len(both),
    )


def _change(before: Result, after: Result) -> str | None:
    if before.status != after.status:
        if after.status == PASS:
            return NEWLY_PASSES
        return NEWLY_FAILS if before.status == PASS else FAILS_OTHERWISE
    growth = Change("", before, after).growth_bytes_per_bank
    if not growth or after.status != PASS:
        return None
    return NEEDS_MORE if growth > 0 else NEEDS_LESS


Key = tuple[str, str, str, str]
_KEYS = ("id", "board", "memory", "layout")


@dataclass(frozen=True, slots=True)
class Deviation:
    """A result that is not what it should be."""

    result: Result
    expected: str


def read(path: Path) -> dict[Key, str]:
    """Lines ``{"id", "board", "memory", "layout", "status"}``; a results.jsonl is such a file too."""
    expected: dict[Key, str] = {}
    for where, entry in json_lines(path, "expectation"):
        if not isinstance(entry, Mapping) or not all(isinstance(entry.get(name), str) for name in (*_KEYS, "status")):
            raise BadInputError(f"an expectation needs {', '.join(_KEYS)} and status", where=where)
        check_status(entry["status"], where)
        expected[entry["id"], entry["board"], entry["memory"], entry["layout"]] = entry["status"]
    return expected


def write(path: Path, results: Iterable[Result]) -> None:
    """Return the results that did not pass."""
    lines = (
        json.dumps({**{name: getattr(result, name) for name in _KEYS}, "op": result.op, "status": result.status}) + "\n"
        for result in results
        if result.status != "pass"
    )
    write_bytes(path, "".join(lines).encode())


def check_expectations(
    results: Iterable[Result], expected: Mapping[Key, str] | None, *, strict: bool
) -> list[Deviation]:
    """Listed results must have their status (an unexpected pass is a deviation too: the list is out of date).

    Results that are not listed must pass where a list is given or ``strict`` asks for it.
    """
    if expected is None and not strict:
        return []
    known = expected or {}
    return [
        Deviation(result, wanted) for result in results if result.status != (wanted := known.get(result.place, "pass"))
    ]
