# SPDX-License-Identifier: Apache-2.0
"""Results of sweeps, for comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ttmem.operators.sweeps.plan import Point
from ttmem.operators.sweeps.result import Result


def in_order(results: Iterable[Result], points: Sequence[Point]) -> list[Result]:
    """Results in the order of the points."""
    by_place = {result.place: result for result in results}
    return [by_place[point.place] for point in points if point.place in by_place]


def without_time(result: Result) -> Result:
    """What may differ between two runs of the same sweep is how long a case took."""
    return result._replace(outcome=result.outcome._replace(seconds=None))
