# SPDX-License-Identifier: Apache-2.0
"""Summary of results: counts per operator, memory failures once each, shapes, patterns, models.

Rules, because tools before this one got them wrong: a test counts once however often a log prints it; a test that was
skipped because it ran out of memory is an OOM, not a pass and not a plain failure; an operator without a single
executed test has no verdict; DRAM and L1 are never added up.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ttmem.base.limits import BOARDS_WITH_OWN_ROW, NAMES_WITH_OWN_ROW
from ttmem.failures.knowledge.tables import find_title
from ttmem.failures.outcome import PASS, SKIPPED
from ttmem.hardware import MEMORIES
from ttmem.operators.sweeps.result import Result

MIB = 1 << 20
SEVERITIES = (("CRITICAL", 500), ("HIGH", 100), ("MEDIUM", 50), ("LOW", 0))
"""Classes of requested MiB, by lower bound."""

PASSED, MEMORY, FAILED, NOT_RUN, NO_TESTS = "PASS", "OOM", "FAIL", "SKIPPED", "NO TESTS"
UNJUDGED = "NOT JUDGED"
UNKNOWN_MEMORY = "unknown"
UNKNOWN_BOARD = "not named"
_OTHER_SENTENCES = ("Other sentences", "")
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d[\d,_.]*")


def severity_of(result: Result) -> str:
    """The class of a memory failure, by its size; UNKNOWN when none is known."""
    size = result.device_bytes or result.shape_logical_bytes
    if size is None:
        return "UNKNOWN"
    return next(name for name, least in SEVERITIES if size > least * MIB or least == 0)


def where(result: Result) -> str:
    """The memory that a failure is counted under: what the message says, else where the tensors were."""
    memory = result.failed_memory or result.memory
    return memory if memory in MEMORIES else UNKNOWN_MEMORY


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of a set of results; each result is a test."""

    tests: int
    passed: int
    memory_failures: int
    failed: int
    """For another reason than memory."""
    skipped: int
    not_judged: int
    """About which the twin says neither pass nor failure."""
    by_memory: Mapping[str, int]
    """Memory failures by where they were (DRAM, L1, ...)."""

    @property
    def judged(self) -> int:
        return self.tests - self.not_judged


@dataclass(frozen=True, slots=True)
class OperatorSummary(Tally):
    """Results of an operator."""

    name: str
    results: tuple[Result, ...]
    worst: Result | None
    """The memory failure that asked for most."""
    board: str = ""
    """Whose results these are; empty: of all boards."""

    @property
    def status(self) -> str:
        if not self.tests:
            return NO_TESTS
        if self.failed:
            return FAILED
        if self.memory_failures:
            return MEMORY
        if self.not_judged:
            return UNJUDGED
        return PASSED if self.passed else NOT_RUN


@dataclass(frozen=True, slots=True)
class ModelSummary(OperatorSummary):
    """Failures of a model."""

    operators: tuple[str, ...] = ()
    """That run out of memory."""


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
    board: str = ""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Failures that say the same."""

    title: str
    sentence: str
    """One of them, whole."""
    operators: tuple[str, ...]
    occurrences: int
    example_shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class SweepSummary(Tally):
    """Everything that the reports say."""

    results: tuple[Result, ...]
    boards: tuple[OperatorSummary, ...]
    """One per board, where there are several: banks and cores differ, so tables keep them apart."""
    operators: tuple[OperatorSummary, ...]
    by_board: tuple[OperatorSummary, ...]
    """The operators, each once per board that it ran on."""
    failures: tuple[Result, ...]
    """Memory failures, the largest first."""
    shapes: tuple[ShapeSummary, ...]
    severities: Mapping[str, int]
    patterns: tuple[Pattern, ...]
    models: tuple[ModelSummary, ...]
    models_by_board: tuple[ModelSummary, ...]
    notes: tuple[str, ...] = ()
    """What the source left open, or contradicted itself in."""
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def operators_tested(self) -> int:
        """Return operators with at least one test that has a verdict and was not skipped."""
        return sum(one.tests > one.skipped + one.not_judged for one in self.operators)

    @property
    def problematic_shapes(self) -> int:
        return len({one.shape for one in self.shapes})

    @property
    def operators_with_memory_failures(self) -> int:
        return sum(bool(one.memory_failures) for one in self.operators)


@dataclass(frozen=True, slots=True)
class Findings:
    """Plain data; every report file is drawn from this."""

    summary: SweepSummary
    generated: str
    """When, in the words of the report."""
    source: str
    """What it was made from."""
    advice: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """By result name: things that pass, as ``Advice.to_json`` writes them."""
    advice_from: str = ""
    """Which engine and board the advice was asked of."""
    unadvised: int = 0
    """Memory failures that no advice was asked for, because they were too many or their shape is not known."""

    def advice_for(self, result: Result) -> Sequence[Mapping[str, Any]]:
        return self.advice.get(result.name, ())


def summarise(
    results: Sequence[Result],
    *,
    operators: Iterable[str] = (),
    notes: Sequence[str] = (),
    facts: Mapping[str, str] = {},
) -> SweepSummary:
    """Count. ``operators`` names those that a source has a file for, whether or not it holds a test."""
    operators = list(operators)[:NAMES_WITH_OWN_ROW]
    results, shared = _limit_names(results)
    by_operator: dict[str, list[Result]] = {name: [] for name in operators}
    by_model: dict[str, list[Result]] = {}
    for result in results:
        by_operator.setdefault(result.op, []).append(result)
        for model in filter(None, result.models):
            by_model.setdefault(model, []).append(result)
    failures = [result for result in results if result.is_memory_failure]
    sized = Counter(map(severity_of, failures))
    boards = list(dict.fromkeys(result.board for result in results))
    models = [_model(name, used) for name, used in by_model.items()]
    models_by_board = [
        _model(name, used, board) for name, every in by_model.items() for board, used in _count_by_board(every, boards)
    ]
    by_board = [
        OperatorSummary(**_count_names(name, found), board=board)
        for name, every in sorted(by_operator.items())
        for board, found in _count_by_board(every, boards)
    ]
    return SweepSummary(
        **_tally(results),
        results=tuple(results),
        boards=tuple(
            OperatorSummary(**_count_names(board, found), board=board)
            for board, found in _count_by_board(results, boards)
        )
        if len(boards) > 1
        else (),
        by_board=tuple(by_board),
        operators=tuple(OperatorSummary(**_count_names(name, found)) for name, found in sorted(by_operator.items())),
        failures=tuple(sorted(failures, key=lambda result: -(result.device_bytes or 0))),
        shapes=tuple(
            sorted(
                (one for board, found in _count_by_board(failures, boards) for one in _shapes(found, board)),
                key=lambda one: (-(one.device_bytes or one.logical_bytes), -one.occurrences),
            )
        ),
        severities={name: sized[name] for name in (*(n for n, _ in SEVERITIES), "UNKNOWN") if name in sized},
        patterns=_patterns(results),
        models=tuple(sorted(models, key=lambda one: (-one.memory_failures, one.name))),
        models_by_board=tuple(sorted(models_by_board, key=lambda one: (-one.memory_failures, one.name))),
        notes=(*notes, *shared),
        facts=dict(facts),
    )


def _limit_names(results: Sequence[Result]) -> tuple[Sequence[Result], list[str]]:
    """The results, with one name for all operators, boards and models beyond those that have a row of their own."""
    notes = []
    for what, most in (("op", NAMES_WITH_OWN_ROW), ("board", BOARDS_WITH_OWN_ROW), ("models", NAMES_WITH_OWN_ROW)):
        names = dict.fromkeys(getattr(result, what) for result in results)
        if what == "models":
            names = dict.fromkeys(name for together in names for name in together)
        if len(names) <= most:
            continue
        noun = {"op": "operators", "board": "boards", "models": "models"}[what]
        own, rest = set(list(names)[:most]), f"(other {noun})"
        notes.append(f"{len(names) - most:,} {noun} beyond the first {most:,} are counted together")
        results = [
            result if _has_row(result, what, own) else _group_rest(result, what, own, rest) for result in results
        ]
    return results, notes


def _has_row(result: Result, what: str, own: set[str]) -> bool:
    return own.issuperset(result.models) if what == "models" else getattr(result, what) in own


def _group_rest(result: Result, what: str, own: set[str], rest: str) -> Result:
    if what == "models":
        return result._replace(models=(*(model for model in result.models if model in own), rest))
    return result._replace(op=rest) if what == "op" else result._replace(board=rest)


def _tally(results: Sequence[Result]) -> dict[str, Any]:
    passed = sum(result.status == PASS for result in results)
    skipped = sum(result.status == SKIPPED for result in results)
    not_judged = sum(not result.is_judged for result in results)
    by_memory = _count_by_memory(results)
    out_of_memory = sum(by_memory.values())
    return {
        "tests": len(results),
        "passed": passed,
        "memory_failures": out_of_memory,
        "failed": len(results) - passed - skipped - not_judged - out_of_memory,
        "skipped": skipped,
        "not_judged": not_judged,
        "by_memory": by_memory,
    }


def _count_by_memory(results: Iterable[Result]) -> dict[str, int]:
    return dict(Counter(where(result) for result in results if result.is_memory_failure))


def _count_names(name: str, results: Sequence[Result]) -> dict[str, Any]:
    failures = [result for result in results if result.is_memory_failure]
    worst = max(failures, key=lambda one: one.device_bytes or one.shape_logical_bytes or 0, default=None)
    return {**_tally(results), "name": name, "results": tuple(results), "worst": worst}


def _model(name: str, used: Sequence[Result], board: str = "") -> ModelSummary:
    failing = tuple(sorted({result.op for result in used if result.is_memory_failure}))
    return ModelSummary(**_count_names(name, used), board=board, operators=failing)


def _count_by_board(results: Sequence[Result], boards: Sequence[str]) -> list[tuple[str, list[Result]]]:
    """The results of each board that has any; one board (or none that is named) is not worth a name."""
    if len(boards) < 2:
        return [("", list(results))]
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.board, []).append(result)
    return [(board or UNKNOWN_BOARD, found[board]) for board in boards if board in found] or [("", [])]


def _shapes(failures: Sequence[Result], board: str) -> Iterator[ShapeSummary]:
    by_shape: dict[tuple[int, ...], list[Result]] = {}
    for result in failures:
        if result.shapes:
            by_shape.setdefault(result.shape, []).append(result)
    for shape, results in by_shape.items():
        yield ShapeSummary(
            shape,
            max(result.shape_logical_bytes or 0 for result in results),
            max((result.device_bytes for result in results if result.device_bytes is not None), default=None),
            tuple(dict.fromkeys(result.op for result in results)),
            len(results),
            _count_by_memory(results),
            board,
        )


def _patterns(results: Sequence[Result]) -> tuple[Pattern, ...]:
    """Failures of one title are one pattern, of memory by their memory too; without a title those whose sentences are
    equal but for their figures."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if not result.outcome.is_failure:
            continue
        title = find_title(result.outcome.failure_class, result.message)
        if result.is_memory_failure:
            key = (title or "Out of memory", where(result))
        else:
            key = (title, "" if title else _NUMBERS.sub("#", result.message)[:160])
        if key not in groups and len(groups) >= NAMES_WITH_OWN_ROW:
            key = _OTHER_SENTENCES
        groups.setdefault(key, []).append(result)
    found = [
        Pattern(
            f"{title} ({detail})" if first.is_memory_failure else title or first.message[:80] or first.status,
            first.message,
            tuple(sorted({result.op for result in (first, *others)})),
            1 + len(others),
            tuple(dict.fromkeys(result.shape for result in (first, *others) if result.shapes))[:5],
        )
        for (title, detail), (first, *others) in groups.items()
    ]
    return tuple(sorted(found, key=lambda pattern: -pattern.occurrences))
