# SPDX-License-Identifier: Apache-2.0
"""Figures of a run: peaks, whether it fits, what limits it; goals for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ttmem.analysis.failure import run_end
from ttmem.profile.model import MEMORIES
from ttmem.tuning.edited_run import EditedRun
from ttmem.tuning.replay import ReplayResult, Shortfall, replay

DRAM, L1 = "DRAM", "L1"


@dataclass(frozen=True, slots=True)
class FullestOperation:
    """The operation at which a memory is fullest."""

    memory: str
    operation: int
    name: str
    location: str
    bytes_per_bank: int
    """L1 includes what programs need."""
    bank_bytes: int

    @property
    def percent(self) -> float:
        return round(100 * self.bytes_per_bank / self.bank_bytes, 4) if self.bank_bytes else 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a captured or edited run."""

    fits: bool
    """Everything fitted, as far as the run is known."""
    dram_peak_bytes_per_bank: int
    l1_peak_bytes_per_bank: int
    l1_peak_with_programs_bytes_per_core: int
    limits: tuple[FullestOperation, ...]
    """DRAM and L1, the fuller one first."""
    shortfall: Shortfall | None
    ended: str = ""
    """How the run ended, if not for memory: the rest is unknown."""

    def peak(self, memory: str) -> int:
        """Return the peak to compare with a limit; L1 includes what programs need."""
        return self.dram_peak_bytes_per_bank if memory == DRAM else self.l1_peak_with_programs_bytes_per_core


def compute_figures(draft: EditedRun, played: ReplayResult | None = None) -> Figures:
    """Compute the figures of a run, replayed to its end or to the first failure."""
    played = played or replay(draft)
    run = draft.history
    is_out_of_reach = run.is_short and run.unfinished is None  # the failed request is not among the events
    end = None if run.is_short else run_end(run.profile)
    dram, l1 = MEMORIES.index(DRAM), MEMORIES.index(L1)
    limits = [
        _find_fullest(draft, DRAM, played.peak_at[dram], played.peaks[dram]),
        _find_fullest(draft, L1, played.programs_peak_at, played.programs_peak),
    ]
    limits.sort(key=lambda limit: -limit.percent)
    return Figures(
        played.fits and not is_out_of_reach,
        played.peaks[dram],
        played.peaks[l1],
        played.programs_peak,
        tuple(limits),
        played.shortfall,
        end.sentence if end is not None else "",
    )


def _find_fullest(draft: EditedRun, memory: str, operation: int, size: int) -> FullestOperation:
    operations = draft.history.operations
    known = operations[operation] if 0 <= operation < len(operations) else None
    bank = draft.pools[MEMORIES.index(memory)][2]
    return FullestOperation(memory, operation, known.name if known else "", known.location if known else "", size, bank)


@dataclass(frozen=True, slots=True)
class Goal:
    """The target of a search; without one, the peaks are lowered as far as possible."""

    fits: bool = False
    limits: Mapping[str, int] | None = None
    """Highest peak per memory (DRAM, L1), bytes per bank."""

    @property
    def is_open(self) -> bool:
        """True without a target: find the edits that lower the peaks most."""
        return not self.fits and not self.limits


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """The peaks after a number of edits."""

    edits: int
    dram_peak_bytes_per_bank: int
    l1_peak_with_programs_bytes_per_core: int
    fits: bool


def is_reached(goal: Goal, *, fits: bool, peaks: Mapping[str, int]) -> bool:
    """Return whether a goal is reached; a run that failed has no final peak."""
    if not goal.is_open and not fits:
        return False
    return all(peaks[memory] <= limit for memory, limit in (goal.limits or {}).items())


def build_frontier_point(count: int, found: Figures) -> FrontierPoint:
    return FrontierPoint(count, found.dram_peak_bytes_per_bank, found.l1_peak_with_programs_bytes_per_core, found.fits)
