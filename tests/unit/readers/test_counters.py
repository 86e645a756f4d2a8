# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from support.counter_regions import region
from ttmem.readers.live_counters import (
    ChipCounters,
    Counters,
    DeviceCounters,
    PeakHold,
    ProcessCounters,
    Sample,
    UnreadableRegion,
    sample,
)

REAL = Path(__file__).parents[2] / "data" / "live" / "n150-add-version3.bin"
"""Written by ttnn 0.81.1 on a mock n150: two DRAM tensors of 1024x1024 bfloat16 and their sum in L1. The process
number in it was replaced by one that no system gives out."""
NOBODY = 2147483646


def put(folder: Path, content: bytes, unique_id: int = 0) -> Path:
    path = folder / f"tt_device_{unique_id}_memory"
    path.write_bytes(content)
    return path


def test_what_the_real_library_wrote(tmp_path: Path) -> None:
    path = put(tmp_path, REAL.read_bytes())

    seen = sample(tmp_path)

    # THEN the tensors are counted without bank padding, and add's three circular buffers once per core: 12288 x 64.
    held = Counters(2 * 2097152, 2097152, 0, 0, 12288 * 64)
    assert seen.unreadable == ()
    assert seen.devices == (
        DeviceCounters(
            path=str(path),
            version=3,
            chip_unique_id=0,
            device=0,
            attached_processes=1,
            updated_ns=1794803121581373733,
            total=held,
            chips=(ChipCounters(0, False, held),),
            processes=(ProcessCounters(NOBODY, "python", False, held, 1794803121581373923),),
        ),
    )
    assert seen.devices[0].abandoned == held


def test_layout_version_2_with_remote_chips_and_two_processes(tmp_path: Path) -> None:
    # GIVEN an n300's gateway chip with one remote chip, held by this process and by one that is gone
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    mine, theirs = (1 << 40, 2, 3, 4, 5), (10, 20, 30, 40, 50)
    content = region(
        version=2,
        chip_unique_id=(1 << 63) + 7,
        device=3,
        attached=2,
        total=(11, 22, 33, 44, 55),
        chips={3: (False, mine), 4: (True, theirs)},
        processes=[(os.getpid(), "a" * 63, mine), (dead.pid, "worker", theirs)],
    )
    path = put(tmp_path, content, (1 << 63) + 7)

    (device,) = sample(tmp_path).devices

    updated = 1_700_000_000_000_000_000
    assert device == DeviceCounters(
        path=str(path),
        version=2,
        chip_unique_id=(1 << 63) + 7,
        device=3,
        attached_processes=2,
        updated_ns=updated,
        total=Counters(11, 22, 33, 44, 55),
        chips=(ChipCounters(3, False, Counters(*mine)), ChipCounters(4, True, Counters(*theirs))),
        processes=(
            ProcessCounters(os.getpid(), "a" * 63, True, Counters(*mine), updated),
            ProcessCounters(dead.pid, "worker", False, Counters(*theirs), updated),
        ),
    )
    assert device.abandoned == Counters(*theirs)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it is being created"),
        (bytes(8576), "it is being created"),
        (region(version=7), "its layout is version 7; this ttmem knows versions 2 and 3"),
        (region(version=1), "its layout is version 1; this ttmem knows versions 2 and 3"),
        (region(version=3)[:5000], "it has 5000 bytes; layout version 3 has 8576"),
    ],
)
def test_a_region_that_cannot_be_decoded_is_told_apart_and_costs_only_itself(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    bad = put(tmp_path, content, 1)
    put(tmp_path, region(device=5), 2)

    seen = sample(tmp_path)

    assert seen.unreadable == (UnreadableRegion(str(bad), problem),)
    assert [device.device for device in seen.devices] == [5]


def test_other_files_and_a_missing_folder_are_no_regions(tmp_path: Path) -> None:
    (tmp_path / "sm_segment.host.1").write_bytes(b"x")
    (tmp_path / "tt_device_0_memory.bak").write_bytes(region())
    assert sample(tmp_path).devices == ()
    assert sample(tmp_path / "nowhere").devices == ()


def test_a_file_that_vanishes_after_the_listing_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "tt_device_1_memory").symlink_to(tmp_path / "gone")
    seen = sample(tmp_path)
    assert (seen.devices, seen.unreadable) == ((), ())


def test_a_file_of_another_user_names_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, region())

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    (found,) = sample(tmp_path).unreadable
    assert found.path == str(path)
    assert found.problem == f"it belongs to another user (id {os.getuid()}), and only that user or root may read it"


def test_a_pipe_or_folder_in_the_place_of_a_region_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tt_device_1_memory")
    (tmp_path / "tt_device_2_memory").mkdir()
    assert [region.problem for region in sample(tmp_path).unreadable] == [
        "it is being created",
        "it cannot be read: Is a directory",
    ]


def test_a_region_that_never_holds_still_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ttmem.readers import live_counters

    # GIVEN a writer that changes the region between any two reads
    ticks = iter(range(1000))
    monkeypatch.setattr(live_counters, "_bytes", lambda _: region(total=(next(ticks), 0, 0, 0, 0)))
    put(tmp_path, region())

    (device,) = sample(tmp_path).devices

    assert device.torn
    assert device.total.dram_bytes == 8  # the last of nine reads


def test_reading_beside_a_busy_writer_never_mixes_two_instants_unmarked(tmp_path: Path) -> None:
    # GIVEN a writer whose totals and process row are always equal in one instant
    path = put(tmp_path, region(processes=[(os.getpid(), "me", (0, 0, 0, 0, 0))]))
    states = [region(total=(n,) * 5, processes=[(os.getpid(), "me", (n,) * 5)]) for n in range(50)]
    stop = threading.Event()

    def write() -> None:
        with path.open("r+b", buffering=0) as file:
            while not stop.is_set():
                for state in states:
                    file.seek(0)
                    file.write(state)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = [sample(tmp_path).devices[0] for _ in range(200)]
    finally:
        stop.set()
        writer.join()
    assert all(device.torn or device.total == device.processes[0].held for device in seen)


def test_peaks_are_held_per_chip_and_per_process() -> None:
    def at(*rows: tuple[int, Counters]) -> Sample:
        processes = tuple(ProcessCounters(pid, "p", True, held, 0) for pid, held in rows)
        total = Counters()
        for _, held in rows:
            total = total.plus(held)
        return Sample(0, "", (DeviceCounters("", 3, 9, 0, 1, 0, total, (), processes),), ())

    peaks = PeakHold()
    peaks.add(at((1, Counters(dram_bytes=100)), (2, Counters(l1_bytes=7))))
    peaks.add(at((1, Counters(dram_bytes=40, l1_bytes=50))))
    peaks.add(at())

    assert peaks.find_chip_peak(9) == Counters(dram_bytes=100, l1_bytes=50)
    assert peaks.find_process_peak(9, 1) == Counters(dram_bytes=100, l1_bytes=50)
    assert peaks.find_process_peak(9, 2) == Counters(l1_bytes=7)
    assert peaks.find_chip_peak(8) == Counters()
