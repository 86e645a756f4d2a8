# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem live --json`` says, once per sample."""

from collections.abc import Sequence
from dataclasses import astuple

import msgspec

from ttmem.readers.live_counters import ChipCounters, Counters, UnreadableRegion
from ttmem.reports.kit.documents import Document
from ttmem.reports.kit.units import counted

SCOPE = "bytes as requested, all banks and cores of one chip; without bank padding and dataflow buffers"


class Process(Document, frozen=True):
    """What one process holds on the chip."""

    pid: int
    name: str
    running: bool
    """A killed process leaves its counters behind."""
    held: Counters
    updated_ns: int
    peak: Counters
    """The highest values since watching began."""
    mock: bool
    """It runs on a mock cluster and holds no memory of a card."""


class Device(Document, frozen=True):
    """One chip that a process has opened."""

    device: int
    """Logical number in the process that attached last."""
    chip_unique_id: str
    """A number of 64 bits, as text: a number of JSON would lose digits in a browser."""
    version: int = msgspec.field(name="layout_version")
    attached_processes: int
    updated_ns: int
    torn: bool
    """It changed while it was read: the parts may be from different instants."""
    total: Counters
    peak: Counters
    abandoned: Counters
    """What processes hold that do not run any more."""
    chips: tuple[ChipCounters, ...]
    processes: tuple[Process, ...]

    @property
    def is_mock(self) -> bool:
        """Whether all processes on it run on a mock cluster."""
        return bool(self.processes) and all(process.mock for process in self.processes)

    @property
    def holds_anything(self) -> bool:
        """Now, or at any moment since watching began."""
        return any((*astuple(self.total), *astuple(self.peak), *(any(astuple(one.held)) for one in self.processes)))


def empty_text(devices: Sequence[Device]) -> str:
    """``12 devices hold nothing``; empty where each holds something."""
    empty = sum(not device.holds_anything for device in devices)
    return f"{counted(empty, 'device')} {'holds' if empty == 1 else 'hold'} nothing" if empty else ""


class LiveSample(Document, frozen=True, tag_field="schema", tag="ttmem.live/1"):
    """All chips at one moment, with the highest values since watching began."""

    taken_ns: int = msgspec.field(name="time_ns")
    scope: str
    devices: tuple[Device, ...]
    unreadable: tuple[UnreadableRegion, ...]
    folder: str
    """Where the regions were looked for."""
