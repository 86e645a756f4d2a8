# SPDX-License-Identifier: Apache-2.0
"""Run a pytest suite with the memory plugin, in the interpreter that has ttnn."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from ttmem.base.errors import MissingPartError
from ttmem.engines.interpreters import Interpreter, find_interpreter, managed_python
from ttmem.engines.run_script import RunSettings, Supervision, end, worker_settings
from ttmem.engines.suite import RecordedSuite, read_suite
from ttmem.engines.workspace import workspace
from ttmem.hardware import Board


@dataclass(frozen=True, slots=True)
class TestedSuite:
    """The result of a run of pytest."""

    __test__ = False  # the name begins like a test's

    status: int
    """pytest's own, 128 + signal when it was killed."""
    label: str
    """What the tests ran on: ``mock n150``, ``card``."""
    recorded: RecordedSuite
    timed_out: bool = False


def run_tests(
    arguments: Sequence[str],
    *,
    settings: RunSettings = RunSettings(),  # noqa: B008 - frozen
    name: str,
    limits: Mapping[str, str] | None = None,
    keep_values: bool = False,
    seconds_per_test: float | None = None,
    output: int | None = None,
    own_session: bool = False,
    supervise: Supervision = lambda _: nullcontext(),
) -> TestedSuite:
    """Run pytest with these arguments on a mock board (or the card) and collect each test's peak memory.

    On a mock, comparisons of values are skipped and counted; ``keep_values`` makes them.
    A test that does nothing for ``seconds_per_test`` is ended. ``limits`` are those of the mark, for every test.
    """
    interpreter = find_interpreter(settings.python)
    if not interpreter.pytest_version:
        raise MissingPartError(
            "no pytest next to ttnn", where=interpreter.path, hint=f"{interpreter.path} -m pip install pytest"
        )
    with workspace(interpreter, board=settings.board, card=settings.card, counters=True) as place:
        events = place.folder / "events"
        events.mkdir()
        job = worker_settings(settings, place) | {
            "label": label_of(place.board),
            "values": settings.card or keep_values,
            "events": str(events),
            "limits": dict(limits or {}),
            "install": install_command(interpreter),
        }
        if seconds_per_test is not None:
            job["seconds_per_test"] = seconds_per_test
        (place.folder / "suite.json").write_text(json.dumps(job))
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
        recorded = read_suite(
            events,
            name=name,
            source=" ".join(arguments),
            engine="card" if settings.card else "mock",
            board=place.board.name if place.board else "",
            timed_out=timed_out,
        )
        return TestedSuite(128 - status if status < 0 else status, label_of(place.board), recorded, timed_out)


def install_command(interpreter: Interpreter) -> str:
    """The command that installs packages next to ttnn; their names follow."""
    if Path(interpreter.path) == managed_python():
        return "ttmem device install --with "
    return f"{interpreter.path} -m pip install "


def label_of(board: Board | None) -> str:
    """What the tests run on, in the words of a report."""
    return f"mock {board}" if board else "card"
