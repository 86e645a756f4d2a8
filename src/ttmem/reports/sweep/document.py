# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem sweep run --json`` says: a contract, keys may be added."""

from __future__ import annotations

from collections.abc import Sequence

from ttmem.reports.kit.documents import Document
from ttmem.results import Result
from ttmem.sweep.expectations import Deviation
from ttmem.sweep.progress import Finished


class UnexpectedResult(Document, frozen=True):
    """A result that is not what it should be."""

    id: str
    board: str
    memory: str
    layout: str
    op: str
    status: str
    message: str
    expected: str


class SweepDocument(Document, frozen=True, tag_field="schema", tag="ttmem.sweep/1"):
    """How a sweep ended; the results themselves are in the folder."""

    folder: str
    results: str
    """The file with one line per result."""
    cases: int
    """Case x board x memory x layout."""
    asked: int
    resumed: int
    """Results that the journal held before."""
    seconds: float
    statuses: dict[str, dict[str, dict[str, int]]]
    """Board -> memory -> status -> how many."""
    unexpected: list[UnexpectedResult]


def document(finished: Finished, results: Sequence[Result], unexpected: Sequence[Deviation]) -> SweepDocument:
    """The document of a sweep that ended."""
    statuses: dict[str, dict[str, dict[str, int]]] = {}
    for result in results:
        here = statuses.setdefault(result.board, {}).setdefault(result.memory, {})
        here[result.status] = here.get(result.status, 0) + 1
    return SweepDocument(
        folder=str(finished.folder),
        results=str(finished.results),
        cases=finished.total,
        asked=finished.asked,
        resumed=finished.resumed,
        seconds=round(finished.seconds, 3),
        statuses=statuses,
        unexpected=[UnexpectedResult.of(deviation.result, expected=deviation.expected) for deviation in unexpected],
    )
