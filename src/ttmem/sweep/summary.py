# SPDX-License-Identifier: Apache-2.0
"""What a set of tests amounts to: counts per operator, memory failures once each, shapes, patterns, models.

Rules, because tools before this one got them wrong: a test counts once however often a log prints it; a test that was
skipped because it ran out of memory is an OOM, not a pass and not a plain failure; an operator without a single
executed test has no verdict; DRAM and L1 are never added up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ttmem.sweep.tests import SKIPPED, Test

MIB = 1 << 20
SEVERITIES = (("CRITICAL", 500), ("HIGH", 100), ("MEDIUM", 50), ("LOW", 0))
"""By the MiB that the device was asked for: more than so many."""

PASSED, MEMORY, FAILED, NOT_RUN, NO_TESTS = "PASS", "OOM", "FAIL", "SKIPPED", "NO TESTS"
UNKNOWN_MEMORY = "not told"


def severity_of(amount_bytes: int | None) -> str:
    """The class of a memory failure; UNKNOWN when no size is known."""
    if amount_bytes is None:
        return "UNKNOWN"
    return next(name for name, least in SEVERITIES if amount_bytes > least * MIB or least == 0)


@dataclass(frozen=True, slots=True)
class OperatorSummary:
    """One operator's tests."""

    name: str
    tests: int
    passed: int
    memory_failures: int
    failed: int
    """For another reason than memory."""
    skipped: int
    by_memory: Mapping[str, int]
    """Memory failures by where they were (DRAM, L1, ...)."""
    worst: Test | None
    """The memory failure that asked for most."""

    @property
    def status(self) -> str:
        if not self.tests:
            return NO_TESTS
        if self.failed:
            return FAILED
        if self.memory_failures:
            return MEMORY
        return PASSED if self.passed else NOT_RUN

    @property
    def pass_percent(self) -> float | None:
        run = self.tests - self.skipped
        return 100 * self.passed / run if run else None


@dataclass(frozen=True, slots=True)
class ShapeSummary:
    """A shape that ran out of memory somewhere."""

    shape: tuple[int, ...]
    logical_bytes: int
    device_bytes: int | None
    """The largest that was asked for on its account."""
    operators: tuple[str, ...]
    occurrences: int
    by_memory: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Failures that say the same."""

    title: str
    sentence: str
    """One of them, whole."""
    operators: tuple[str, ...]
    occurrences: int
    example_shapes: tuple[tuple[int, ...], ...]
    is_memory: bool


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """What the failures mean for one model."""

    model: str
    tests: int
    memory_failures: Mapping[str, int]
    operators: tuple[str, ...]
    worst: Test | None


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything that the reports say."""

    tests: tuple[Test, ...]
    operators: tuple[OperatorSummary, ...]
    shapes: tuple[ShapeSummary, ...]
    severities: Mapping[str, int]
    patterns: tuple[Pattern, ...]
    models: tuple[ModelSummary, ...]
    notes: tuple[str, ...] = ()
    """What the source left open, or contradicted itself in."""
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def failures(self) -> tuple[Test, ...]:
        """Memory failures, the largest first."""
        found = [test for test in self.tests if test.is_memory_failure]
        return tuple(sorted(found, key=lambda test: -(test.device_bytes or 0)))

    def count(self, *statuses: str) -> int:
        return sum(test.status in statuses for test in self.tests)

    @property
    def passed(self) -> int:
        return self.count("pass")

    @property
    def memory_failures(self) -> int:
        return sum(test.is_memory_failure for test in self.tests)

    @property
    def failed(self) -> int:
        """For another reason than memory."""
        return sum(test.is_failure and not test.is_memory_failure for test in self.tests)

    @property
    def skipped(self) -> int:
        return self.count(SKIPPED)

    @property
    def by_memory(self) -> dict[str, int]:
        return _by_memory(self.tests)

    @property
    def operators_with_memory_failures(self) -> int:
        return sum(bool(operator.memory_failures) for operator in self.operators)


def summarise(
    tests: Sequence[Test], *, operators: Iterable[str] = (), notes: Sequence[str] = (), facts: Mapping[str, str] = {}
) -> Summary:
    """Count. ``operators`` names those that a source has a file for, whether or not it holds a test."""
    named: dict[str, list[Test]] = {name: [] for name in operators}
    for test in tests:
        named.setdefault(test.operator, []).append(test)
    failures = [test for test in tests if test.is_memory_failure]
    sized = Counter(severity_of(test.device_bytes or test.logical_bytes) for test in failures)
    return Summary(
        tests=tuple(tests),
        operators=tuple(_operator(name, found) for name, found in sorted(named.items())),
        shapes=_shapes(failures),
        severities={name: sized[name] for name in (*(n for n, _ in SEVERITIES), "UNKNOWN") if name in sized},
        patterns=_patterns(tests),
        models=_models(tests),
        notes=tuple(notes),
        facts=dict(facts),
    )


def _operator(name: str, tests: Sequence[Test]) -> OperatorSummary:
    failures = [test for test in tests if test.is_memory_failure]
    return OperatorSummary(
        name=name,
        tests=len(tests),
        passed=sum(test.status == "pass" for test in tests),
        memory_failures=len(failures),
        failed=sum(test.is_failure and not test.is_memory_failure for test in tests),
        skipped=sum(test.status == SKIPPED for test in tests),
        by_memory=_by_memory(tests),
        worst=_worst(failures),
    )


def _by_memory(tests: Iterable[Test]) -> dict[str, int]:
    return dict(Counter(where(test) for test in tests if test.is_memory_failure))


def where(test: Test) -> str:
    """The memory that a failure is counted under: what the message says, else where the tensors were."""
    return test.failed_memory or test.memory or UNKNOWN_MEMORY


def _worst(failures: Sequence[Test]) -> Test | None:
    return max(failures, key=lambda test: test.device_bytes or test.logical_bytes or 0, default=None)


def _shapes(failures: Sequence[Test]) -> tuple[ShapeSummary, ...]:
    by_shape: dict[tuple[int, ...], list[Test]] = {}
    for test in failures:
        if test.shapes:
            by_shape.setdefault(test.shape, []).append(test)
    found = [
        ShapeSummary(
            shape,
            max(test.logical_bytes or 0 for test in tests),
            max((test.device_bytes for test in tests if test.device_bytes is not None), default=None),
            tuple(dict.fromkeys(test.operator for test in tests)),
            len(tests),
            _by_memory(tests),
        )
        for shape, tests in by_shape.items()
    ]
    return tuple(sorted(found, key=lambda one: (-(one.device_bytes or one.logical_bytes), -one.occurrences)))


_TITLES = (
    (re.compile(r"Out of Memory", re.IGNORECASE), "Out of memory"),
    (re.compile(r"clash with L1 buffers"), "Static buffers clash with L1 tensors"),
    (re.compile(r"beyond max L1 size"), "Static buffers larger than L1"),
    (
        re.compile(r"width of the first tensor must be equal to the height", re.IGNORECASE),
        "Matrix dimensions do not match",
    ),
    (re.compile(r"has no attribute|not in the catalogue|does not run on the device"), "Operator is missing"),
    (re.compile(r"missing \d+ required|incompatible function arguments|is not in the case"), "Arguments are missing"),
    (re.compile(r"\bPCC\b|allclose|AssertionError|^assert\b", re.IGNORECASE), "Wrong result"),
    (re.compile(r"ended by SIG|process ended|worker ended"), "The process died"),
    (re.compile(r"no answer in time|[Tt]imeout"), "No answer in time"),
)
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d[\d,_.]*")


def _patterns(tests: Sequence[Test]) -> tuple[Pattern, ...]:
    """Failures whose sentences are equal but for their figures are one pattern; memory ones by their memory too."""
    groups: dict[tuple[str, str], list[Test]] = {}
    for test in tests:
        if not test.is_failure:
            continue
        title = next((title for pattern, title in _TITLES if pattern.search(test.message)), "")
        if test.is_memory_failure:
            key = (title or "Out of memory", where(test))
        else:
            key = (title, "" if title else _NUMBERS.sub("#", test.message)[:160])
        groups.setdefault(key, []).append(test)
    found = []
    for (title, detail), members in groups.items():
        is_memory = members[0].is_memory_failure
        named = f"{title} ({detail})" if is_memory else title or members[0].message[:80] or members[0].status
        found.append(
            Pattern(
                named,
                members[0].message,
                tuple(sorted({test.operator for test in members})),
                len(members),
                tuple(dict.fromkeys(test.shape for test in members if test.shapes))[:5],
                is_memory,
            )
        )
    return tuple(sorted(found, key=lambda pattern: -pattern.occurrences))


def _models(tests: Sequence[Test]) -> tuple[ModelSummary, ...]:
    by_model: dict[str, list[Test]] = {}
    for test in tests:
        for model in test.models:
            if model:
                by_model.setdefault(model, []).append(test)
    found = []
    for model, used in by_model.items():
        failures = [test for test in used if test.is_memory_failure]
        found.append(
            ModelSummary(
                model,
                len(used),
                _by_memory(used),
                tuple(sorted({test.operator for test in failures})),
                _worst(failures),
            )
        )
    return tuple(sorted(found, key=lambda one: (-sum(one.memory_failures.values()), one.model)))
