# SPDX-License-Identifier: Apache-2.0
"""Runs a pytest suite with the memory plugin, in the interpreter that has ttnn, and reads its recordings."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ttmem.base.errors import MissingPartError
from ttmem.engines.interpreters import find_interpreter, format_install_command
from ttmem.engines.run_script import RunSettings, Supervision, build_worker_settings, end_child
from ttmem.engines.worker import protocol
from ttmem.engines.workspace import open_workspace
from ttmem.hardware import Board
from ttmem.profile.builder import ProfileBuilder
from ttmem.profile.model import SUITE_KIND, Profile, Program, Source, Timeline
from ttmem.profile.tables import ProfileTables


@dataclass(frozen=True, slots=True)
class RecordedSuite:
    """The results and recordings of a suite."""

    rows: tuple[dict[str, Any], ...]
    """Per test, in the order of their starts: name, outcome, seconds, figures."""
    profile: Profile
    """Without a timeline when no test began."""


@dataclass(frozen=True, slots=True)
class TestedSuite:
    __test__ = False  # the name begins like a test's

    status: int
    """pytest's own, 128 + signal when it was killed."""
    label: str
    """Where the tests ran: ``mock n150``, ``card``."""
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

    On a mock, comparisons of values are skipped and counted, unless ``keep_values``. A test that is silent for
    ``seconds_per_test`` is ended. ``limits`` apply to every test, like the mark's.
    """
    interpreter = find_interpreter(settings.python)
    if not interpreter.pytest_version:
        raise MissingPartError(
            "no pytest next to ttnn", where=interpreter.path, hint=f"{interpreter.path} -m pip install pytest"
        )
    with open_workspace(interpreter, board=settings.board, card=settings.card, counters=True) as place:
        events = place.folder / "events"
        events.mkdir()
        job = build_worker_settings(settings, place) | {
            "label": format_board_label(place.board),
            "values": settings.card or keep_values,
            "events": str(events),
            "limits": dict(limits or {}),
            "install": format_install_command(interpreter),
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
                status = end_child(child)
            except BaseException:
                end_child(child)
                raise
        recorded = read_suite(
            events,
            name=name,
            source=" ".join(arguments),
            engine="card" if settings.card else "mock",
            board=place.board.name if place.board else "",
            timed_out=timed_out,
        )
        return TestedSuite(128 - status if status < 0 else status, format_board_label(place.board), recorded, timed_out)


def format_board_label(board: Board | None) -> str:
    """Name the place where tests run, for reports."""
    return f"mock {board}" if board else "card"


_ENDED_WELL = ("passed", "skipped")


_Ends = Mapping[int, tuple[int, int]]
"""Counts of operations and states at the start or end of a part, by rank."""


@dataclass(slots=True)
class _RecordedProcess:
    capture: ProfileBuilder
    parts: list[tuple[str, _Ends]]
    """Its tests, with their starts."""
    hung: bool = False
    """Ended for its silence."""
    unfinished: set[str] = field(default_factory=set)
    """Tests with rows from before their end."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Skipped comparisons, by test."""


def read_suite(folder: Path, *, name: str, source: str, engine: str, board: str, timed_out: bool) -> RecordedSuite:
    """Read the ``folder`` to which the plugin's processes wrote. A test without an end was cut off with pytest."""
    tables = ProfileTables()
    rows: dict[str, dict[str, Any]] = {}
    found = [_read_process(file, tables, rows) for file in sorted(folder.glob("*.jsonl"))]
    processes = [process for process in found if process.parts]
    for test in {test for process in found for test in process.unfinished} & rows.keys():
        if rows[test]["outcome"] == "passed":  # until now; a failure is kept
            rows[test] |= {**_build_unfinished_row(test, timed_out), "seconds": rows[test]["seconds"]}
    for process in processes:
        for test, _ in process.parts:
            rows.setdefault(test, _build_unfinished_row(test, timed_out))
            rows[test].setdefault("skipped_comparisons", process.skipped.get(test, 0))
        _complete_row(rows[process.parts[-1][0]], process)
    timelines: list[Timeline] = []
    warnings: dict[str, None] = {}
    profile = tables.build([], name=name, source=Source(SUITE_KIND, source))
    tests = 0
    for process in processes:
        ends = [*process.parts, ("", process.capture.count_parts())]
        profile = process.capture.build(name=name, script="", engine=engine, board=board)
        # The first warning lists the ranks, where there are several; merged processes have others.
        known = profile.source.warnings[len(processes) > 1 and "ranks" in profile.facts :]
        warnings |= dict.fromkeys(known)
        for rank, timeline in enumerate(profile.timelines):
            timelines.append(_assign_tests(timeline, rank, ends, rows, first=tests))
        tests += len(process.parts)
    facts = dict(profile.facts)
    if len(processes) > 1:  # each device of each process is a rank: everything keeps those apart
        timelines = [replace(timeline, rank=number) for number, timeline in enumerate(timelines)]
        facts.pop("ranks", None)
    origin = Source(SUITE_KIND, source, warnings=tuple(warnings))
    return RecordedSuite(tuple(rows.values()), replace(profile, source=origin, facts=facts, timelines=tuple(timelines)))


def _read_process(file: Path, tables: ProfileTables, rows: dict[str, dict[str, Any]]) -> _RecordedProcess:
    """Read one process, with its operations numbered from its first: a copy continues the numbers of its original."""
    process = _RecordedProcess(ProfileBuilder(tables), [])
    first: int | None = None
    for message in _read_messages(file):
        if "row" in message:
            test = message["row"]["test"]
            rows[test] = message["row"]
            (process.unfinished.discard if message.get("ended", True) else process.unfinished.add)(test)
        elif "hung" in message:
            process.hung = True
        elif "skipped" in message and process.parts:
            process.skipped[process.parts[-1][0]] = message["skipped"]
        elif "test" in message:
            process.parts.append((message["test"], process.capture.count_parts()))
        else:
            for key in ("start", "end"):
                if key in message:
                    first = message[key] if first is None else first
                    message[key] -= first
            process.capture.add(message)
    return process


def _read_messages(file: Path) -> Iterator[dict[str, Any]]:
    with file.open("rb") as lines:
        for line in lines:
            if line.startswith(protocol.HUNG):
                yield {"hung": True}
            try:
                yield protocol.decode(line)
            except ValueError:  # half a line of a process that died
                continue


def _complete_row(row: dict[str, Any], process: _RecordedProcess) -> None:
    """Add to a row what only the recording knows of a test that ended its process: a hang, and the operation."""
    if row["outcome"] not in ("crashed", "timeout"):
        return
    known = json.loads(row["failure"])
    if process.hung:
        row["outcome"] = "timeout"
        known["text"] = "the test did nothing for the time that --test-timeout gives it"
    row["failure"] = protocol.encode(
        {"text": known["text"], "operation": known["operation"] or process.capture.running}
    )


def _build_unfinished_row(test: str, timed_out: bool) -> dict[str, Any]:
    text = "pytest ran out of time" if timed_out else "pytest was ended"
    failure = protocol.encode({"text": f"{text} while the test ran", "operation": None})
    return {"test": test, "outcome": "timeout" if timed_out else "crashed", "seconds": 0.0, "failure": failure}


def _assign_tests(
    timeline: Timeline,
    rank: int,
    ends: list[tuple[str, _Ends]],
    rows: Mapping[str, Mapping[str, Any]],
    *,
    first: int,
) -> Timeline:
    """Make each test a program of the timeline, numbered over all processes. A test that did nothing on a device is no
    run of it, except on the first device."""
    programs: list[Program] = []
    program = timeline.program.copy()
    for number, ((test, begin), (_, end)) in enumerate(pairwise(ends)):
        (operation, state), (end_operation, end_state) = begin.get(rank, (0, 0)), end.get(rank, (0, 0))
        if rank and (operation, state) == (end_operation, end_state):
            continue
        program[operation:end_operation] = np.int32(len(programs))
        finished = rows[test]["outcome"] in _ENDED_WELL
        programs.append(Program(test, -1, first + number, -1, operation, end_operation, finished, 0, state, end_state))
    return replace(timeline, programs=tuple(programs), program=program)
