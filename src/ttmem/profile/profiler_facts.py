# SPDX-License-Identifier: Apache-2.0
"""What the device profiler's table of operations measured: how long compute really waited on circular buffers."""

from dataclasses import dataclass


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
