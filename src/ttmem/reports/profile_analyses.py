# SPDX-License-Identifier: Apache-2.0
"""The analyses that all reports of one profile share, each computed once and only when a report needs it."""

from functools import cached_property

from ttmem.analysis.consumers import LiveSet, alive_at_peak
from ttmem.analysis.distribution import distribution
from ttmem.analysis.failure import RunFailure, diagnose_failure, failure, failures, run_end
from ttmem.analysis.findings import findings
from ttmem.analysis.fragmentation import fragmentation
from ttmem.analysis.growth import growth
from ttmem.analysis.load_phase import load_phase
from ttmem.analysis.padding import padding_at_peak
from ttmem.analysis.peaks import Peak, peaks
from ttmem.analysis.programs_l1 import programs_peak
from ttmem.analysis.weights import weights
from ttmem.failures.diagnosis.diagnose import Diagnosis
from ttmem.profile.model import SUITE_KIND, Profile
from ttmem.profile.runs import count_runs, find_runs

_MOST_REPLAYED = 100_000
"""Operations of a log's run that are replayed once more for a memory other than DRAM."""


_KEPT = "_analyses"
"""Name under which a profile keeps them."""


class Analyses:
    """The analyses of one profile; none depends on the profile's name."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self.pages: dict[tuple[str, bool, bool], str] = {}
        """Rendered pages by the profile's name and size: the store and ``--html`` need the same one."""

    @cached_property
    def live(self) -> dict[str, LiveSet]:
        """The tensors alive at the peak of each memory, the fullest memory first.

        A run of very many operations in a log is replayed for DRAM alone.
        """
        found: dict[str, LiveSet | None] = {}
        for memory in self.memories_by_share:
            peak = self.peaks[memory]
            if memory != "DRAM" and not peak.peak_bytes_per_bank:
                found[memory] = LiveSet(memory, 0, (), 0, peak)
            elif memory == "DRAM" or self._is_cheap(peak):
                found[memory] = alive_at_peak(self._profile, memory)
        return {memory: live for memory, live in found.items() if live is not None}

    @cached_property
    def memories_by_share(self) -> list[str]:
        """The memories in the profile, the fullest first; L1 includes the programs' own buffers where known."""
        return sorted(self.peaks, key=lambda memory: -(self.share(memory) or 0.0))

    def share(self, memory: str) -> float | None:
        """Return the peak of a memory in percent of a bank; L1 with the programs' own buffers where they are known."""
        peak, programs = self.peaks[memory], self.programs_peak
        if memory != "L1" or programs is None or not peak.bytes_per_bank:
            return peak.peak_percent
        return max(peak.peak_percent or 0.0, 100 * programs.total_bytes_per_core / peak.bytes_per_bank)

    def _is_cheap(self, peak: Peak) -> bool:
        timeline = self._profile.timelines[peak.timeline]
        return timeline.buffers is not None or all(
            run.end_index - run.first_index <= _MOST_REPLAYED
            for run in self.runs
            if run.timeline == peak.timeline and run.first_state <= peak.state < run.end_state
        )

    peaks = cached_property(lambda self: peaks(self._profile))
    programs_peak = cached_property(lambda self: programs_peak(self._profile))
    """The fullest L1 with the programs' own buffers, where a capture knows them."""
    padding = cached_property(lambda self: padding_at_peak(self._profile, self.live.get("DRAM")))
    weights = cached_property(lambda self: weights(self._profile))
    distribution = cached_property(lambda self: distribution(self._profile))
    fragmentation = cached_property(lambda self: fragmentation(self._profile))
    findings = cached_property(lambda self: findings(self._profile))
    """Leaks and waste, where a capture knows its buffers."""
    growth = cached_property(lambda self: growth(self._profile))
    load_phase = cached_property(lambda self: load_phase(self._profile))
    runs = cached_property(lambda self: find_runs(self._profile))
    is_suite = property(lambda self: self._profile.source.kind == SUITE_KIND)
    counted_runs = cached_property(lambda self: count_runs(self._profile))
    failure = cached_property(lambda self: failure(self._profile))
    end = cached_property(lambda self: run_end(self._profile))
    failures = cached_property(lambda self: failures(self._profile))

    @cached_property
    def diagnosis(self) -> Diagnosis | None:
        """The cause of the failure, the remedies and the live tensors; None for an error of no known class."""
        if self.failure is None or self.failure.failure_class == "none":
            return None
        return diagnose_failure(self._profile, self.failure)

    @property
    def fits(self) -> bool:
        """True when the memory sufficed for all that ran; a suite continues after a test that did not fit."""
        if self.is_suite:
            return not self.memory_failures
        return self.failure is None or self.failure.survived or not self.failure.is_for_memory

    @cached_property
    def memory_failures(self) -> list[RunFailure]:
        """The failures for lack of memory, including those that the program caught."""
        return [item for item in self.failures if item.is_for_memory and not item.is_warning]


def analyze(profile: Profile) -> Analyses:
    """Return the analyses of a profile, which keeps them for its other reports."""
    kept = vars(profile)
    if _KEPT not in kept:
        kept[_KEPT] = Analyses(profile)
    analyses: Analyses = kept[_KEPT]
    return analyses
