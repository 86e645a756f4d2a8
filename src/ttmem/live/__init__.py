# SPDX-License-Identifier: Apache-2.0
"""Memory counters of running processes, read from shared memory: no ttnn, no card access, standard library alone.

``sample()`` is the whole library form of ``ttmem live --once``.
"""

from __future__ import annotations

from ttmem.live.counters import ChipCounters, Counters, DeviceCounters, ProcessCounters, UnreadableRegion
from ttmem.live.sampling import PeakHold, Sample, sample, shared_memory_folder

__all__ = [
    "ChipCounters",
    "Counters",
    "DeviceCounters",
    "PeakHold",
    "ProcessCounters",
    "Sample",
    "UnreadableRegion",
    "sample",
    "shared_memory_folder",
]
