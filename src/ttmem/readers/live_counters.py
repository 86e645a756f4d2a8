# SPDX-License-Identifier: Apache-2.0
"""One shared-memory region, decoded: what tt-metal publishes about one chip.

The layout is tt-metal's ``DeviceMemoryRegion``. Versions 2 and 3 place every field alike (3 made three more of them
atomic), so one decoder serves both; any other version is refused, because a guessed offset is a wrong number.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from functools import reduce
from operator import add

KNOWN_VERSIONS = (2, 3)

_HEADER = struct.Struct("<IIQI4xQQI4x")
"""Version, processes in the table, last update in ns, processes attached, board serial (reserved), chip id, device."""
_AMOUNTS = struct.Struct("<5Q")
_CHIP = struct.Struct("<II5Q")
_PROCESS = struct.Struct("<i4x5QQ64s")
_CHIPS, _PROCESSES = 16, 64
_UNUSED_CHIP = 0xFFFFFFFF
_CHIPS_AT = _HEADER.size + _AMOUNTS.size
_PROCESSES_AT = _CHIPS_AT + _CHIPS * _CHIP.size
_PROCESSES_END = _PROCESSES_AT + _PROCESSES * _PROCESS.size
REGION_BYTES = 8576
"""All fields, rounded up to the structure's alignment of 64."""


class UnknownLayoutError(Exception):
    """The region cannot be decoded; the text says why."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Bytes in each memory of one chip, all banks and cores together.

    They are what was asked for: bank padding is not in them, so the allocator holds a little more. Circular buffers
    count once per core and stay counted while their program is cached; dataflow buffers are not counted at all
    (ttnn 0.81).
    """

    dram_bytes: int = 0
    l1_bytes: int = 0
    l1_small_bytes: int = 0
    trace_bytes: int = 0
    circular_buffer_bytes: int = 0

    def maximum(self, other: Counters) -> Counters:
        """The higher of each."""
        return Counters(*map(max, astuple(self), astuple(other)))

    def plus(self, other: Counters) -> Counters:
        return Counters(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class ProcessCounters:
    """What one process holds on the chip."""

    pid: int
    name: str
    """As the kernel called it when it first allocated (15 letters at most)."""
    running: bool
    """Whether this machine (or container) has such a process now. A killed process leaves its row behind."""
    held: Counters
    updated_ns: int
    mock: bool = False
    """Whether it runs on a mock cluster: it holds no memory of a card."""


@dataclass(frozen=True, slots=True)
class ChipCounters:
    """What lies on one chip behind this device: the gateway itself, or one that is reached through it."""

    chip: int
    remote: bool
    held: Counters


@dataclass(frozen=True, slots=True)
class DeviceCounters:
    """One region: a chip, its totals and who holds them."""

    path: str
    version: int
    chip_unique_id: int
    device: int
    """Logical number in the process that attached last."""
    attached_processes: int
    updated_ns: int
    total: Counters
    chips: tuple[ChipCounters, ...]
    processes: tuple[ProcessCounters, ...]
    torn: bool = False
    """It changed during every attempt to read it: the parts may be from different instants."""

    @property
    def abandoned(self) -> Counters:
        """What processes hold that do not run any more (killed before they could give it back)."""
        left = (process.held for process in self.processes if not process.running)
        return reduce(Counters.plus, left, Counters())


@dataclass(frozen=True, slots=True)
class UnreadableRegion:
    """A region that is there but cannot be read, and why."""

    path: str
    problem: str


def decode(raw: bytes, *, path: str, exists: Callable[[int], bool]) -> DeviceCounters:
    """The counters in a region's bytes; ``exists`` says whether there is such a process."""
    version = int.from_bytes(raw[:4], "little") if len(raw) >= 4 else 0
    if not version:
        raise UnknownLayoutError("it is being created")
    if version not in KNOWN_VERSIONS:
        known = " and ".join(map(str, KNOWN_VERSIONS))
        raise UnknownLayoutError(f"its layout is version {version}; this ttmem knows versions {known}")
    if len(raw) < _PROCESSES_END:
        raise UnknownLayoutError(f"it has {len(raw)} bytes; layout version {version} has {REGION_BYTES}")
    _, _, updated_ns, attached, _, unique_id, device = _HEADER.unpack_from(raw)
    return DeviceCounters(
        path=path,
        version=version,
        chip_unique_id=unique_id,
        device=device,
        attached_processes=attached,
        updated_ns=updated_ns,
        total=Counters(*_AMOUNTS.unpack_from(raw, _HEADER.size)),
        chips=tuple(_chips(raw)),
        processes=tuple(_processes(raw, exists)),
    )


def _chips(raw: bytes) -> Iterator[ChipCounters]:
    for chip, remote, *held in _CHIP.iter_unpack(raw[_CHIPS_AT:_PROCESSES_AT]):
        if chip != _UNUSED_CHIP:
            yield ChipCounters(chip, bool(remote), Counters(*held))


def _processes(raw: bytes, exists: Callable[[int], bool]) -> Iterator[ProcessCounters]:
    for pid, *held, updated_ns, name in _PROCESS.iter_unpack(raw[_PROCESSES_AT:_PROCESSES_END]):
        if pid > 0:
            text = name.split(b"\0", 1)[0].decode("utf-8", "replace")
            yield ProcessCounters(pid, text, exists(pid), Counters(*held), updated_ns)
