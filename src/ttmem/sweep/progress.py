# SPDX-License-Identifier: Apache-2.0
"""How far a sweep is, and what it left: plain data for tables."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ttmem.results import Result


@dataclass(slots=True)
class Progress:
    """How far a sweep is; the numbers of a live table."""

    total: int
    done_before: int
    """Results that were in the journal already."""
    done_now: int = 0
    statuses: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Results of this run by (board, memory, status)."""
    largest_pass: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """By (op, board, memory): padded bytes of the largest inputs that passed."""
    started: float = field(default_factory=time.monotonic)

    @property
    def rate_per_second(self) -> float:
        elapsed = time.monotonic() - self.started
        return self.done_now / elapsed if elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """None before there is a rate. Sweeps go from small to large, so the end comes rather later than this."""
        left, rate = self.total - self.done_before - self.done_now, self.rate_per_second
        return left / rate if rate else None

    def count(self, result: Result) -> None:
        self.done_now += 1
        self.statuses[result.board, result.memory, result.status] += 1
        if result.outcome.ok and result.padded_bytes is not None:
            key = result.op, result.board, result.memory
            self.largest_pass[key] = max(self.largest_pass.get(key, 0), result.padded_bytes)


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run leaves."""

    folder: Path
    results: Path
    total: int
    asked: int
    resumed: int
    """Results that were there before."""
    seconds: float
