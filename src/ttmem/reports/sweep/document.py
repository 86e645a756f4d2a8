# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem sweep run``, ``report`` and ``limits`` say with ``--json``."""

from collections.abc import Iterable, Sequence

import msgspec

from ttmem.operators.sweeps.expectations import Deviation
from ttmem.operators.sweeps.frontier import Frontier
from ttmem.operators.sweeps.result import Result
from ttmem.operators.sweeps.run import Finished
from ttmem.operators.sweeps.summary import Findings
from ttmem.reports.kit.documents import Document

LIMITS_NOTE = (
    "Found by doubling one dimension until it fails and bisecting: the shape passes alone on an empty device, one more "
    "along the grown dimension does not. The residents of a model leave less."
)


class Unexpected(Document, frozen=True):
    """A result that is not what it should be."""

    id: str
    """Of the case."""
    board: str
    memory: str
    layout: str
    op: str
    status: str
    message: str
    expected: str


class SweepRun(Document, frozen=True, tag_field="schema", tag="ttmem.sweep-run/1"):
    """What a sweep left."""

    folder: str
    results: str
    """The file with a line per case, board, memory and layout."""
    total: int = msgspec.field(name="cases")
    asked: int
    """By this call."""
    resumed: int
    """Results that were there before."""
    seconds: float
    statuses: dict[str, dict[str, dict[str, int]]]
    """Board -> memory -> status -> how many."""
    not_judged: int
    """Results, all of status ``unsupported``, that say neither pass nor failure."""
    unexpected: tuple[Unexpected, ...]


def run_document(finished: Finished, results: Iterable[Result], unexpected: Sequence[Deviation]) -> SweepRun:
    """Of a sweep that ended."""
    statuses: dict[str, dict[str, dict[str, int]]] = {}
    not_judged = 0
    for result in results:
        not_judged += not result.is_judged
        here = statuses.setdefault(result.board, {}).setdefault(result.memory, {})
        here[result.status] = here.get(result.status, 0) + 1
    return SweepRun.of(
        finished,
        decimals=3,
        folder=str(finished.folder),
        results=str(finished.results),
        statuses=statuses,
        not_judged=not_judged,
        unexpected=[Unexpected.of(one, one.result) for one in unexpected],
    )


class Counts(Document, frozen=True):
    """The tests of one operator."""

    tests: int = msgspec.field(name="total")
    passed: int
    failed: int
    """For another reason than memory."""
    skipped: int
    not_judged: int
    """About which the twin says neither pass nor failure."""
    memory_failures: int = msgspec.field(name="oom")
    by_memory: dict[str, int] = msgspec.field(name="oom_by_memory")
    status: str


class ModelCounts(Document, frozen=True):
    """The tests of one model."""

    tests: int
    by_memory: dict[str, int] = msgspec.field(name="oom_by_memory")


class ErrorPattern(Document, frozen=True):
    """Failures that say the same."""

    title: str
    occurrences: int
    operators: tuple[str, ...]
    sentence: str = msgspec.field(name="error")
    """One of them, whole."""


class SweepReport(Document, frozen=True, tag_field="schema", tag="ttmem.sweep-report/1"):
    """The metrics of a set of results; also the file ``subset_test_analysis.json``."""

    generated: str
    source: str
    tests: int = msgspec.field(name="total_tests")
    passed: int
    failed: int
    skipped: int
    not_judged: int
    memory_failures: int = msgspec.field(name="oom")
    by_memory: dict[str, int] = msgspec.field(name="oom_by_memory")
    success_rate: float | None
    """Per cent of the tests that have a verdict."""
    operators_tested: int
    operators_without_tests: tuple[str, ...]
    unique_problematic_shapes: int
    severities: dict[str, int]
    operators: dict[str, Counts]
    models: dict[str, ModelCounts]
    patterns: tuple[ErrorPattern, ...] = msgspec.field(name="error_patterns")
    notes: tuple[str, ...]


def report_document(findings: Findings) -> SweepReport:
    """Of findings."""
    summary = findings.summary
    return SweepReport.of(
        findings,
        summary,
        success_rate=round(100 * summary.passed / summary.judged, 1) if summary.judged else None,
        operators_tested=summary.operators_tested,
        operators_without_tests=[one.name for one in summary.operators if not one.tests],
        unique_problematic_shapes=summary.problematic_shapes,
        operators={one.name: Counts.of(one) for one in summary.operators},
        models={one.name: ModelCounts.of(one) for one in summary.models},
    )


class SweepLimits(Document, frozen=True, tag_field="schema", tag="ttmem.sweep-limits/1"):
    """The largest shapes that pass."""

    limits: tuple[Frontier, ...]
    note: str


def limits_document(frontiers: Sequence[Frontier]) -> SweepLimits:
    """Of frontiers."""
    return SweepLimits.of(limits=frontiers, note=LIMITS_NOTE)
