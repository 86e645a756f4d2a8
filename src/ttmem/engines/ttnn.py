# SPDX-License-Identifier: Apache-2.0
"""The real ttnn as an engine: a worker process that answers requests, replaced when it dies.

with TtnnEngine(board="n150") as engine:
    outcome = engine.ask([{"alloc": "a", "shape": [64, 64], "dtype": "bfloat16", "layout": "tile"}])
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from ttmem._errors import MissingPartError, TtmemError
from ttmem.engines.answers import crashed, died, outcome_of, timed_out
from ttmem.engines.engine import EngineSettings, Step
from ttmem.engines.interpreters import Interpreter, find_interpreter
from ttmem.engines.running import START, end
from ttmem.engines.worker import protocol
from ttmem.engines.workspace import workspace
from ttmem.results import Outcome

_START_SECONDS = 120.0
"""The first import after an installation compiles thousands of files."""
_SLACK_SECONDS = 10.0
"""How much later than the server itself we lose patience."""


class EngineFailedError(TtmemError):
    """The worker does not start, or speaks another protocol."""

    exit_code = 3


class TtnnEngine:
    """One worker process for one board, started when first needed. Not for several threads at once: use several."""

    def __init__(self, settings: EngineSettings | None = None, **changes: Any) -> None:
        self.settings = settings or EngineSettings(**changes)
        self.device: dict[str, Any] = {}
        """What the worker said of the opened device: grid, pools, alignments."""
        self.ttnn_version = ""
        self.replaced = 0
        """How often a worker had to be started again."""
        self._interpreter: Interpreter | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._surroundings: ExitStack | None = None
        self._unread = b""
        self._requests = 0

    def __enter__(self) -> TtnnEngine:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def process(self) -> int | None:
        """The worker's process id."""
        return self._child.pid if self._child else None

    def ask(
        self, steps: Sequence[Step], *, timeout: float | None = None, isolated: bool = True, stop: bool = False
    ) -> Outcome:
        """Do the steps in a copy of the worker and say what came of it; nothing of them stays behind.

        ``timeout`` bounds each step. ``isolated=False`` runs them in the worker itself: faster, and the device keeps
        what they did. ``stop`` ends at the first step that fails.
        """
        return next(self.ask_all([steps], timeout=timeout, isolated=isolated, stop=stop))

    def ask_all(
        self,
        cases: Sequence[Sequence[Step]],
        *,
        timeout: float | None = None,
        isolated: bool = True,
        stop: bool = False,
    ) -> Iterator[Outcome]:
        """One outcome per case, in order and as they come.

        Cases share a copy as long as they leave nothing behind, which saves most of the time; after a crash, a hang or
        a leftover the next one gets a new copy.
        """
        timeout = timeout or self.settings.timeout_seconds
        answered = 0
        while answered < len(cases):
            left = [list(steps) for steps in cases[answered:]]
            for outcome in self._exchange(left, timeout=timeout, isolated=isolated, stop=stop):
                answered += 1
                yield outcome

    def start(self) -> None:
        """Start the worker now, if it does not run."""
        if self._child is not None and self._child.poll() is None:
            return
        if self._child is not None:
            self._forget()
            self.replaced += 1
        settings = self.settings
        self._interpreter = self._interpreter or find_interpreter(settings.python)
        self._surroundings = ExitStack()
        place = self._surroundings.enter_context(workspace(self._interpreter, board=settings.board, card=settings.card))
        told = {
            "open": self._opening(),
            "worker_dispatch": place.worker_dispatch,
            "memory_cap": settings.memory_cap_bytes,
            "measure": settings.measure_programs,
        }
        self._child = subprocess.Popen(
            [self._interpreter.path, str(START), "server", json.dumps(told)],
            env=place.environment(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=place.folder,
            start_new_session=True,  # a Ctrl-C is ours to handle
        )
        self._greet()

    def close(self) -> None:
        """End the worker and remove what it left."""
        if self._child is not None:
            if self._child.stdin is not None:
                with contextlib.suppress(OSError):
                    self._child.stdin.close()
            try:
                self._child.wait(_SLACK_SECONDS)
            except subprocess.TimeoutExpired:
                end(self._child)
        self._forget()

    def _opening(self) -> dict[str, Any]:
        settings = self.settings
        return {
            "l1_small_size": settings.l1_small_bytes,
            "trace_region_size": settings.trace_region_bytes,
            "worker_l1_size": settings.worker_l1_bytes,
            "mesh": list(settings.mesh) if settings.mesh else None,
        }

    def _greet(self) -> None:
        assert self._interpreter is not None
        line = self._read_line(time.monotonic() + _START_SECONDS)
        hello = protocol.decode(line) if line else {}
        if hello.get("hello") != protocol.VERSION:
            status = self._child.poll() if self._child else None
            self.close()
            raise EngineFailedError(
                f"ttnn did not start (status {status})",
                where=self._interpreter.path,
                hint="ask 'ttmem device doctor' why",
            )
        self.ttnn_version = hello["ttnn"]
        if "error" in hello:
            self.close()
            sentence = " ".join(str(hello["error"]).split())
            raise MissingPartError(f"the board cannot be opened: {sentence}", where=self.settings.board)
        self.device = hello["device"]

    def _exchange(self, cases: list[list[Step]], **options: Any) -> Iterator[Outcome]:
        """Outcomes until all are there or the worker is gone; the case it died on has that as its outcome."""
        self.start()
        child = self._child
        assert child is not None
        assert child.stdin is not None
        self._requests += 1
        request = {"id": self._requests, "cases": cases, **options}
        patience = options["timeout"] + _SLACK_SECONDS
        started = time.perf_counter()
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(json.dumps(request, separators=(",", ":")).encode() + b"\n")
            child.stdin.flush()
        for steps in cases:
            line = self._read_line(time.monotonic() + patience * max(len(steps), 1))
            if not line:
                yield self._lost(child, time.perf_counter() - started)
                return
            told = protocol.decode(line)
            if "bad_request" in told:
                raise EngineFailedError(f"the worker did not understand a request: {told['bad_request']}")
            yield outcome_of(told, len(steps))

    def _lost(self, child: subprocess.Popen[bytes], seconds: float) -> Outcome:
        """What to say of a request whose worker died or fell silent."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.5)  # its end of the pipe may be closed an instant before it is gone
        if child.poll() is None:
            end(child)
            return timed_out("the worker fell silent", seconds)
        if child.returncode < 0:
            return died(-child.returncode, seconds)
        return crashed(f"the worker ended with status {child.returncode}", seconds)

    def _read_line(self, deadline: float) -> bytes:
        """One line, or nothing when the pipe ends or the time is over."""
        assert self._child is not None
        assert self._child.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    return b""
                chunk = os.read(self._child.stdout.fileno(), 1 << 16)
                if not chunk:
                    return b""
                self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

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
        self._unread = b""
