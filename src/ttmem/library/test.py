# SPDX-License-Identifier: Apache-2.0
"""``ttmem.test``: a pytest suite of ttnn programs, with the peak memory of every test."""

# ruff: noqa: PT028 - the verb's name begins like a test's

from collections.abc import Sequence
from contextlib import nullcontext

from ttmem.engines.interpreters import chosen_python
from ttmem.engines.running import RunSettings, Supervision
from ttmem.engines.testing import run_tests
from ttmem.reports.test.document import SuiteRun, document


def test(
    arguments: Sequence[str],
    *,
    board: str = "n150",
    card: bool = False,
    python: str | None = None,
    ttnn: str | None = None,
    timeout: float | None = None,
    test_timeout: float | None = None,
    programs: bool = True,
    values: bool = False,
    output: int | None = None,
    own_session: bool = False,
    supervise: Supervision = lambda _: nullcontext(),
) -> SuiteRun:
    """Run pytest with these arguments in the interpreter that has ttnn; the result holds its ``status`` and the peaks.

    A test that crashes, or does nothing for ``test_timeout`` seconds (300), costs itself alone.
    Nothing is computed on a mock, so comparisons of values are skipped there unless ``values`` keeps them. The other
    parameters are those of ``ttmem.run``.
    """
    python = chosen_python(python, ttnn)
    settings = RunSettings(board=board, card=card, python=python, timeout_seconds=timeout, measure_programs=programs)
    suite = run_tests(
        arguments,
        settings=settings,
        keep_values=values,
        seconds_per_test=test_timeout,
        output=output,
        own_session=own_session,
        supervise=supervise,
    )
    peaks = suite.peaks or {"board": board, "tests": []}
    return document(suite.status, peaks["board"], peaks["tests"], timed_out=suite.timed_out)


test.__test__ = False  # type: ignore[attr-defined]  # a suite that imports it must not take it for a test
