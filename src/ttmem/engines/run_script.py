# SPDX-License-Identifier: Apache-2.0
"""Runs a ttnn script under capture, in a process of its own on a mock board or a card, and returns its Profile."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ttmem.base.errors import BadInputError, TtmemError
from ttmem.base.file_sandbox import refuse_outside
from ttmem.base.text_files import refuse_device
from ttmem.engines.interpreters import Interpreter, find_interpreter, find_missing_module, suggest_install
from ttmem.engines.worker import protocol
from ttmem.engines.workspace import Worker, Workspace, open_workspace
from ttmem.profile.builder import ProfileBuilder
from ttmem.profile.model import Profile

_GRACE_SECONDS = 2.0
"""Time for a child to end when asked to."""
_READ_SECONDS, _POLL_SECONDS = 0.05, 0.005

Child = Worker
Supervision = Callable[[Child], AbstractContextManager[None]]


class WorkerFailedError(TtmemError):
    """The worker never reached the user's program."""

    exit_code = 125


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings of a run; None leaves the script's own choice."""

    board: str = "n150"
    card: bool = False
    python: str | None = None
    l1_small_bytes: int | None = None
    trace_region_bytes: int | None = None
    timeout_seconds: float | None = None
    measure_programs: bool = True
    """Measure the programs' own buffers: some milliseconds for every new operation."""
    keep_values: bool = False
    """Make comparisons of values on a mock too, which computes none."""
    edits: tuple[Mapping[str, Any], ...] = ()
    """Changes made to calls while the script runs (``worker.call_editor``)."""


@dataclass(frozen=True, slots=True)
class ScriptRun:
    profile: Profile
    status: int
    """As in a shell: 128 + signal when the script was killed."""
    timed_out: bool
    interpreter: Interpreter
    remedy: str = ""
    """Command that makes a missing module importable; two where its name is unknown."""

    @property
    def is_empty(self) -> bool:
        """Nothing was recorded, so there is nothing to store."""
        return is_empty(self.profile)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``ttmem run --json``: the profile's."""
        return self.profile.to_json()


def is_empty(profile: Profile) -> bool:
    """Return whether a profile has neither an operation nor a state of a device."""
    return not any(len(timeline) or len(timeline.state_kind) for timeline in profile.timelines)


def run_script(
    script: str | Path,
    arguments: Sequence[str] = (),
    *,
    settings: RunSettings = RunSettings(),  # noqa: B008 - frozen
    name: str | None = None,
    output: int | None = None,
    own_session: bool = False,
    supervise: Supervision = lambda _: nullcontext(),
) -> ScriptRun:
    """Run the user's own, unedited script. Its errors become the profile's failure.

    ``output`` is a descriptor for the script's stdout (None: ours). ``supervise`` may pass signals on while the script
    runs; ``own_session`` shields it from signals to our process group.
    """
    if not Path(script).exists():
        raise BadInputError(f"no such script '{script}'")
    refuse_outside(script)
    refuse_device(Path(script))
    interpreter = find_interpreter(settings.python)
    with open_workspace(interpreter, board=settings.board, card=settings.card, counters=True) as place:
        capture = ProfileBuilder()
        words = [str(script), *arguments]
        values = settings.card or settings.keep_values
        job = {**build_worker_settings(settings, place), "values": values, "edits": list(settings.edits)}
        started = _start_child(place, job, words, output, own_session)
        with started as (child, pipe), supervise(child):
            timed_out = not _follow(child, pipe, capture, settings.timeout_seconds)
            status = child.wait()
        status = 128 - status if status < 0 else status
    if not capture.hello:
        raise WorkerFailedError(
            f"ttnn did not start (status {status})", where=interpreter.path, hint="'ttmem device doctor' finds out why"
        )
    if not capture.has_ended and not timed_out and status <= 128:
        capture.add({"note": "the script closed the descriptor of its recording: what came after that is missing"})
    capture.end_process(
        signal_number=status - 128 if status > 128 and not capture.has_ended else None,
        timeout_seconds=settings.timeout_seconds if timed_out else None,
    )
    ended = capture.ended or {"error": "", "message": ""}
    module = find_missing_module(ended["error"], ended["message"])
    command = suggest_install(module, interpreter, Path(script)) if module else ""
    if command:
        capture.add({"note": f"the interpreter that has ttnn has no module '{module}': {command}"})
    profile = capture.build(
        name=name or Path(script).stem,
        script=str(script),
        engine="card" if settings.card else "mock",
        board=place.board.name if place.board else "",
    )
    if arguments:
        profile = replace(profile, facts={**profile.facts, "arguments": list(arguments)})
    return ScriptRun(profile, status, timed_out, interpreter, command)


def build_worker_settings(settings: RunSettings, place: Workspace) -> dict[str, Any]:
    """Return the worker's settings: how devices are opened, what is measured."""
    return {
        "open": {
            "l1_small_size": settings.l1_small_bytes,
            "trace_region_size": settings.trace_region_bytes,
        },
        "measure": settings.measure_programs,
        "temporary": tempfile.gettempdir(),
        "environment": place.user_variables,
        "parent": os.getpid(),
    }


@contextmanager
def _start_child(
    place: Workspace, job: dict[str, Any], words: Sequence[str], output: int | None, own_session: bool
) -> Iterator[tuple[Child, int]]:
    """Start the child; yield it and the descriptor of its messages, and end it afterwards."""
    reading, writing = os.pipe()
    try:
        try:
            job = {"events": writing, **job}
            child = place.start("script", job, words, stdout=output, pass_fds=[writing], start_new_session=own_session)
        finally:
            os.close(writing)
        try:
            yield child, reading
        finally:
            if child.poll() is None:
                end_child(child)
    finally:
        os.close(reading)


def _follow(child: Child, pipe: int, capture: ProfileBuilder, timeout_seconds: float | None) -> bool:
    """Add messages to the capture until the child ends; return False when the time limit ended it.

    The end of the pipe need not come: a process that the script forked may hold it open. All that the child wrote is in
    the pipe when it has ended.
    """
    lines = protocol.LineReader(pipe)
    deadline = time.monotonic() + timeout_seconds if timeout_seconds else None
    is_open = True
    while deadline is None or time.monotonic() <= deadline:
        has_ended = child.poll() is not None
        if not is_open:
            if has_ended:
                return True
            time.sleep(_POLL_SECONDS)
            continue
        try:
            line = lines.read_line(0 if has_ended else _READ_SECONDS)
        except TimeoutError:
            if has_ended:
                return True
            continue
        is_open = bool(line)  # else the child is about to end, or closed the pipe
        with suppress(ValueError):  # half a line of a process that died
            capture.add(protocol.decode(line))
    end_child(child)
    return False


def end_child(child: Child) -> int:
    """Ask the child to end, then kill it with all that it started; return its status."""
    child.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE_SECONDS)
    child.kill_family()
    return child.wait()
