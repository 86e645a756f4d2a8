# SPDX-License-Identifier: Apache-2.0
"""``ttmem.test``: a pytest suite of ttnn programs, with the peak memory of every test."""

# ruff: noqa: PT028 - the verb's name begins like a test's

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttmem.analysis.budget import DEFAULT_GROWTH, PERCENT, Amount, Limit, parse_limit
from ttmem.analysis.findings import findings_by_run, parse_kinds
from ttmem.analysis.suite import memory_of_tests, suite_growth
from ttmem.base.errors import BadInputError
from ttmem.commands import keep_profile
from ttmem.commands.read import Source, read
from ttmem.engines.interpreters import chosen_python
from ttmem.engines.run_script import RunSettings, Supervision, is_empty
from ttmem.engines.run_tests import run_tests
from ttmem.engines.run_tests import RecordedSuite
from ttmem.profile.model import SUITE_KIND, Profile
from ttmem.profile.store import StoredReport
from ttmem.readers import sources
from ttmem.reports.kit.documents import UNSET
from ttmem.reports.test.document import (
    SuiteRun,
    SuiteTest,
    TestFinding,
    baseline_of,
    document,
    findings_of,
    with_findings,
)


@dataclass(frozen=True, slots=True)
class BaselineSuite:
    """What a suite is compared with, and how much a test may need more."""

    profile: Profile
    limit: Limit


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite that was run."""

    document: SuiteRun
    profile: Profile
    """Of all tests: each is a run of it."""

    @property
    def status(self) -> int:
        """pytest's own, 128 + signal when it was killed; 1 when only the baseline's limit does not hold."""
        return self.document.status

    @property
    def is_empty(self) -> bool:
        """Whether no test used a device, so that there is nothing to store."""
        return is_empty(self.profile)

    @property
    def timed_out(self) -> bool:
        """Whether pytest was ended because the time was over."""
        return self.document.timed_out

    @property
    def tests(self) -> tuple[SuiteTest, ...]:
        """The fullest first."""
        return self.document.tests

    def findings(self) -> tuple[TestFinding, ...]:
        """Leaks and waste: those that ``fail_on`` asked for, else all."""
        told = self.document.findings
        return findings_of(findings_by_run(self.profile)) if told is UNSET else told

    def to_json(self) -> dict[str, Any]:
        """The document of ``ttmem test --json``."""
        return self.document.to_json()

    def keep(self, arguments: Sequence[str], *, name: str | None = None) -> StoredReport | None:
        """Store the suite as a report; None when no test used a device. ``arguments`` distinguish suites."""
        if self.is_empty:
            return None
        origin = f"{os.path.realpath('.')} {' '.join(arguments)}"
        return keep_profile.keep(self.profile, origin=origin, name=name, tests=self.document)


def test(
    arguments: Sequence[str],
    *,
    board: str = "n150",
    card: bool = False,
    name: str | None = None,
    python: str | None = None,
    ttnn: str | None = None,
    timeout: float | None = None,
    test_timeout: float | None = None,
    programs: bool = True,
    values: bool = False,
    max_dram: Amount | None = None,
    max_l1: Amount | None = None,
    baseline: Source | None = None,
    max_growth: Amount | None = None,
    fail_on: str | None = None,
    output: int | None = None,
    own_session: bool = False,
    supervise: Supervision = lambda _: nullcontext(),
) -> Suite:
    """Run pytest with these arguments in the interpreter that has ttnn; the result holds its ``status`` and the peaks.

    A test that crashes, or does nothing for ``test_timeout`` seconds (300), costs itself alone.
    A mock computes no values: once a test has read some, known comparisons succeed and are counted, and an assertion
    of its own that fails is not judged, unless ``values`` keeps them.
    ``max_dram`` and ``max_l1`` fail tests that need more, in the forms of ``ttmem.check``. ``baseline`` is the stored
    report of an earlier run (or its saved profile): a test whose peaks grew by more than ``max_growth`` (2 %) makes the
    status 1, and so does a finding that ``fail_on`` names (``"leak,late-free:10MB"``, bytes per bank). The other
    parameters are those of ``ttmem.run``.
    """
    wanted = parse_kinds(fail_on) if fail_on else None
    limits = limits_of(max_dram=max_dram, max_l1=max_l1)
    compared = None if baseline is None else baseline_suite(baseline, max_growth)
    settings = RunSettings(
        board=board,
        card=card,
        python=chosen_python(python, ttnn),
        timeout_seconds=timeout,
        measure_programs=programs,
    )
    suite = run_tests(
        arguments,
        settings=settings,
        name=name or suite_name(arguments),
        limits=limits,
        keep_values=values,
        seconds_per_test=test_timeout,
        output=output,
        own_session=own_session,
        supervise=supervise,
    )
    return answer(
        suite.status, suite.label, suite.recorded, timed_out=suite.timed_out, baseline=compared, fail_on=wanted
    )


test.__test__ = False  # type: ignore[attr-defined]  # a suite that imports it must not take it for a test


def answer(
    status: int,
    label: str,
    recorded: RecordedSuite,
    *,
    timed_out: bool = False,
    baseline: BaselineSuite | None = None,
    fail_on: Mapping[str, int] | None = None,
) -> Suite:
    """What a recorded suite says, compared with the baseline; ``fail_on``: kind of finding -> least bytes per bank."""
    profile = recorded.profile
    tests = memory_of_tests(profile)
    compared = None
    if baseline is not None:
        before = baseline.profile
        _refuse_other_board(before, profile)
        growth = suite_growth(before, tests, baseline.limit)
        compared = baseline_of(before.name, str(baseline.limit), growth)
    ttnn = str(profile.facts.get("ttnn", ""))
    told = document(status, label, recorded.rows, tests, ttnn=ttnn, timed_out=timed_out, baseline=compared)
    if fail_on is not None:
        told = with_findings(told, findings_of(findings_by_run(profile)), fail_on)
    return Suite(told, profile)


def baseline_suite(source: Source, max_growth: Amount | None) -> BaselineSuite:
    """The suite to compare with, read before anything is run."""
    profile = read(source)
    if profile.source.kind != SUITE_KIND:
        hint = "'ttmem test PATH --name NAME' makes one"
        raise BadInputError("is no report of a test suite", where=str(source), hint=hint)
    return BaselineSuite(profile, DEFAULT_GROWTH if max_growth is None else parse_limit(max_growth))


def limits_of(**limits: Amount | None) -> dict[str, str]:
    """Limits for all tests, in the words of the mark."""
    parsed = {name: parse_limit(amount) for name, amount in limits.items() if amount is not None}
    return {name: f"{one.amount:g}%" if one.unit == PERCENT else f"{int(one.amount)}b" for name, one in parsed.items()}


def suite_name(arguments: Sequence[str]) -> str:
    """After the first file or folder that pytest was given."""
    for word in arguments:
        path = Path(word.partition("::")[0])
        if not word.startswith("-") and sources.exists(path):
            return path.resolve().stem or "tests"
    return "tests"


def _refuse_other_board(before: Profile, after: Profile) -> None:
    """Banks differ, so peaks per bank cannot be compared."""
    boards: list[Mapping[str, Any]] = [before.facts, after.facts]
    old, new = (facts.get("board", "") for facts in boards)
    if after.timelines and old != new:
        raise BadInputError(f"the baseline is of {old or 'a card'}, this run of {new or 'a card'}")
