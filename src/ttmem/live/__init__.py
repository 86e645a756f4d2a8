# SPDX-License-Identifier: Apache-2.0
"""Memory counters of running processes, read from shared memory: no ttnn, no card access, standard library alone.

``sample()`` is the whole library form of ``ttmem live --once``.
"""

from ttmem.live.counters import ChipCounters, Counters, DeviceCounters, UnreadableRegion
from ttmem.live.sampling import PeakHold, Sample, sample

__all__ = ["ChipCounters", "Counters", "DeviceCounters", "PeakHold", "Sample", "UnreadableRegion", "sample"]
