# SPDX-License-Identifier: Apache-2.0
"""What an engine said of a request, and what that means."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ttmem.explain import find_failures

PASS, OOM, CLASH, OVERFLOW, INVALID = "pass", "oom", "clash", "overflow", "invalid"
UNSUPPORTED, CRASH, TIMEOUT, ERROR = "unsupported", "crash", "timeout", "error"
STATUSES = (PASS, OOM, CLASH, OVERFLOW, INVALID, UNSUPPORTED, CRASH, TIMEOUT, ERROR)

_BY_CLASS = {
    "buffers/clash": CLASH,
    "buffers/overflow": OVERFLOW,
    "buffers/config": INVALID,
    "shard/spec": INVALID,
    "page/size": INVALID,
    "trace/region": OOM,
    "kernel/config": OVERFLOW,
    "crash": CRASH,
    "timeout": TIMEOUT,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request's outcome. ``status`` is that of the first step that failed."""

    status: str
    answers: tuple[Mapping[str, Any], ...] = ()
    """One per step that was answered."""
    failure_class: str = ""
    """A class of ``explain``, empty when nothing failed."""
    memory: str | None = None
    message: str = ""
    needed_bytes: int | None = None
    """The allocation that failed, as the library names it."""
    bytes_per_bank: int | None = None
    """What each bank needed for that allocation."""
    peak_bytes_per_bank: Mapping[str, int] = field(default_factory=dict)
    """By memory, moments inside operations included; empty when the process did not live to tell."""
    l1_parts: Mapping[str, int] = field(default_factory=dict)
    """Bytes per core at the worst moment: tensors, circular_buffers, dataflow_buffers, scratchpads."""
    l1_problem: str = ""
    """Why ``l1_parts`` may be short of something, empty when it is not."""
    seconds: float = 0.0
    confidence: str = "real"
    """``real``: the library said it; of the twin ``exact``, ``bounded`` or ``unknown``."""
    doubt: str = ""
    """Why the confidence is not better."""

    @property
    def ok(self) -> bool:
        return self.status == PASS


def outcome_of(told: Mapping[str, Any], steps: int) -> Outcome:
    """From a server's answer to a request of so many steps."""
    answers = tuple(told["answers"])
    parts = told.get("l1") or ()
    common = {
        "answers": answers,
        "peak_bytes_per_bank": told.get("peaks") or {},
        "l1_parts": dict(zip(("tensors", "circular_buffers", "dataflow_buffers", "scratchpads"), parts, strict=False)),
        "l1_problem": told.get("l1_problem", ""),
        "seconds": told.get("seconds", 0.0),
    }
    failed = next((answer for answer in answers if not answer["ok"]), None)
    if failed is not None:
        return _failed(failed["error"], failed.get("kind", ""), common)
    if told.get("timed_out"):
        return Outcome(status=TIMEOUT, failure_class="timeout", message="no answer in time", **common)
    if told.get("signal"):
        return died(told["signal"], **common)
    if not told.get("finished", True) or len(answers) < steps:
        return Outcome(status=CRASH, failure_class="crash", message="the process ended without a word", **common)
    return Outcome(status=PASS, **common)


def died(signal_number: int, **common: Any) -> Outcome:
    """A process that was killed. Nothing but a segfault is the library's own doing for sure."""
    try:
        name = signal.Signals(signal_number).name
    except ValueError:
        name = f"signal {signal_number}"
    return Outcome(status=CRASH, failure_class="crash", message=f"the process was ended by {name}", **common)


def _failed(text: str, kind: str, common: Mapping[str, Any]) -> Outcome:
    found = next(iter(find_failures(text, include_other=True)), None)
    if found is None:
        return Outcome(status=_status_of_exception(kind, text), message=_sentence(text), **common)
    return Outcome(
        status=_status_of_class(found.failure_class, kind),
        failure_class=found.failure_class,
        memory=found.memory,
        message=found.message,
        needed_bytes=found.numbers.get("requested_bytes"),
        bytes_per_bank=found.numbers.get("bytes_per_bank"),
        **common,
    )


def _status_of_class(failure_class: str, kind: str) -> str:
    if failure_class.startswith("oom/"):
        return OOM
    if failure_class == "none":  # an assertion of the library whose wording says nothing of memory: it refused the call
        return INVALID
    return _BY_CLASS.get(failure_class, ERROR)


def _status_of_exception(kind: str, text: str) -> str:
    """Errors of Python: what the library has not got is unsupported, what it was not given right is invalid."""
    if kind == "AttributeError":
        return UNSUPPORTED
    if kind in ("TypeError", "ValueError", "RuntimeError", "IndexError"):
        return INVALID
    return ERROR


def _sentence(text: str) -> str:
    return " ".join(text.split())[:500]
