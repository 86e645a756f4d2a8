# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem sweep run``, ``limits`` and ``report`` say with ``--json``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ttmem.reports.kit.documents import Document
from ttmem.reports.sweep import final_report
from ttmem.reports.sweep.limits import NOTE
from ttmem.results import Result
from ttmem.sweep import frontier
from ttmem.sweep.expectations import Deviation
from ttmem.sweep.findings import Findings
from ttmem.sweep.progress import Finished


class Unexpected(Document, frozen=True):
    """A result that differs from what was expected."""

    id: str
    board: str
    memory: str
    layout: str
    op: str
    status: str
    message: str
    expected: str


class SweepRun(Document, frozen=True, tag_field="schema", tag="ttmem.sweep-run/1"):
    """How a sweep ended; the results themselves are in its folder."""

    folder: str
    results: str
    """The file with a line per case."""
    cases: int
    asked: int
    """By this run."""
    resumed: int
    """Known from an earlier one."""
    seconds: float
    statuses: dict[str, dict[str, dict[str, int]]]
    """Board -> memory -> status -> cases."""
    unexpected: tuple[Unexpected, ...]


class Limit(Document, frozen=True):
    """Where one dimension of a shape ends."""

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
    """One more along ``dim``; null: it never failed."""
    status: str
    message: str
    padded_bytes: int | None
    peak_bytes_per_bank: int | None
    confidence: str
    asked: int
    """Questions that the search took."""


class OperatorLimit(Limit, frozen=True):
    """The largest shape over all widths, and the limit at every width."""

    limits: tuple[Limit, ...] = msgspec.field(name="frontier")


class SweepLimits(Document, frozen=True, tag_field="schema", tag="ttmem.sweep-limits/1"):
    """The largest shapes that pass."""

    limits: tuple[OperatorLimit, ...]
    note: str


class OperatorCounts(Document, frozen=True):
    """The tests of one operator."""

    total: int
    passed: int
    failed: int
    skipped: int
    oom: int
    oom_by_memory: dict[str, int]
    status: str


class ModelCounts(Document, frozen=True):
    """The tests of one model's cases."""

    tests: int
    oom_by_memory: dict[str, int]


class ErrorPattern(Document, frozen=True):
    """Errors of one kind."""

    title: str
    occurrences: int
    operators: tuple[str, ...]
    error: str


class SweepMetrics(Document, frozen=True, tag_field="schema", tag="ttmem.sweep-report/1"):
    """The figures that the reports of a sweep are drawn from."""

    generated: str
    source: str
    total_tests: int
    passed: int
    failed: int
    skipped: int
    oom: int
    oom_by_memory: dict[str, int]
    success_rate: float | None
    operators_tested: int
    operators_without_tests: tuple[str, ...]
    unique_problematic_shapes: int
    severities: dict[str, int]
    operators: dict[str, OperatorCounts]
    models: dict[str, ModelCounts]
    error_patterns: tuple[ErrorPattern, ...]
    notes: tuple[str, ...]


def status_counts(results: Iterable[Result]) -> dict[str, dict[str, dict[str, int]]]:
    """Board -> memory -> status -> how many."""
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for result in results:
        here = counts.setdefault(result.board, {}).setdefault(result.memory, {})
        here[result.status] = here.get(result.status, 0) + 1
    return counts


def run(finished: Finished, results: Sequence[Result], unexpected: Sequence[Deviation]) -> SweepRun:
    """What ``sweep run`` says."""
    return SweepRun.of(
        finished,
        decimals=3,
        folder=str(finished.folder),
        results=str(finished.results),
        cases=finished.total,
        statuses=status_counts(results),
        unexpected=[Unexpected.of(one, one.result) for one in unexpected],
    )


def limits(frontiers: Sequence[frontier.Frontier]) -> SweepLimits:
    """What ``sweep limits`` says: the largest of each operator, with all widths."""
    return SweepLimits(tuple(OperatorLimit.of(one.largest, one) for one in frontiers), NOTE)


def metrics(findings: Findings) -> SweepMetrics:
    """What ``sweep report`` says."""
    return msgspec.convert(final_report.metrics(findings), SweepMetrics)
