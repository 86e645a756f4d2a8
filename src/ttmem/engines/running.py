# SPDX-License-Identifier: Apache-2.0
"""Run a ttnn script under capture: in a process of its own, on a mock board or a card, and get its Profile."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttmem._errors import BadInputError, TtmemError
from ttmem.engines.capture import Capture
from ttmem.engines.interpreters import Interpreter, find_interpreter
from ttmem.engines.worker import protocol
from ttmem.engines.workspace import Workspace, workspace
from ttmem.profile import Profile

START = Path(__file__).parent / "worker" / "start.py"

_CHUNK_BYTES = 1 << 16
_GRACE_SECONDS = 2.0
"""How long a child that was told to end may take, and how long the last messages may take after it has ended."""

Child = subprocess.Popen[bytes]
Supervision = Callable[[Child], AbstractContextManager[None]]


class WorkerFailedError(TtmemError):
    """The process never got as far as the user's program."""

    exit_code = 125


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How a script is run; None leaves the script's own choice."""

    board: str = "n150"
    card: bool = False
    python: str | None = None
    l1_small_bytes: int | None = None
    trace_region_bytes: int | None = None
    timeout_seconds: float | None = None
    measure_programs: bool = True
    """Whether the programs' own buffers are measured: some milliseconds for every operation that is new."""


@dataclass(frozen=True, slots=True)
class CapturedRun:
    """What came of it."""

    profile: Profile
    status: int
    """As a shell reports it: 128 + signal when the script was killed."""
    timed_out: bool
    interpreter: Interpreter

    def to_json(self) -> dict[str, Any]:
        """The document of ``ttmem run --json``: the profile's."""
        return self.profile.to_json()


def run_script(
    script: str | Path,
    arguments: Sequence[str] = (),
    *,
    settings: RunSettings = RunSettings(),  # noqa: B008 - frozen
    name: str | None = None,
    output: int | None = None,
    own_session: bool = False,
    supervise: Supervision = lambda _: nullcontext(),
) -> CapturedRun:
    """Run the user's own script, unedited. Its errors become the profile's failure.

    ``output`` is a descriptor that takes the script's stdout (None: where ours goes). ``supervise`` may pass signals on
    while the script runs; ``own_session`` shields it from signals to our own process group.
    """
    if not Path(script).exists():
        raise BadInputError(f"no such script '{script}'")
    interpreter = find_interpreter(settings.python)
    with workspace(interpreter, board=settings.board, card=settings.card) as place:
        capture = Capture()
        told = worker_settings(settings, place)
        words = [str(script), *arguments]
        started = _started(interpreter, place, told, words, output, own_session)
        with started as (child, pipe), supervise(child):
            timed_out = not _follow(child, pipe, capture, settings.timeout_seconds)
            status = child.wait()
        status = 128 - status if status < 0 else status
    if not capture.hello:
        raise WorkerFailedError(
            f"ttnn did not start (status {status})", where=interpreter.path, hint="ask 'ttmem device doctor' why"
        )
    if not capture.has_ended or timed_out:
        killed_by = status - 128 if status > 128 else None
        capture.process_ended(signal_number=killed_by, timeout_seconds=settings.timeout_seconds if timed_out else None)
    else:
        capture.process_ended()
    profile = capture.profile(
        name=name or Path(script).stem,
        script=str(script),
        engine="card" if settings.card else "mock",
        board=place.board.name if place.board else "",
    )
    return CapturedRun(profile, status, timed_out, interpreter)


def worker_settings(settings: RunSettings, place: Workspace) -> dict[str, Any]:
    """What the worker is told about opening devices."""
    opening = {
        "l1_small_size": settings.l1_small_bytes,
        "trace_region_size": settings.trace_region_bytes,
        "worker_dispatch": place.worker_dispatch,
    }
    return {
        "open": opening,
        "measure": settings.measure_programs,
        "temporary": tempfile.gettempdir(),
        "parent": os.getpid(),
    }


@contextmanager
def _started(
    interpreter: Interpreter,
    place: Workspace,
    told: dict[str, Any],
    words: Sequence[str],
    output: int | None,
    own_session: bool,
) -> Iterator[tuple[Child, int]]:
    """The child, and the descriptor from which its messages are read; it does not outlive us."""
    reading, writing = os.pipe()
    try:
        child: Child = subprocess.Popen(
            [interpreter.path, str(START), "script", json.dumps({"events": writing, **told}), *words],
            env=place.environment(os.environ),
            stdout=output,
            pass_fds=[writing],
            start_new_session=own_session,
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    try:
        yield child, reading
    finally:
        os.close(reading)
        if child.poll() is None:
            end(child)


def _follow(child: Child, pipe: int, capture: Capture, timeout_seconds: float | None) -> bool:
    """Feed the capture until the child ends; False when it had to be ended."""
    deadline = time.monotonic() + timeout_seconds if timeout_seconds else None
    try:
        for line in _lines(pipe, child, deadline):
            with contextlib.suppress(ValueError):  # half a line of a process that died
                capture.feed(protocol.decode(line))
    except TimeoutError:
        end(child)
        return False
    return True


def _lines(descriptor: int, child: Child, deadline: float | None) -> Iterator[bytes]:
    """The messages until the pipe ends, or until the child has ended and nothing more comes: a process that the
    script forked may hold the pipe open. ``TimeoutError`` at the deadline."""
    rest = b""
    ended_at: float | None = None
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError
            if not selector.select(0.1):
                if child.poll() is not None:
                    ended_at = ended_at or time.monotonic()
                    if time.monotonic() - ended_at > _GRACE_SECONDS:
                        return
                continue
            chunk = os.read(descriptor, _CHUNK_BYTES)
            if not chunk:
                return
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole


def end(child: Child) -> None:
    """First asked, then made to."""
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
