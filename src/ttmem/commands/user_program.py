# SPDX-License-Identifier: Apache-2.0
"""Run a program of the user: its arguments, its exit status and the signals to it are forwarded.

``run_and_capture`` is a ``tee`` that keeps the exit status. stdout and stderr share one pipe there, because an error
text belongs to the operation whose line comes before it; two pipes would lose that order.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

import click

from ttmem.base.errors import BadInputError
from ttmem.commands.command_line import CONTEXT, Settings, WithExamples
from ttmem.commands.output import write_fully

OWN_FAILURE = 125
"""As ``env`` and ``timeout`` do: every other status is the child's."""
PASSING_CONTEXT = {**CONTEXT, "ignore_unknown_options": True, "help_option_names": ["--help"]}
"""No short options: click would look for them inside words such as ``-seq`` that belong to the child."""

_CHUNK_BYTES = 1 << 16
_POLL_SECONDS = 0.2
_GRACE_SECONDS = 2.0
"""Longest time that a silent background process may hold the pipe open after the child itself has ended."""
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class UserProgramCommand(WithExamples):
    """A command whose unknown words go to the child, whose exit status becomes ours; our own failures are 125."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set the exit code of our own failures, wrong usage included."""
        if settings := ctx.find_object(Settings):
            settings.failure_code = OWN_FAILURE
        return super().parse_args(ctx, args)


def forward_signals_options() -> dict[str, Any]:
    """Return the options of ``ttmem.run`` and ``ttmem.test`` that forward our signals to the child."""
    shares_terminal = _is_foreground()
    return {"own_session": not shares_terminal, "supervise": partial(_forward_signals, shares_terminal=shares_terminal)}


def run_and_capture(
    command: Sequence[str], *, log_path: Path, environment: Mapping[str, str], echo: BinaryIO | None
) -> tuple[int, str]:
    """Return the child's status (128 + signal when it was killed), and why the copy of its output is incomplete."""
    shares_terminal = _is_foreground()
    try:
        child = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            # Without a terminal only we can forward a signal, so the child and its children get a group of
            # their own; with one, the terminal itself sends Ctrl-C to everybody in ours.
            start_new_session=not shares_terminal,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        hint = "is it installed, and on PATH?" if isinstance(error, FileNotFoundError) else ""
        raise BadInputError(f"cannot run it: {reason}", where=command[0], hint=hint) from None
    with _forward_signals(child, shares_terminal=shares_terminal), log_path.open("xb", buffering=0) as log:
        problem = _tee(child, log, echo)
        status = child.wait()
    return (128 - status if status < 0 else status), problem


def _tee(child: subprocess.Popen[bytes], log: BinaryIO, echo: BinaryIO | None) -> str:
    """Copy until the pipe ends. A full disk or a closed terminal must not stop the child, so reading continues."""
    assert child.stdout is not None
    pipe = child.stdout.fileno()
    problem = ""
    last_output = time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if not selector.select(_POLL_SECONDS):
                if child.poll() is not None and time.monotonic() - last_output > _GRACE_SECONDS:
                    return problem
                continue
            chunk = os.read(pipe, _CHUNK_BYTES)
            if not chunk:
                return problem
            last_output = time.monotonic()
            if not problem:
                problem = _write_or_explain(log, chunk)
            if echo is not None and _write_or_explain(echo, chunk):
                echo = None


def _write_or_explain(stream: BinaryIO, chunk: bytes) -> str:
    """Write everything, or return the reason why not."""
    try:
        write_fully(stream, chunk)
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)
    return ""


def _is_foreground() -> bool:
    """Return whether a terminal would deliver Ctrl-C to our process group, and so to the child."""
    for stream in (sys.stdin, sys.stderr, sys.stdout):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    return False


@contextlib.contextmanager
def _forward_signals(child: subprocess.Popen[bytes], *, shares_terminal: bool) -> Iterator[None]:
    """Forward signals to the child and stay alive to report how it ended.

    The second Ctrl-C or SIGTERM kills it: a program may ignore the first.
    """
    received: Counter[int] = Counter()

    def forward(number: int, _: FrameType | None) -> None:
        received[number] += 1
        if received[number] > 1 and number in (signal.SIGINT, signal.SIGTERM):
            end_all = getattr(child, "kill_family", child.kill)
            end_all()
            if not shares_terminal:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, signal.SIGKILL)
            return
        if shares_terminal and number in (signal.SIGINT, signal.SIGQUIT):
            return  # the terminal has sent it to the child already
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if shares_terminal:
                child.send_signal(number)
            else:
                os.killpg(child.pid, number)

    before = {}
    try:
        for number in _FORWARDED:
            before[number] = signal.signal(number, forward)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
