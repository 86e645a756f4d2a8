# SPDX-License-Identifier: Apache-2.0
"""Two sweeps compared, as ``ttmem sweep diff`` does it: releases of ttnn, engines, or before and after a change."""

from pathlib import Path

from ttmem.analysis.budget import PERCENT, Limit, parse_limit
from ttmem.base.errors import BadInputError
from ttmem.operators.sweeps.comparison import NEWLY_FAILS, Comparison, compare
from ttmem.operators.sweeps.journal import is_results, read_results
from ttmem.reports.sweep_diff.document import SweepDiff, document

_FAIL_ON = "write new-failure, or growth:5% (also growth:64KiB per bank)"


def sweep_diff(before: str | Path, after: str | Path, *, fail_on: str | None = None) -> SweepDiff:
    """Which results differ between two folders of ``ttmem sweep run``.

    ``fail_on`` says what a regression is: ``new-failure``, or ``growth:5%`` of a peak (new failures count too).
    """
    growth = _growth(fail_on) if fail_on is not None else None
    sides = [Path(before), Path(after)]
    for place in sides:
        if not place.exists():
            raise BadInputError("no such file or folder", where=str(place))
        if not is_results(place):
            raise BadInputError(
                "holds no results of a sweep", where=str(place), hint="'ttmem sweep run' makes such folders"
            )
    found = compare(*(read_results(place)[0] for place in sides))
    regression = fail_on is not None and _is_regression(found, growth)
    return document(found, before=sides[0].name, after=sides[1].name, regression=regression)


def _growth(fail_on: str) -> Limit | None:
    """None: only new failures count."""
    if fail_on == "new-failure":
        return None
    kind, _, amount = fail_on.partition(":")
    if kind != "growth" or not amount:
        raise BadInputError(f"'{fail_on}' is nothing to fail on", hint=_FAIL_ON)
    return parse_limit(amount)


def _is_regression(found: Comparison, growth: Limit | None) -> bool:
    if found.of_kind(NEWLY_FAILS):
        return True
    if growth is None:
        return False
    figures = ((one.growth_percent if growth.unit == PERCENT else one.growth_bytes_per_bank) for one in found.changes)
    return any(figure is not None and figure > growth.amount for figure in figures)
