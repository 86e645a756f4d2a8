# SPDX-License-Identifier: Apache-2.0
"""What the reports of one profile share: every analysis, worked out once and only when a report wants it."""

from __future__ import annotations

from functools import cached_property

from ttmem.analysis.consumers import LiveSet, alive_at_peak
from ttmem.analysis.distribution import Distribution, distribution
from ttmem.analysis.failure import RunFailure, failure, failures
from ttmem.analysis.failure_diagnosis import diagnose_failure
from ttmem.analysis.fragmentation import Fragmentation, fragmentation
from ttmem.analysis.growth import Growth, growth
from ttmem.analysis.load_phase import LoadPhase, load_phase
from ttmem.analysis.padding import Padding, padding_at_peak
from ttmem.analysis.peaks import Peak, peaks
from ttmem.analysis.programs_l1 import ProgramPeak, programs_peak
from ttmem.analysis.runs import Run, counted_runs, runs
from ttmem.analysis.weights import Weights, weights
from ttmem.explain import Diagnosis
from ttmem.profile import Profile


class Analyses:
    """What the questions say about one profile. Nothing here depends on the profile's name."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def are_about(self, profile: Profile) -> bool:
        """Whether this is the same history, whatever it is called."""
        known = self._profile
        return (
            known.timelines is profile.timelines
            and known.forms is profile.forms
            and known.arguments is profile.arguments
            and known.source == profile.source
        )

    @cached_property
    def peaks(self) -> dict[str, Peak]:
        return peaks(self._profile)

    @cached_property
    def programs_peak(self) -> ProgramPeak | None:
        """The fullest L1 with the programs' own buffers, where a capture knows them."""
        return programs_peak(self._profile)

    @cached_property
    def dram(self) -> LiveSet | None:
        """What was alive at the DRAM peak."""
        return alive_at_peak(self._profile, "DRAM")

    @cached_property
    def l1(self) -> LiveSet | None:
        """What was alive at the L1 peak."""
        return alive_at_peak(self._profile, "L1")

    @cached_property
    def padding(self) -> Padding:
        return padding_at_peak(self._profile, self.dram)

    @cached_property
    def weights(self) -> Weights:
        return weights(self._profile)

    @cached_property
    def distribution(self) -> Distribution:
        return distribution(self._profile)

    @cached_property
    def fragmentation(self) -> dict[str, Fragmentation]:
        return fragmentation(self._profile)

    @cached_property
    def growth(self) -> dict[str, Growth]:
        return growth(self._profile)

    @cached_property
    def load_phase(self) -> LoadPhase | None:
        return load_phase(self._profile)

    @cached_property
    def failure(self) -> RunFailure | None:
        return failure(self._profile)

    @cached_property
    def diagnosis(self) -> Diagnosis | None:
        """Why the run failed and what to change, with what was alive."""
        return None if self.failure is None else diagnose_failure(self._profile, self.failure)

    @cached_property
    def failures(self) -> list[RunFailure]:
        return failures(self._profile)

    @cached_property
    def runs(self) -> list[Run]:
        return runs(self._profile)

    @cached_property
    def counted_runs(self) -> int:
        return counted_runs(self._profile)


_latest: list[Analyses] = []
"""The profile reported on last: one source is rendered in several formats, one after the other."""


def analyses(profile: Profile) -> Analyses:
    """The analyses of a profile; a renamed copy shares them, a narrowed one has its own."""
    for known in _latest:
        if known.are_about(profile):
            return known
    _latest[:] = [Analyses(profile)]
    return _latest[0]
