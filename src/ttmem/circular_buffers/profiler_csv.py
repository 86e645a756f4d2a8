# SPDX-License-Identifier: Apache-2.0
"""The device profiler's table of operations: how long compute really waited on circular buffers."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ttmem._errors import BadInputError

WAIT_FRONT = "DEVICE COMPUTE CB WAIT FRONT [ns]"
RESERVE_BACK = "DEVICE COMPUTE CB RESERVE BACK [ns]"
DURATION = "DEVICE KERNEL DURATION [ns]"
CORE_COUNT = "CORE COUNT"
_NAMES = ("OP CODE", "OP NAME", "OP TYPE")
_MOST_FIELD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class MeasuredStall:
    """One row: an operation that ran on a card."""

    name: str
    line: int
    duration_ns: float
    wait_front_ns: float
    reserve_back_ns: float
    cores: int | None

    @property
    def stall_percent(self) -> float | None:
        """Waiting of the kernel's time; None where the sums exceed the time (they then add up several cores)."""
        waited = self.wait_front_ns + self.reserve_back_ns
        if self.duration_ns <= 0 or waited > self.duration_ns:
            return None
        return 100 * waited / self.duration_ns


@dataclass(frozen=True, slots=True)
class ProfilerFacts:
    """A table of operations; rows without figures of their own are counted, not guessed."""

    rows: int
    has_columns: bool
    """False: the profiler ran without ``TT_METAL_PROFILER_SUM=1``, so it did not measure the waits."""
    measured: tuple[MeasuredStall, ...]

    @property
    def stall_percent(self) -> float | None:
        """Over all operations that tell, weighted by time."""
        known = [row for row in self.measured if row.stall_percent is not None]
        total = sum(row.duration_ns for row in known)
        return 100 * sum(row.wait_front_ns + row.reserve_back_ns for row in known) / total if total else None


def is_profiler_header(line: str) -> bool:
    """Whether a line is the head of the profiler's table of operations."""
    return DURATION in line or WAIT_FRONT in line or RESERVE_BACK in line


def read_profiler_csv(lines: Iterable[str], where: str = "") -> ProfilerFacts:
    """The rows that measured a wait."""
    csv.field_size_limit(_MOST_FIELD_BYTES)
    rows = csv.DictReader(lines)
    try:
        heads = rows.fieldnames or ()
        has_columns = WAIT_FRONT in heads or RESERVE_BACK in heads
        counted, found = 0, []
        for row in rows:
            counted += 1
            if has_columns and (stall := _measured(row, rows.line_num)) is not None:
                found.append(stall)
    except csv.Error as error:
        raise BadInputError(f"is not a table: {error}", where=f"{where}:{rows.line_num}") from error
    return ProfilerFacts(counted, has_columns, tuple(found))


def _measured(row: Mapping[str, str | None], line: int) -> MeasuredStall | None:
    duration = _number(row.get(DURATION))
    front, back = _number(row.get(WAIT_FRONT)), _number(row.get(RESERVE_BACK))
    if duration is None or (front is None and back is None):
        return None
    cores = _number(row.get(CORE_COUNT))
    name = next((text for key in _NAMES if (text := row.get(key))), "")
    return MeasuredStall(name, line, duration, front or 0.0, back or 0.0, int(cores) if cores else None)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def header_first(lines: Iterator[str]) -> Iterator[str]:
    """The lines from the head of the table on."""
    for line in lines:
        if is_profiler_header(line):
            yield line
            yield from lines
