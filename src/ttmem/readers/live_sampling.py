# SPDX-License-Identifier: Apache-2.0
"""Read every region there is, at one moment, whatever its writers are doing; and remember the highest values seen."""

import errno
import os
import re
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ttmem.readers.live_counters import (
    REGION_BYTES,
    Counters,
    DeviceCounters,
    UnknownLayoutError,
    UnreadableRegion,
    decode,
)

FOLDER_VARIABLE = "TTMEM_SHM_DIR"
_REGION_NAME = re.compile(r"tt_device_\d+_memory")
_MOCK_VARIABLE = b"TT_METAL_MOCK_CLUSTER_DESC_PATH="
_ATTEMPTS = 8
"""A process that allocates without a pause changes the region between two reads; most are quiet for longer."""


@dataclass(frozen=True, slots=True)
class Sample:
    """All chips at one moment."""

    taken_ns: int
    folder: str
    devices: tuple[DeviceCounters, ...]
    unreadable: tuple[UnreadableRegion, ...]


def shared_memory_folder() -> Path:
    """Where the regions lie; ``TTMEM_SHM_DIR`` moves it (a container's /dev/shm that is mounted elsewhere)."""
    return Path(os.environ.get(FOLDER_VARIABLE) or "/dev/shm")


def sample(folder: str | Path | None = None) -> Sample:
    """The counters of every chip that any process on this machine has opened."""
    place = Path(folder) if folder is not None else shared_memory_folder()
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
            return _with_mocks(decode(raw, path=str(path), exists=_exists))
        before = raw
    return replace(_with_mocks(decode(before, path=str(path), exists=_exists)), torn=True)


def _with_mocks(device: DeviceCounters) -> DeviceCounters:
    return replace(device, processes=tuple(replace(one, mock=_is_mock(one.pid)) for one in device.processes))


def _is_mock(pid: int) -> bool:
    """Whether a process was started for a mock cluster; no where its environment may not be read."""
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
    """Whether there is such a process; a zombie has given everything back but its number."""
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
        self._of_chip: dict[int, Counters] = defaultdict(Counters)
        self._of_process: dict[tuple[int, int], Counters] = defaultdict(Counters)

    def add(self, seen: Sample) -> None:
        """Take a sample into account."""
        for device in seen.devices:
            chip = device.chip_unique_id
            self._of_chip[chip] = device.total.maximum(self._of_chip[chip])
            for process in device.processes:
                key = (chip, process.pid)
                self._of_process[key] = process.held.maximum(self._of_process[key])

    def of_chip(self, chip_unique_id: int) -> Counters:
        return self._of_chip[chip_unique_id]

    def of_process(self, chip_unique_id: int, pid: int) -> Counters:
        return self._of_process[chip_unique_id, pid]
