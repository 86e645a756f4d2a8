# SPDX-License-Identifier: Apache-2.0
"""L1 use of tensors and programs together, for profiles that know both."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ttmem.analysis.peaks import operation_place
from ttmem.profile.model import L1_PARTS, Profile


@dataclass(frozen=True, slots=True)
class ProgramPeak:
    """The worst operation in L1. All figures are bytes per core; the parts sum to ``total_bytes_per_core``."""

    rank: int
    index: int
    name: str
    location: str
    parts: Mapping[str, int]
    """By who holds it: ``tensors``, ``circular_buffers``, ``dataflow_buffers``, ``scratchpads``."""
    unmeasured_operations: int
    """Operations whose program parts are not known: the true peak may be theirs."""

    @property
    def total_bytes_per_core(self) -> int:
        """Everything that one core holds at that moment, above what the library itself reserves."""
        return sum(self.parts.values())


def programs_peak(profile: Profile) -> ProgramPeak | None:
    """The fullest operation over all processes, the first one on a tie; None when no capture tells."""
    known = [(timeline, timeline.programs_l1) for timeline in profile.timelines if timeline.programs_l1 is not None]
    unmeasured = sum(int(np.count_nonzero((needs.tensors >= 0) & (needs.measured == 0))) for _, needs in known)
    worst: ProgramPeak | None = None
    for timeline, needs in known:
        totals = np.where(needs.tensors >= 0, np.sum([getattr(needs, part) for part in L1_PARTS], axis=0), -1)
        row = int(np.argmax(totals)) if len(totals) else -1
        parts = needs.parts(row) if row >= 0 else None
        if parts is None or (worst is not None and sum(parts.values()) <= worst.total_bytes_per_core):
            continue
        index = timeline.first_index + row
        worst = ProgramPeak(timeline.rank, index, *operation_place(profile, timeline, index), parts, unmeasured)
    return worst
