# SPDX-License-Identifier: Apache-2.0
"""What running processes hold on the cards, sample by sample."""

import time
from collections.abc import Iterator
from itertools import count

from ttmem.readers.live_sampling import PeakHold, Sample, sample
from ttmem.reports.live.document import SCOPE, Device, LiveSample, Process


def watch(samples: int | None = None, *, interval_seconds: float = 1.0) -> Iterator[LiveSample]:
    """So many samples (None: without an end) of every chip that a process on this machine has opened."""
    peaks = PeakHold()
    due = time.monotonic()
    for taken in count(1):
        seen = sample()
        peaks.add(seen)
        yield _document(seen, peaks)
        if taken == samples:
            return
        due = max(due + interval_seconds, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def _document(seen: Sample, peaks: PeakHold) -> LiveSample:
    devices = [
        Device.of(
            device,
            chip_unique_id=str(device.chip_unique_id),
            peak=peaks.of_chip(device.chip_unique_id),
            processes=[
                Process.of(process, peak=peaks.of_process(device.chip_unique_id, process.pid))
                for process in device.processes
            ],
        )
        for device in seen.devices
    ]
    return LiveSample.of(seen, scope=SCOPE, devices=devices)
