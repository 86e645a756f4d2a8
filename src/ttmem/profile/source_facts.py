# SPDX-License-Identifier: Apache-2.0
"""Facts about circular buffers from logs, the device profiler's table of operations and the watcher's log."""

from collections.abc import Mapping
from dataclasses import dataclass, field

BUFFER, PROGRAM_BUFFERS, STREAMING, WORKLOAD, VERIFICATION = "buffer", "tiles", "streaming", "workload", "verification"
DEPTH_REDUCED, L1_MAP, KERNEL, L1_USAGE, INDEX_GAP = "depth-reduced", "l1-map", "kernel-size", "l1-usage", "index-gap"
CONFIG, DIRTY, EVENT = "config-words", "dirty", "event"


@dataclass(frozen=True, slots=True)
class Fact:
    """A line's fact; figures are integers."""

    kind: str
    line: int
    values: Mapping[str, int | str]


@dataclass(slots=True)
class EventCounts:
    """Events of one buffer that a kernel prints."""

    pages: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("reserve", "push", "wait", "pop"), 0))
    held: int = 0
    highest_held: int = 0
    first_cycle: int | None = None
    last_cycle: int = 0

    @property
    def left_pages(self) -> int:
        """Pages pushed and never popped: 0 in a kernel that leaves its buffers as it found them."""
        return self.pages["push"] - self.pages["pop"]


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The facts of a log about circular buffers."""

    lines: int
    logger_lines: int
    debug_lines: int
    """Without any, the binary was built without logging or the level was not set: nothing can be concluded."""
    facts: Mapping[str, tuple[Fact, ...]]
    counts: Mapping[str, int]
    """Lines of each kind; ``facts`` keeps the first 1000."""
    events: Mapping[int, EventCounts]

    def get_facts(self, kind: str) -> tuple[Fact, ...]:
        return self.facts.get(kind, ())


@dataclass(frozen=True, slots=True)
class MeasuredStall:
    """The waits of an operation on a card."""

    name: str
    line: int
    duration_ns: float
    wait_front_ns: float
    reserve_back_ns: float
    cores: int | None

    @property
    def stall_percent(self) -> float | None:
        """Share of the kernel's time spent waiting; None where the sums exceed the time (they then add up several
        cores)."""
        waited = self.wait_front_ns + self.reserve_back_ns
        if self.duration_ns <= 0 or waited > self.duration_ns:
            return None
        return 100 * waited / self.duration_ns


@dataclass(frozen=True, slots=True)
class ProfilerFacts:
    """A table of operations; rows without figures are counted, not guessed."""

    rows: int
    has_columns: bool
    """False: the profiler ran without ``TT_METAL_PROFILER_SUM=1``, so it did not measure the waits."""
    measured: tuple[MeasuredStall, ...]

    @property
    def stall_percent(self) -> float | None:
        """Share over all operations with figures, weighted by time."""
        known = [row for row in self.measured if row.stall_percent is not None]
        total = sum(row.duration_ns for row in known)
        return 100 * sum(row.wait_front_ns + row.reserve_back_ns for row in known) / total if total else None


PROCESSORS = ("BRISC", "NCRISC", "TRISC0", "TRISC1", "TRISC2")
WAITS_FOR_DATA, WAITS_FOR_ROOM = "waits for data (cb_wait_front)", "waits for room (cb_reserve_back)"

_STUCK = {"CWFW": WAITS_FOR_DATA, "CRBW": WAITS_FOR_ROOM}


@dataclass(frozen=True, slots=True)
class HeldBuffer:
    """A buffer with pages that were pushed and never popped."""

    index: int
    pages: int


@dataclass(frozen=True, slots=True)
class CoreState:
    """A core at the last dump that shows it."""

    device: int
    x: int
    y: int
    waypoints: tuple[str, ...]
    kernel_ids: tuple[int, ...]
    held: tuple[HeldBuffer, ...]
    line: int

    @property
    def stuck(self) -> tuple[tuple[str, str], ...]:
        """Processors that last started a wait on a circular buffer, with that wait."""
        pairs = zip(PROCESSORS, self.waypoints, strict=False)
        return tuple((processor, _STUCK[point]) for processor, point in pairs if point in _STUCK)


@dataclass(frozen=True, slots=True)
class WatcherFacts:
    """The last state of each core, and the log's errors."""

    dumps: int
    cores: tuple[CoreState, ...]
    kernels: dict[int, str]
    overflow_lines: tuple[int, ...]

    @property
    def stuck_cores(self) -> tuple[CoreState, ...]:
        """Cores with a processor that waits on a circular buffer."""
        return tuple(core for core in self.cores if core.stuck)

    def describe_waits(self, core: CoreState) -> list[str]:
        """Describe the waits on a core in words."""
        names = [self.kernels.get(number, "") for number in core.kernel_ids]
        roles = dict(zip(("BRISC", "NCRISC", "TRISC0"), names, strict=False))
        lines = []
        for processor, wait in core.stuck:
            kernel = roles.get(processor if processor[:2] != "TR" else "TRISC0", "")
            lines.append(f"{processor}{f' ({kernel})' if kernel else ''} {wait}")
        lines += [
            f"cb{buffer.index} holds {buffer.pages} page{'s' if buffer.pages != 1 else ''} never taken"
            for buffer in core.held
        ]
        waits = [wait for _, wait in core.stuck]
        if WAITS_FOR_DATA in waits and WAITS_FOR_ROOM in waits:
            lines.append(
                "one side waits for data, another for room: compare pushed and popped pages, and depths (R1, R4, R5)"
            )
        elif WAITS_FOR_DATA in waits and not core.held:
            lines.append(
                "every buffer is empty and a processor waits for data: its producer stopped or pushed too little (R4)"
            )
        return lines
