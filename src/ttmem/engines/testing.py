# SPDX-License-Identifier: Apache-2.0
"""Run a pytest suite with the memory plugin, in the interpreter that has ttnn."""

import json
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from ttmem._errors import MissingPartError
from ttmem.engines.interpreters import find_interpreter
from ttmem.engines.running import RunSettings, Supervision, end, worker_settings
from ttmem.engines.workspace import workspace


@dataclass(frozen=True, slots=True)
class TestedSuite:
    """What came of it."""

    __test__ = False  # the name begins like a test's

    status: int
    """pytest's own, 128 + signal when it was killed."""
    peaks: dict[str, Any] | None
    """Per test: peaks, banks and outcome; None when pytest did not get as far as its summary."""
    timed_out: bool = False


def run_tests(
    arguments: Sequence[str],
    *,
    settings: RunSettings = RunSettings(),  # noqa: B008 - frozen
    keep_values: bool = False,
    seconds_per_test: float | None = None,
    output: int | None = None,
    own_session: bool = False,
    supervise: Supervision = lambda _: nullcontext(),
) -> TestedSuite:
    """Run pytest with these arguments on a mock board (or the card) and collect each test's peak memory.

    On a mock value comparisons are skipped, and the summary says how many; ``keep_values`` leaves them on.
    A test that is silent for ``seconds_per_test`` is ended.
    """
    interpreter = find_interpreter(settings.python)
    if not interpreter.pytest_version:
        raise MissingPartError(
            "no pytest beside ttnn", where=interpreter.path, hint=f"{interpreter.path} -m pip install pytest"
        )
    with workspace(interpreter, board=settings.board, card=settings.card, counters=True) as place:
        report = place.folder / "peaks.json"
        job = worker_settings(settings, place) | {
            "label": "card" if settings.card else f"mock {place.board}",
            "values": settings.card or keep_values,
            "json_path": str(report),
        }
        if seconds_per_test is not None:
            job["seconds_per_test"] = seconds_per_test
        child = place.start("pytest_plugin", job, arguments, stdout=output, start_new_session=own_session)
        timed_out = False
        with supervise(child):
            try:
                status = child.wait(settings.timeout_seconds)
                if settings.timeout_seconds:
                    child.kill_family()  # the time is for all that the tests started
            except subprocess.TimeoutExpired:
                timed_out = True
                status = end(child)
            except BaseException:
                end(child)
                raise
        peaks = None
        with suppress(OSError, ValueError):
            peaks = json.loads(report.read_text())
        return TestedSuite(128 - status if status < 0 else status, peaks, timed_out)
