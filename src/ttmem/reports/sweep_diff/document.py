# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem sweep diff --json`` says."""

from ttmem.operators.sweeps.comparison import CHANGES, Change, Comparison
from ttmem.operators.sweeps.result import Result
from ttmem.reports.kit.documents import Document


class Ending(Document, frozen=True):
    """How a case ended in one of the sweeps."""

    status: str
    peak_bytes_per_bank: int | None
    needed_bytes: int | None
    message: str


class ChangedResult(Document, frozen=True):
    """One case that ended in another way, or with another peak."""

    change: str
    """``newly-fails``, ``fails-otherwise``, ``needs-more``, ``needs-less`` or ``newly-passes``."""
    id: str
    op: str
    board: str
    memory: str
    layout: str
    before: Ending
    after: Ending
    growth_bytes_per_bank: int | None
    growth_percent: float | None


class SweepDiff(Document, frozen=True, tag_field="schema", tag="ttmem.sweep-diff/1"):
    """Two sweeps, case by case."""

    before: str
    after: str
    compared: int
    unchanged: int
    only_before: int
    only_after: int
    counts: dict[str, int]
    """By kind of change."""
    changes: tuple[ChangedResult, ...]
    regression: bool
    """Whether what ``--fail-on`` names was found."""


def document(found: Comparison, *, before: str, after: str, regression: bool) -> SweepDiff:
    """Of a comparison; the names are those of the folders."""
    return SweepDiff(
        before,
        after,
        found.compared,
        found.unchanged,
        found.only_before,
        found.only_after,
        {change: len(found.of_kind(change)) for change in CHANGES},
        tuple(map(_changed, found.changes)),
        regression,
    )


def _changed(one: Change) -> ChangedResult:
    return ChangedResult.of(one, one.after, before=_ending(one.before), after=_ending(one.after))


def _ending(result: Result) -> Ending:
    return Ending(result.status, result.peak_bytes_per_bank, result.needed_bytes, result.message)
