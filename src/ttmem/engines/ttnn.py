# SPDX-License-Identifier: Apache-2.0
"""The real ttnn as an engine: a worker process that answers requests, replaced when it dies.

with TtnnEngine(board="n150") as engine:
    outcome = engine.ask([{"alloc": "a", "shape": [64, 64], "dtype": "bfloat16", "layout": "tile"}])
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from ttmem.base.errors import MissingPartError, TtmemError
from ttmem.engines.engine import Engine, EngineSettings, Message, ScriptEntry, Step, Steps
from ttmem.engines.interpreters import Interpreter, find_interpreter
from ttmem.engines.run_script import end_child
from ttmem.engines.worker import protocol
from ttmem.engines.workspace import Worker, open_workspace
from ttmem.failures.classify import classify
from ttmem.failures.outcome import CRASH, PASS, TIMEOUT, Outcome
from ttmem.profile.model import L1_PARTS

_START_SECONDS = 120.0
"""The first import after an installation compiles thousands of files."""
_SLACK_SECONDS = 10.0
"""Extra patience beyond the server's own time limit."""


class EngineFailedError(TtmemError):
    """The worker does not start, or speaks another protocol."""

    exit_code = 3


class TtnnEngine(Engine):
    """A worker process for one board, started when first needed. Not thread-safe: use several engines."""

    def __init__(self, settings: EngineSettings | None = None, **changes: Any) -> None:
        super().__init__(settings, **changes)
        self.device: dict[str, Any] = {}
        """Facts of the opened device: grid, pools, alignments."""
        self.ttnn_version = ""
        self.replaced = 0
        """Number of worker restarts."""
        self._interpreter: Interpreter | None = None
        self._child: Worker | None = None
        self._surroundings: ExitStack | None = None
        self._requests = 0

    def __enter__(self) -> TtnnEngine:
        self.start()
        return self

    @property
    def process(self) -> int | None:
        return self._child.pid if self._child else None

    def ask_all(
        self, cases: Sequence[Steps], *, timeout: float | None = None, isolated: bool = True, stop: bool = False
    ) -> Iterator[Outcome]:
        """Yield one outcome per case, in order and as they arrive.

        Cases share a copy until one leaves something behind, crashes or hangs, which saves most of the time.
        """
        timeout = timeout or self.settings.timeout_seconds
        answered = 0
        while answered < len(cases):
            left = [list(steps) for steps in cases[answered:]]
            for outcome in self._exchange(left, timeout=timeout, isolated=isolated, stop=stop):
                answered += 1
                yield outcome

    def play(self, script: Sequence[ScriptEntry], *, timeout: float | None = None) -> Iterator[Message]:
        """Play a script in a copy of the worker, so that the next one finds an empty board."""
        seconds = timeout or self.settings.timeout_seconds
        child = self._send_request({"play": list(script), "timeout": seconds})
        yield {"hello": protocol.VERSION, "ttnn": self.ttnn_version}
        while line := self._read_line(seconds + _SLACK_SECONDS):
            message = protocol.decode(line)
            if "bad_request" in message:
                raise EngineFailedError(f"the worker did not understand a request: {message['bad_request']}")
            yield message
            if "played" in message:
                return
        lost = self._describe_loss(child, 0.0)
        yield {"played": True, "signal": signal.SIGKILL, "timed_out": lost.status == TIMEOUT}

    def start(self) -> None:
        if self._child is not None and self._child.poll() is None:
            return
        if self._child is not None:
            self._forget()
            self.replaced += 1
        settings = self.settings
        self._interpreter = self._interpreter or find_interpreter(settings.python)
        self._surroundings = ExitStack()
        place = self._surroundings.enter_context(
            open_workspace(self._interpreter, board=settings.board, card=settings.card)
        )
        opening = {
            "open": {
                "l1_small_size": settings.l1_small_bytes,
                "trace_region_size": settings.trace_region_bytes,
                "worker_l1_size": settings.worker_l1_bytes,
                "mesh": settings.mesh,
            },
            "memory_cap": settings.memory_cap_bytes,
            "measure": settings.measure_programs,
            "parent": os.getpid(),
        }
        self._child = place.start(
            "server",
            opening,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=place.folder,
            start_new_session=True,  # we handle Ctrl-C
        )
        assert self._child.stdout is not None
        self._lines = protocol.LineReader(self._child.stdout.fileno())
        self._greet()

    def close(self) -> None:
        if self._child is not None:
            assert self._child.stdin is not None
            with contextlib.suppress(OSError):
                self._child.stdin.close()
            try:
                self._child.wait(_SLACK_SECONDS)
            except subprocess.TimeoutExpired:
                end_child(self._child)
        self._forget()

    def _greet(self) -> None:
        assert self._interpreter is not None
        line = self._read_line(_START_SECONDS)
        hello = protocol.decode(line) if line else {}
        if hello.get("hello") != protocol.VERSION:
            status = self._child.poll() if self._child else None
            self.close()
            raise EngineFailedError(
                f"ttnn did not start (status {status})",
                where=self._interpreter.path,
                hint="'ttmem device doctor' finds out why",
            )
        self.ttnn_version = hello["ttnn"]
        if "error" in hello:
            self.close()
            sentence = " ".join(str(hello["error"]).split())
            raise MissingPartError(f"the board cannot be opened: {sentence}", where=self.settings.board)
        self.device = hello["device"]

    def _exchange(self, cases: list[list[Step]], **options: Any) -> Iterator[Outcome]:
        """Yield outcomes until all are there or the worker is lost; the case it died on gets that outcome."""
        child = self._send_request({"cases": cases, **options})
        patience = options["timeout"] + _SLACK_SECONDS
        started = time.perf_counter()
        for steps in cases:
            line = self._read_line(patience * max(len(steps), 1))
            if not line:
                yield self._describe_loss(child, time.perf_counter() - started)
                return
            answer = protocol.decode(line)
            if "bad_request" in answer:
                raise EngineFailedError(f"the worker did not understand a request: {answer['bad_request']}")
            yield build_outcome(answer, len(steps))

    def _send_request(self, request: Mapping[str, Any]) -> Worker:
        """Send a request and return the worker that received it."""
        self.start()
        child = self._child
        assert child is not None
        assert child.stdin is not None
        self._requests += 1
        with contextlib.suppress(BrokenPipeError):
            numbered = {"id": self._requests, **request}
            child.stdin.write(json.dumps(numbered, separators=(",", ":")).encode() + b"\n")
            child.stdin.flush()
        return child

    def _describe_loss(self, child: Worker, seconds: float) -> Outcome:
        """Build the outcome of a request whose worker died or fell silent."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.5)  # its end of the pipe may close an instant before it ends
        if child.poll() is None:
            end_child(child)
            return _build_failure(TIMEOUT, "the worker fell silent", seconds)
        code = child.returncode
        return _build_failure(
            CRASH, _describe_signal(-code) if code < 0 else f"the worker ended with status {code}", seconds
        )

    def _read_line(self, seconds: float) -> bytes:
        """Return a line, empty when the pipe ends or the time is over."""
        with contextlib.suppress(TimeoutError):
            return self._lines.read_line(seconds)
        return b""

    def _forget(self) -> None:
        if self._child is not None:
            for stream in (self._child.stdin, self._child.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
            self._child = None
        if self._surroundings is not None:
            self._surroundings.close()
            self._surroundings = None


def build_outcome(answer: Mapping[str, Any], steps: int) -> Outcome:
    """Build the outcome from a server's answer to a request of ``steps`` steps."""
    answers = tuple(answer["answers"])
    return _judge(answer, answers, steps)._replace(
        answers=answers,
        peak_bytes_per_bank=answer.get("peaks") or {},
        l1_parts=dict(zip(L1_PARTS, answer.get("l1") or (), strict=False)),
        l1_problem=answer.get("l1_problem", ""),
        seconds=answer.get("seconds", 0.0),
    )


def _judge(answer: Mapping[str, Any], answers: tuple[Mapping[str, Any], ...], steps: int) -> Outcome:
    failed = next((step for step in answers if not step["ok"]), None)
    if failed is not None:
        return classify(failed["error"], exception=failed.get("kind") or "Exception")
    if answer.get("timed_out"):
        return _build_failure(TIMEOUT, "no answer in time")
    if answer.get("signal"):
        return _build_failure(CRASH, _describe_signal(answer["signal"]))
    if not answer.get("finished", True) or len(answers) < steps:
        return _build_failure(CRASH, "the process ended before it answered")
    return Outcome(PASS)


def _build_failure(status: str, message: str, seconds: float | None = None) -> Outcome:
    """Build the outcome of a process without an answer; its failure class has the same name."""
    return Outcome(status, failure_class=status, message=message, seconds=seconds)


def _describe_signal(number: int) -> str:
    known = number in {one.value for one in signal.Signals}
    return f"the process was ended by {signal.Signals(number).name if known else f'signal {number}'}"
