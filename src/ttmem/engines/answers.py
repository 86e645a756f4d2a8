# SPDX-License-Identifier: Apache-2.0
"""From a worker's answer, or its death, to an outcome."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from ttmem.results import PASS, Outcome
from ttmem.results.classify import classify
from ttmem.results.outcome import CRASH, TIMEOUT

_L1_PARTS = ("tensors", "circular_buffers", "dataflow_buffers", "scratchpads")


def outcome_of(answer: Mapping[str, Any], steps: int) -> Outcome:
    """From a server's answer to a request of so many steps."""
    answers = tuple(answer["answers"])
    return _ended(answer, answers, steps)._replace(
        answers=answers,
        peak_bytes_per_bank=answer.get("peaks") or {},
        l1_parts=dict(zip(_L1_PARTS, answer.get("l1") or (), strict=False)),
        l1_problem=answer.get("l1_problem", ""),
        seconds=answer.get("seconds", 0.0),
    )


def _ended(answer: Mapping[str, Any], answers: tuple[Mapping[str, Any], ...], steps: int) -> Outcome:
    failed = next((step for step in answers if not step["ok"]), None)
    if failed is not None:
        return classify(failed["error"], exception=failed.get("kind") or "Exception")
    if answer.get("timed_out"):
        return timed_out("no answer in time")
    if answer.get("signal"):
        return died(answer["signal"])
    if not answer.get("finished", True) or len(answers) < steps:
        return crashed("the process ended before it answered")
    return Outcome(PASS)


def died(signal_number: int, seconds: float | None = None) -> Outcome:
    """A process that was killed. Nothing but a segfault is the library's own doing for sure."""
    try:
        name = signal.Signals(signal_number).name
    except ValueError:
        name = f"signal {signal_number}"
    return crashed(f"the process was ended by {name}", seconds)


def crashed(message: str, seconds: float | None = None) -> Outcome:
    return Outcome(CRASH, failure_class="crash", message=message, seconds=seconds)


def timed_out(message: str, seconds: float | None = None) -> Outcome:
    return Outcome(TIMEOUT, failure_class="timeout", message=message, seconds=seconds)
