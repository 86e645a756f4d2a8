# SPDX-License-Identifier: Apache-2.0
"""Answers requests until its input ends: opens the board once, then works in forked copies of itself.

Requests and answers are lines on stdin and stdout. A request holds cases, a case is a list of steps, and each case is
answered as soon as it is done. A case that crashes, hangs or exhausts the host's memory is answered too, and the next
ones run in a new copy.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from . import protocol
from .library import Library
from .player import play
from .process import ForkedProcess, Send
from .protocol import format_error
from .steps import DeviceSession

_SILENCE_SECONDS = 60.0
_LOOK_SECONDS = 0.5


class _RunningCase:
    def __init__(self, number: int) -> None:
        self.number = number
        self.answers: list[dict[str, Any]] = []
        self.started = time.perf_counter()

    def add_answer(self, message: dict[str, Any]) -> None:
        self.answers.append(message["answer"])

    def answer(self, summary: dict[str, Any], **ending: Any) -> dict[str, Any]:
        known = {"case": self.number, "answers": self.answers, "finished": bool(summary)}
        return {**known, "seconds": time.perf_counter() - self.started, **summary, **ending}


def _answer_cases(session: DeviceSession, request: dict[str, Any], memory_cap: int | None) -> Iterator[dict[str, Any]]:
    cases: list[list[dict[str, Any]]] = request["cases"]
    if not request.get("isolated", True):
        for number, steps in enumerate(cases):
            case = _RunningCase(number)
            _run(session, steps, request, case.add_answer)
            yield case.answer(session.summarize())
        return
    first = 0
    while first < len(cases):
        first += yield from _answer_in_fork(session, cases, first, request, memory_cap)


def _answer_in_fork(
    session: DeviceSession,
    cases: list[list[dict[str, Any]]],
    first: int,
    request: dict[str, Any],
    memory_cap: int | None,
) -> Any:
    """Answer the cases from ``first`` on in one copy of the session; return how many were answered."""

    def work(send: Send) -> None:
        for steps in cases[first:]:
            _run(session, steps, request, send)
            send({"summary": session.summarize()})
            if not session.end_case():
                return  # something is left: the next case needs a clean copy

    fork = ForkedProcess(work, memory_cap=memory_cap, own_group=True)
    done = 0
    case = _RunningCase(first)
    for message in fork.read_messages(request.get("timeout") or _SILENCE_SECONDS):
        if "answer" in message:
            case.add_answer(message)
        else:
            yield case.answer(message["summary"])
            done += 1
            case = _RunningCase(first + done)
    if first + done < len(cases) and (fork.signal or fork.timed_out or not done):
        yield case.answer({}, signal=fork.signal, timed_out=fork.timed_out)
        done += 1
    return done


def _play_script(session: DeviceSession, request: dict[str, Any], memory_cap: int | None) -> Iterator[dict[str, Any]]:
    """Yield the messages of a script, then how the copy that played it ended."""
    fork = ForkedProcess(partial(play, session, request["play"]), memory_cap=memory_cap, own_group=True)
    yield from fork.read_messages(request.get("timeout") or _SILENCE_SECONDS)
    yield {"played": True, "signal": fork.signal, "timed_out": fork.timed_out}


def _run(session: DeviceSession, steps: list[dict[str, Any]], request: dict[str, Any], send: Send) -> None:
    session.begin_case()
    for step in steps:
        answered = session.run(step)
        send({"answer": answered})
        if request.get("stop", False) and not answered["ok"]:
            return


def _watch_parent(parent: int) -> None:
    """End this process with its parent: an orphan has no reader, and a copy may be busy for minutes.

    Polled, because the kernel's own signal comes when the *thread* ends that started this process.
    """
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def main(words: list[str]) -> int:
    """Serve with the settings of ``server SETTINGS``, as JSON."""
    settings: dict[str, Any] = json.loads(words[0])
    threading.Thread(target=_watch_parent, args=(settings["parent"],), daemon=True).start()
    send = partial(protocol.write_line, os.dup(1))
    # The library prints failures to stdout: that stream must hold answers alone.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    library = Library()
    session = DeviceSession(library, measure_programs=settings["measure"])
    hello: dict[str, Any] = {"hello": protocol.VERSION, "ttnn": library.version}
    try:
        hello["device"] = session.open(settings["open"])
    except Exception as error:
        hello["error"] = format_error(error)
    send(hello)
    for line in sys.stdin.buffer:
        try:
            request = protocol.decode(line)
            work = _play_script if "play" in request else _answer_cases
            for answer in work(session, request, settings["memory_cap"]):
                send({"id": request.get("id"), **answer})
        except (ValueError, KeyError, TypeError) as error:
            send({"id": None, "bad_request": f"{type(error).__name__}: {error}"})
    session.close()
    return 0
