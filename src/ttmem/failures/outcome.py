# SPDX-License-Identifier: Apache-2.0
"""The outcome of one case, from an engine or a log."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

PASS, OOM, CLASH, OVERFLOW, INVALID = "pass", "oom", "clash", "overflow", "invalid"
UNSUPPORTED, CRASH, TIMEOUT, ERROR = "unsupported", "crash", "timeout", "error"
STATUSES = (PASS, OOM, CLASH, OVERFLOW, INVALID, UNSUPPORTED, CRASH, TIMEOUT, ERROR)
"""The words of the contract. ``failures/knowledge`` assigns one to each class of failures."""
FAIL, SKIPPED = "fail", "skipped"
"""Tests of other tools know two more: a wrong result, and not run for a reason that is not memory."""
MEMORY_STATUSES = (OOM, CLASH, OVERFLOW)
"""Failures that less memory would have prevented."""

NOT_JUDGED = "not judged: "
"""How the message of an outcome begins that says neither pass nor failure: its status is ``unsupported``."""

REAL = "real"
"""How far an outcome can be trusted: the twin's own three words, or the real library said it."""
_NOTHING: Mapping[str, int] = MappingProxyType({})


class Outcome(NamedTuple):
    """The outcome of one case; ``status`` is that of the first step that failed. Byte figures are of one chip."""

    status: str
    failure_class: str = ""
    """A class of ``explain``, empty when nothing failed."""
    memory: str | None = None
    """Where it failed, which need not be where the case's tensors are: a reshape in L1 keeps a table in DRAM."""
    message: str = ""
    needed_bytes: int | None = None
    """The allocation that failed, as the library names it; None when none did."""
    bytes_per_bank: int | None = None
    """What each bank needed for that allocation."""
    peak_bytes_per_bank: Mapping[str, int] = _NOTHING
    """By memory, moments inside operations included; empty when the process did not live to say it."""
    l1_parts: Mapping[str, int] = _NOTHING
    """Bytes per core at the worst moment: tensors, circular_buffers, dataflow_buffers, scratchpads."""
    l1_problem: str = ""
    """Why ``l1_parts`` may be short of something, empty when it is not."""
    seconds: float | None = None
    """None: not measured."""
    confidence: str = REAL
    doubt: str = ""
    """Why the confidence is not better."""
    answers: tuple[Mapping[str, Any], ...] = ()
    """One per step that was answered."""

    @property
    def ok(self) -> bool:
        return self.status == PASS

    def keep_memory(self, memory: str) -> Outcome:
        """Return the outcome as a sweep keeps it: the peak of the swept memory, and no answers of steps."""
        peak = self.peak_bytes_per_bank.get(memory)
        peaks = {} if peak is None else {memory: peak}
        return self._replace(peak_bytes_per_bank=peaks, l1_parts=_NOTHING, l1_problem="", answers=())

    @property
    def is_judged(self) -> bool:
        """True when it reports pass or failure at all."""
        return self.status != UNSUPPORTED or not self.message.startswith(NOT_JUDGED)

    @property
    def is_failure(self) -> bool:
        return self.status not in (PASS, SKIPPED) and self.is_judged

    @property
    def is_memory_failure(self) -> bool:
        return self.status in MEMORY_STATUSES
