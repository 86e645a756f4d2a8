# SPDX-License-Identifier: Apache-2.0
"""A sample as one JSON object, ``ttmem.live/1``: keys may be added, never renamed or removed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ttmem.live.counters import DeviceCounters
from ttmem.live.sampling import PeakHold, Sample

SCHEMA = "ttmem.live/1"
SCOPE = "bytes as requested, all banks and cores of one chip; without bank padding and dataflow buffers"


def document(seen: Sample, peaks: PeakHold) -> dict[str, Any]:
    """What was read, with the highest values so far beside it."""
    return {
        "schema": SCHEMA,
        "time_ns": seen.taken_ns,
        "scope": SCOPE,
        "devices": [_device(device, peaks) for device in seen.devices],
        "unreadable": [asdict(region) for region in seen.unreadable],
    }


def _device(device: DeviceCounters, peaks: PeakHold) -> dict[str, Any]:
    chip = device.chip_unique_id
    return {
        "device": device.device,
        "chip_unique_id": str(chip),  # 64 bits: a number of JSON would lose digits in a browser
        "layout_version": device.version,
        "attached_processes": device.attached_processes,
        "updated_ns": device.updated_ns,
        "torn": device.torn,
        "total": asdict(device.total),
        "peak": asdict(peaks.of_chip(chip)),
        "abandoned": asdict(device.abandoned),
        "chips": [asdict(entry) for entry in device.chips],
        "processes": [
            {**asdict(process), "peak": asdict(peaks.of_process(chip, process.pid))} for process in device.processes
        ],
    }
