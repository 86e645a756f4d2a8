# SPDX-License-Identifier: Apache-2.0
"""Counters that tt-metal publishes about each chip in shared memory, decoded and sampled.

The layout is tt-metal's ``DeviceMemoryRegion``. Versions 2 and 3 place every field alike (3 made three more of them
atomic), so one decoder serves both; any other version is refused, because a guessed offset is a wrong number.
"""

from __future__ import annotations

import errno
import os
import re
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path

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
    """The memory that one process holds on the chip."""

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
    """The memory held on one chip behind this device: the gateway itself, or a chip reached through it."""

    chip: int
    remote: bool
    held: Counters


@dataclass(frozen=True, slots=True)
class DeviceCounters:
    """A region: a chip, its totals and the processes that hold memory on it."""

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
        """Memory held by processes that no longer run (killed before they could release it)."""
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


FOLDER_VARIABLE = "TTMEM_SHM_DIR"
_REGION_NAME = re.compile(r"tt_device_\d+_memory")
_MOCK_VARIABLE = b"TT_METAL_MOCK_CLUSTER_DESC_PATH="
_ATTEMPTS = 8
"""A process that allocates without a pause changes the region between two reads; most are quiet for longer."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The counters of all chips at one moment."""

    taken_ns: int
    folder: str
    devices: tuple[DeviceCounters, ...]
    unreadable: tuple[UnreadableRegion, ...]


def find_shared_memory_folder() -> Path:
    """Return the folder of the regions; ``TTMEM_SHM_DIR`` changes it (a container's /dev/shm mounted elsewhere)."""
    return Path(os.environ.get(FOLDER_VARIABLE) or "/dev/shm")


def sample(folder: str | Path | None = None) -> Sample:
    """The counters of every chip that any process on this machine has opened."""
    place = Path(folder) if folder is not None else find_shared_memory_folder()
    devices: list[DeviceCounters] = []
    unreadable: list[UnreadableRegion] = []
    for path in _regions(place):
        try:
            devices.append(_read(path))
        except FileNotFoundError:
            continue  # removed between the listing and now
        except UnknownLayoutError as error:
            unreadable.append(UnreadableRegion(str(path), str(error)))
        except OSError as error:
            unreadable.append(UnreadableRegion(str(path), _reason(path, error)))
    devices.sort(key=lambda device: (device.device, device.chip_unique_id))
    return Sample(time.time_ns(), str(place), tuple(devices), tuple(unreadable))


def _regions(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(entry for entry in folder.iterdir() if _REGION_NAME.fullmatch(entry.name))
    return []


def _read(path: Path) -> DeviceCounters:
    """Two equal reads in a row are one instant; a region that never holds still is reported as it was last seen."""
    before = _bytes(path)
    for _ in range(_ATTEMPTS):
        raw = _bytes(path)
        if raw == before:
            return _mark_mocks(decode(raw, path=str(path), exists=_exists))
        before = raw
    return replace(_mark_mocks(decode(before, path=str(path), exists=_exists)), torn=True)


def _mark_mocks(device: DeviceCounters) -> DeviceCounters:
    return replace(device, processes=tuple(replace(one, mock=_is_mock(one.pid)) for one in device.processes))


def _is_mock(pid: int) -> bool:
    """True when the process was started for a mock cluster; False where its environment may not be read."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(variable.startswith(_MOCK_VARIABLE) for variable in variables)


def _bytes(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(descriptor, REGION_BYTES)
    finally:
        os.close(descriptor)


def _exists(pid: int) -> bool:
    """True when the process exists; a zombie has released everything but its number."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        return False
    except OSError:
        return True  # it is there, but hidden from us
    state = status.rpartition(b")")[2].split()[:1]  # the name before it may hold blanks and brackets
    return state != [b"Z"]


def _reason(path: Path, error: OSError) -> str:
    if error.errno == errno.EACCES:
        try:
            owner = path.stat().st_uid
        except OSError:
            return "it may not be read"
        return f"it belongs to another user (id {owner}), and only that user or root may read it"
    return f"it cannot be read: {error.strerror or error}"


class PeakHold:
    """The highest counters since watching began, per chip and per process on it."""

    def __init__(self) -> None:
        self._chips: dict[int, Counters] = defaultdict(Counters)
        self._processes: dict[tuple[int, int], Counters] = defaultdict(Counters)

    def add(self, seen: Sample) -> None:
        """Take a sample into account."""
        for device in seen.devices:
            chip = device.chip_unique_id
            self._chips[chip] = device.total.maximum(self._chips[chip])
            for process in device.processes:
                key = (chip, process.pid)
                self._processes[key] = process.held.maximum(self._processes[key])

    def find_chip_peak(self, chip_unique_id: int) -> Counters:
        return self._chips[chip_unique_id]

    def find_process_peak(self, chip_unique_id: int, pid: int) -> Counters:
        return self._processes[chip_unique_id, pid]
