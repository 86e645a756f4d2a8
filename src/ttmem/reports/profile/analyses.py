# SPDX-License-Identifier: Apache-2.0
"""What the reports of one profile share: every analysis, worked out once and only when a report wants it."""

from functools import cached_property

from ttmem.analysis.consumers import alive_at_peak
from ttmem.analysis.distribution import distribution
from ttmem.analysis.failure import failure, failures, run_end
from ttmem.analysis.failure_diagnosis import diagnose_failure
from ttmem.analysis.findings import findings
from ttmem.analysis.fragmentation import fragmentation
from ttmem.analysis.growth import growth
from ttmem.analysis.load_phase import load_phase
from ttmem.analysis.padding import padding_at_peak
from ttmem.analysis.peaks import peaks
from ttmem.analysis.programs_l1 import programs_peak
from ttmem.analysis.runs import counted_runs, runs
from ttmem.analysis.weights import weights
from ttmem.profile import SUITE_KIND, Profile


class Analyses:
    """What the questions say about one profile. Nothing here depends on the profile's name."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self.pages: dict[tuple[str, bool, bool], str] = {}
        """Pages rendered so far, by the profile's name and size: the store and ``--html`` want the same one."""

    def are_about(self, profile: Profile) -> bool:
        """Whether this is the same history, whatever it is called."""
        parts = ("timelines", "forms", "arguments")
        same = all(getattr(self._profile, part) is getattr(profile, part) for part in parts)
        return same and self._profile.source == profile.source

    peaks = cached_property(lambda self: peaks(self._profile))
    programs_peak = cached_property(lambda self: programs_peak(self._profile))
    """The fullest L1 with the programs' own buffers, where a capture knows them."""
    dram = cached_property(lambda self: alive_at_peak(self._profile, "DRAM"))
    """What was alive at the DRAM peak."""
    l1 = cached_property(lambda self: alive_at_peak(self._profile, "L1"))
    padding = cached_property(lambda self: padding_at_peak(self._profile, self.dram))
    weights = cached_property(lambda self: weights(self._profile))
    distribution = cached_property(lambda self: distribution(self._profile))
    fragmentation = cached_property(lambda self: fragmentation(self._profile))
    findings = cached_property(lambda self: findings(self._profile))
    """Leaks and waste, where a capture knows its buffers."""
    growth = cached_property(lambda self: growth(self._profile))
    load_phase = cached_property(lambda self: load_phase(self._profile))
    runs = cached_property(lambda self: runs(self._profile))
    is_suite = property(lambda self: self._profile.source.kind == SUITE_KIND)
    counted_runs = cached_property(lambda self: counted_runs(self._profile))
    failure = cached_property(lambda self: failure(self._profile))
    end = cached_property(lambda self: run_end(self._profile))
    failures = cached_property(lambda self: failures(self._profile))
    diagnosis = cached_property(lambda self: diagnose_failure(self._profile, self.failure) if self.failure else None)
    """Why the run failed and what to change, with what was alive."""


_latest: list[Analyses] = []
"""The profile reported on last: one source is rendered in several formats, one after the other."""


def analyses(profile: Profile) -> Analyses:
    """The analyses of a profile; a renamed copy shares them, a narrowed one has its own."""
    for known in _latest:
        if known.are_about(profile):
            return known
    _latest[:] = [Analyses(profile)]
    return _latest[0]
