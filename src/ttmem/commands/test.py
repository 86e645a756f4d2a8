# SPDX-License-Identifier: Apache-2.0
"""``ttmem test``: Run a ttnn test suite on a mock board and report the peak memory of every test."""

# ruff: noqa: PT028 - the verb's name begins like a test's

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.base.errors import BadInputError
from ttmem.commands import options
from ttmem.commands.command_line import verb
from ttmem.commands.output import emit, json_text, looks, note, stderr_descriptor
from ttmem.commands.profile_answer import store_profile, try_store
from ttmem.commands.read import Source, read
from ttmem.commands.user_program import PASSING_CONTEXT, UserProgramCommand, forward_signals_options

if TYPE_CHECKING:
    from ttmem.analysis.budget import Amount, Limit
    from ttmem.engines.run_script import Supervision
    from ttmem.engines.run_tests import RecordedSuite
    from ttmem.profile.model import Profile
    from ttmem.profile.store import StoredReport
    from ttmem.reports.suite_document import SuiteRun, SuiteTest, TestFinding


@dataclass(frozen=True, slots=True)
class BaselineSuite:
    """The suite to compare with, and how much a test may exceed it."""

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
        """True when no test used a device, so that there is nothing to store."""
        from ttmem.engines.run_script import is_empty

        return is_empty(self.profile)

    @property
    def timed_out(self) -> bool:
        """True when pytest was stopped by the time limit."""
        return self.document.timed_out

    @property
    def tests(self) -> Sequence[SuiteTest]:
        """The fullest first."""
        return self.document.tests

    def findings(self) -> Sequence[TestFinding]:
        """Return leaks and waste: those that ``fail_on`` requested, else all."""
        from ttmem.analysis.findings import findings_by_run
        from ttmem.reports.kit.documents import UNSET
        from ttmem.reports.suite_document import build_findings

        found = self.document.findings
        return build_findings(findings_by_run(self.profile)) if found is UNSET else found

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``ttmem test --json``."""
        return self.document.to_json()

    def keep(self, arguments: Sequence[str], *, name: str | None = None) -> StoredReport | None:
        """Store the suite as a report; None when no test used a device. ``arguments`` distinguish suites."""
        if self.is_empty:
            return None
        origin = f"{os.path.realpath('.')} {' '.join(arguments)}"
        return store_profile(self.profile, origin=origin, name=name, tests=self.document)


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
    from ttmem.analysis.findings import parse_kinds
    from ttmem.engines.interpreters import choose_python
    from ttmem.engines.run_script import RunSettings
    from ttmem.engines.run_tests import run_tests

    wanted = parse_kinds(fail_on) if fail_on else None
    limits = format_limits(max_dram=max_dram, max_l1=max_l1)
    compared = None if baseline is None else read_baseline(baseline, max_growth)
    settings = RunSettings(
        board=board,
        card=card,
        python=choose_python(python, ttnn),
        timeout_seconds=timeout,
        measure_programs=programs,
    )
    suite = run_tests(
        arguments,
        settings=settings,
        name=name or choose_suite_name(arguments),
        limits=limits,
        keep_values=values,
        seconds_per_test=test_timeout,
        output=output,
        own_session=own_session,
        supervise=supervise,
    )
    return judge_suite(
        suite.status, suite.label, suite.recorded, timed_out=suite.timed_out, baseline=compared, fail_on=wanted
    )


test.__test__ = False  # type: ignore[attr-defined]  # a suite that imports it must not take it for a test


def judge_suite(
    status: int,
    label: str,
    recorded: RecordedSuite,
    *,
    timed_out: bool = False,
    baseline: BaselineSuite | None = None,
    fail_on: Mapping[str, int] | None = None,
) -> Suite:
    """Compare a recorded suite with the baseline; ``fail_on``: kind of finding -> least bytes per bank."""
    from ttmem.analysis.findings import findings_by_run
    from ttmem.analysis.suite import memory_of_tests, suite_growth
    from ttmem.reports.suite_document import add_findings, build_baseline, build_document, build_findings

    profile = recorded.profile
    tests = memory_of_tests(profile)
    compared = None
    if baseline is not None:
        before = baseline.profile
        _refuse_other_board(before, profile)
        growth = suite_growth(before, tests, baseline.limit)
        compared = build_baseline(before.name, str(baseline.limit), growth)
    ttnn = str(profile.facts.get("ttnn", ""))
    found = build_document(status, label, recorded.rows, tests, ttnn=ttnn, timed_out=timed_out, baseline=compared)
    if fail_on is not None:
        found = add_findings(found, build_findings(findings_by_run(profile)), fail_on)
    return Suite(found, profile)


def read_baseline(source: Source, max_growth: Amount | None) -> BaselineSuite:
    """Read the suite to compare with, before anything is run."""
    from ttmem.analysis.budget import DEFAULT_GROWTH, parse_limit
    from ttmem.profile.model import SUITE_KIND

    profile = read(source)
    if profile.source.kind != SUITE_KIND:
        hint = "'ttmem test PATH --name NAME' makes one"
        raise BadInputError("is no report of a test suite", where=str(source), hint=hint)
    return BaselineSuite(profile, DEFAULT_GROWTH if max_growth is None else parse_limit(max_growth))


def format_limits(**limits: Amount | None) -> dict[str, str]:
    """Return limits for all tests, in the words of the mark."""
    from ttmem.analysis.budget import PERCENT, parse_limit

    parsed = {name: parse_limit(amount) for name, amount in limits.items() if amount is not None}
    return {name: f"{one.amount:g}%" if one.unit == PERCENT else f"{int(one.amount)}b" for name, one in parsed.items()}


def choose_suite_name(arguments: Sequence[str]) -> str:
    """Return the name of the first file or folder that pytest was given."""
    from ttmem.readers.sources import exists

    for word in arguments:
        path = Path(word.partition("::")[0])
        if not word.startswith("-") and exists(path):
            return path.resolve().stem or "tests"
    return "tests"


def _refuse_other_board(before: Profile, after: Profile) -> None:
    """Refuse a baseline of another board: banks differ, so peaks per bank cannot be compared."""
    old, new = (profile.facts.get("board", "") for profile in (before, after))
    if after.timelines and old != new:
        raise BadInputError(f"the baseline is of {old or 'a card'}, this run of {new or 'a card'}")


@verb(
    """
ttmem test tests/ttnn/unit_tests --board n150
ttmem test test_block.py -k attention -x --board p150
ttmem test test_block.py --json
ttmem test tests --name nightly --max-dram 80% --max-l1 90%
ttmem test tests --fail-on leak,late-free:10MB --sarif memory.sarif
ttmem test tests --baseline nightly --max-growth 2% --junit memory.xml --html memory.html
""",
    cls=UserProgramCommand,
    context_settings=PASSING_CONTEXT,
)
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="PATH [PYTEST ARGS]...")
@options.mock_or_card_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document; pytest's own output goes to stderr.")
@options.peak_limit_options
@options.baseline_options
@click.option(
    "--fail-on",
    metavar="KIND[:BYTES],..",
    help="Exit 1 on leaks and waste: leak,late-free:10MB (bytes per bank).",
)
@options.file_option(
    "--sarif", "sarif_path", help="Also write leaks and waste (or what --fail-on names) as SARIF 2.1.0."
)
@options.file_option("--junit", help="Also write JUnit XML, with every test's memory as properties.")
@options.file_option("--html", "html_path", help="Also write the report as one offline page.")
@click.option("--name", metavar="NAME", help="Call the report NAME (default: after PATH).")
@options.no_store_option
@options.python_option("ttnn and pytest")
@options.ttnn_option
@click.option("--timeout", type=float, metavar="SECONDS", help="Stop pytest and its child processes after SECONDS.")
@click.option(
    "--test-timeout",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Stop a test after SECONDS without an operation (default 300).",
)
@options.values_option
@options.no_programs_option
def command(
    arguments: tuple[str, ...],
    as_json: bool,
    sarif_path: Path | None,
    junit: Path | None,
    html_path: Path | None,
    name: str | None,
    no_store: bool,
    no_programs: bool,
    **settings: Any,
) -> int:
    """Run a pytest suite of ttnn programs on a mock board and report the peak memory of every test.

    The fixtures device and mesh_device exist unless the suite has its own; @pytest.mark.ttmem(max_l1="90%",
    max_dram="700MiB") limits a test, --max-l1 and --max-dram limit all. A test that crashes or hangs costs itself
    alone. A mock computes no values: once a test has read some, known comparisons succeed and are counted, and an
    assertion of its own that fails is not judged. Every test is a run of the stored report: 'ttmem profile NAME --run
    N' shows one. The exit status is pytest's, or 1 when a test outgrew the baseline; 125 means that ttmem itself
    failed. Where all share one environment, 'pytest --ttmem-board n150' does the same.
    """
    from ttmem.profile import store
    from ttmem.reports.suite import render_terminal

    if settings["max_growth"] is not None and settings["baseline"] is None:
        raise click.UsageError("--max-growth needs --baseline SOURCE")
    options.refuse_overwriting("-", junit, html_path, sarif_path)
    if name is not None:
        name = store.check_name(name)
    printed = stderr_descriptor() if as_json else None
    suite = test(
        arguments, name=name, programs=not no_programs, output=printed, **settings, **forward_signals_options()
    )
    if suite.timed_out:
        note("pytest ran out of time")
    _write_reports(suite, junit, sarif_path, html_path)
    if settings["baseline"] is not None and name is None and not no_store:
        note("not stored, so that the baseline stays what it is; --name NAME keeps this run")
        no_store = True
    kept = None if no_store else try_store(lambda: suite.keep(arguments, name=name))
    table = render_terminal(suite.document, **looks())
    emit(json_text(suite.to_json()) if as_json else table, None)
    note(table, quiet=not as_json)
    for path in filter(None, (junit, html_path, sarif_path)):
        note(f"wrote {path}")
    if kept is not None:
        note(f"stored as '{kept.name}' in {kept.folder}")
        fullest = next((test.run for test in suite.tests if test.run is not None), None)
        note(f"next: ttmem profile {kept.name} --run {fullest}")
    elif suite.is_empty and not no_store:
        note("nothing was recorded, so nothing was stored")
    return suite.status


def _write_reports(suite: Suite, junit: Path | None, sarif: Path | None, html: Path | None) -> None:
    if junit:
        from ttmem.reports.suite import render_junit

        emit(render_junit(suite.document), junit)
    if sarif:
        from ttmem.reports.tune import render_sarif

        emit(render_sarif([(one, one.test.partition("::")[0]) for one in suite.findings()]), sarif)
    if html:
        from ttmem.reports.profile_files import render_html

        emit(render_html(suite.profile, tests=suite.document), html)
