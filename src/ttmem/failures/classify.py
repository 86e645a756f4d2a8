# SPDX-License-Identifier: Apache-2.0
"""Classifier for the failures of engines and for logs of other tools; it reads the sentence, not the status.

Status words of other tools are not trusted: a skip can hide an out-of-memory, tt-metal's FAIL_L1_OUT_OF_MEM is set for
DRAM too, and a clash of static buffers is filed under assertions there.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from ttmem.base.limits import FAILURES_CLASSIFIED, TESTS_READ
from ttmem.failures.failure import Failure
from ttmem.failures.knowledge.tables import find_failure_class, find_status
from ttmem.failures.outcome import CRASH, ERROR, FAIL, INVALID, OOM, SKIPPED, UNSUPPORTED, Outcome
from ttmem.failures.text.find import find_failures

_REFUSALS = ("TypeError", "ValueError", "RuntimeError", "IndexError")
_Test = TypeVar("_Test")
_MEMORY = re.compile(r"\b(DRAM|L1_SMALL|L1|TRACE)\b")


@dataclass(slots=True)
class _Read:
    """Number of failures and tests in one source."""

    failures: int = 0
    tests: int = 0

    @property
    def notes(self) -> list[str]:
        beyond = self.failures - FAILURES_CLASSIFIED
        known = f"figures are read of the first {FAILURES_CLASSIFIED:,} failures"
        told = [f"{known}; {beyond:,} more are distinguished by their wording alone"] if beyond > 0 else []
        unread = self.tests - TESTS_READ
        return told + ([f"{unread:,} tests beyond the first {TESTS_READ:,} were left out"] if unread > 0 else [])


_reading: ContextVar[_Read | None] = ContextVar("reading", default=None)


@contextmanager
def limit_reading() -> Iterator[_Read]:
    """While other tools' results are read: looking for figures in each of a hundred thousand failures takes minutes."""
    read = _Read()
    before = _reading.set(read)
    try:
        yield read
    finally:
        _reading.reset(before)


def limit_tests(tests: Iterable[_Test]) -> Iterator[_Test]:
    """Yield the tests that a report contains; counts the rest for the note that names it."""
    read = _reading.get()
    for test in tests:
        if read is not None:
            read.tests += 1
            if read.tests > TESTS_READ:
                continue
        yield test


def classify(text: str, *, exception: str = "") -> Outcome:
    """Classify a case that did not pass.

    ``exception`` is the type of the error where it is known, which decides what the words leave open: what the library
    has not got is unsupported, a call that it refused is invalid. Without it the words alone have to do.
    """
    if (read := _reading.get()) is not None:
        read.failures += 1
    failure = _failure(text) if read is None or read.failures <= FAILURES_CLASSIFIED else None
    if failure is not None and (failure.failure_class != "none" or exception):
        return _build_outcome(failure)
    if exception:
        status = UNSUPPORTED if exception == "AttributeError" else INVALID if exception in _REFUSALS else ERROR
        return Outcome(status, message=" ".join(text.split())[:500])
    status = find_status(text)
    if status == OOM:
        return Outcome(OOM, failure_class="oom/unknown", memory=_memory_in(text), message=find_sentence(text))
    if failure is not None and not status:  # the library's own assertion, whatever it says
        return _build_outcome(failure)
    return Outcome(status or FAIL, message=find_sentence(text))


def classify_skip(reason: str) -> Outcome:
    """Classify a skipped test: an exception in the reason is the failure that it hides; any other is a skip."""
    outcome = classify(reason)
    return outcome._replace(status=SKIPPED) if outcome.status == FAIL else outcome


def _failure(text: str) -> Failure | None:
    found = [failure for failure in find_failures(text, include_other=True) if not failure.is_warning]
    return next((failure for failure in found if failure.failure_class != "none"), found[0] if found else None)


def _build_outcome(failure: Failure) -> Outcome:
    known = find_failure_class(failure.failure_class)
    # A status such as 137 says that the process died, whatever is the likely reason.
    status = CRASH if "exit_code" in failure.numbers else known.status
    return Outcome(
        status,
        failure_class=known.name,
        memory=failure.memory or known.memory,
        message=failure.message,
        needed_bytes=failure.numbers.get("requested_bytes"),
        bytes_per_bank=failure.numbers.get("bytes_per_bank"),
    )


def _memory_in(text: str) -> str | None:
    match = _MEMORY.search(text)
    return match[1] if match else None


def find_sentence(text: str) -> str:
    """The line that says what happened: the last ``E   ...`` of a traceback, else the first line with words."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line[1:].strip() for line in lines if line.startswith("E ")]
    chosen = next((line for line in marked if not line.startswith(("+", "where"))), "") or (lines[0] if lines else "")
    return " ".join(chosen.split())[:500]
