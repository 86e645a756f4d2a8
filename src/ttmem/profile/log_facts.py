# SPDX-License-Identifier: Apache-2.0
"""What lines of a log say about circular buffers: kinds of facts, the facts, and events that kernels print."""

from collections.abc import Mapping
from dataclasses import dataclass, field

BUFFER, PROGRAM_BUFFERS, STREAMING, WORKLOAD, VERIFICATION = "buffer", "tiles", "streaming", "workload", "verification"
DEPTH_REDUCED, L1_MAP, KERNEL, L1_USAGE, INDEX_GAP = "depth-reduced", "l1-map", "kernel-size", "l1-usage", "index-gap"
CONFIG, DIRTY, EVENT = "config-words", "dirty", "event"


@dataclass(frozen=True, slots=True)
class Fact:
    """One line and what it says; figures are integers, words stay words."""

    kind: str
    line: int
    values: Mapping[str, int | str]


@dataclass(slots=True)
class EventCounts:
    """What a kernel's own prints say of one buffer."""

    pages: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("reserve", "push", "wait", "pop"), 0))
    held: int = 0
    highest_held: int = 0
    first_cycle: int | None = None
    last_cycle: int = 0

    @property
    def left_pages(self) -> int:
        """Pushed and never popped: 0 in a kernel that leaves its buffers as it found them."""
        return self.pages["push"] - self.pages["pop"]


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Everything that a log says about circular buffers."""

    lines: int
    logger_lines: int
    debug_lines: int
    """Without any, the binary was built without logging or the level was not set: nothing can be concluded."""
    facts: Mapping[str, tuple[Fact, ...]]
    counts: Mapping[str, int]
    """All lines of a kind; ``facts`` keeps the first 1000."""
    events: Mapping[int, EventCounts]

    def of(self, kind: str) -> tuple[Fact, ...]:
        """The facts of a kind."""
        return self.facts.get(kind, ())
