# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem live --json`` says, once per sample."""

import msgspec

from ttmem.live import ChipCounters, Counters, UnreadableRegion
from ttmem.reports.kit.documents import Document

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


class LiveSample(Document, frozen=True, tag_field="schema", tag="ttmem.live/1"):
    """All chips at one moment, with the highest values since watching began."""

    taken_ns: int = msgspec.field(name="time_ns")
    scope: str
    devices: tuple[Device, ...]
    unreadable: tuple[UnreadableRegion, ...]
    folder: str
    """Where the regions were looked for."""
