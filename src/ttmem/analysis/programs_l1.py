# SPDX-License-Identifier: Apache-2.0
"""How full L1 really got: tensors and the programs' own buffers together, for profiles that know both."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ttmem.analysis.peaks import operation_location, operation_name
from ttmem.profile import Profile


@dataclass(frozen=True, slots=True)
class ProgramPeak:
    """The worst operation in L1. All figures are bytes per core; the parts sum to ``total_bytes_per_core``."""

    rank: int
    index: int
    name: str
    location: str
    tensors: int
    circular_buffers: int
    dataflow_buffers: int
    scratchpads: int
    unmeasured_operations: int
    """Operations whose program parts are not known: the true peak may be theirs."""

    @property
    def total_bytes_per_core(self) -> int:
        """Everything that one core holds at that moment, above what the library itself reserves."""
        return self.tensors + self.circular_buffers + self.dataflow_buffers + self.scratchpads

    @property
    def parts(self) -> dict[str, int]:
        """By who holds it."""
        return {
            "tensors": self.tensors,
            "circular_buffers": self.circular_buffers,
            "dataflow_buffers": self.dataflow_buffers,
            "scratchpads": self.scratchpads,
        }


def programs_peak(profile: Profile) -> ProgramPeak | None:
    """The fullest operation over all processes, the first one on a tie; None when no capture tells."""
    worst: ProgramPeak | None = None
    unmeasured = 0
    for timeline in profile.timelines:
        needs = timeline.programs_l1
        if needs is None:
            continue
        known = needs.tensors >= 0
        unmeasured += int(np.count_nonzero(known & (needs.measured == 0)))
        if not known.any():
            continue
        columns = (needs.tensors, needs.circular_buffers, needs.dataflow_buffers, needs.scratchpads)
        totals = np.where(known, np.sum(columns, axis=0), -1)
        row = int(np.argmax(totals))
        if worst is not None and int(totals[row]) <= worst.total_bytes_per_core:
            continue
        index = timeline.first_index + row
        tensors, circular, dataflow, scratchpads = (int(column[row]) for column in columns)
        worst = ProgramPeak(
            rank=timeline.rank,
            index=index,
            name=operation_name(profile, timeline, index),
            location=operation_location(profile, timeline, index),
            tensors=tensors,
            circular_buffers=circular,
            dataflow_buffers=dataflow,
            scratchpads=scratchpads,
            unmeasured_operations=0,
        )
    return replace(worst, unmeasured_operations=unmeasured) if worst else None
