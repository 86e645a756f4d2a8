# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import call, environment, start
from support.counter_regions import region
from unit.readers.test_counters import NOBODY, REAL, put


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "shm"
    place.mkdir()
    return place


def test_once_prints_one_table(folder: Path) -> None:
    held = (4194304, 2097152, 0, 0, 786432)
    put(folder, region(total=held, chip_unique_id=0x1234, processes=[(os.getpid(), "pytest", held)]))

    result = call("live", "--once", env=environment(TTMEM_SHM_DIR=str(folder)))

    assert (result.code, result.err) == (0, "")
    name = f"  {os.getpid()} pytest"
    width = max(len(name), len("device 0 (0x1234)"))
    amounts = "  4.000  2.000         -      -     0.750"
    assert result.out.splitlines() == [
        f"{'MiB':{width}}   DRAM     L1  L1_SMALL  TRACE  circular",
        f"{'device 0 (0x1234)':{width}}{amounts}",
        f"{'  peak':{width}}{amounts}",
        f"{name:{width}}{amounts}",
        f"{'    peak':{width}}{amounts}",
    ]


def test_json_is_one_object_per_line_and_says_its_scope(folder: Path) -> None:
    put(folder, REAL.read_bytes())
    put(folder, region(version=9), 1)

    result = call("live", "--json", "--count", 3, "--interval", 0.02, env=environment(TTMEM_SHM_DIR=str(folder)))

    assert result.code == 0
    samples = [json.loads(line) for line in result.out.splitlines()]
    assert len(samples) == 3
    counters = {
        "dram_bytes": 4194304,
        "l1_bytes": 2097152,
        "l1_small_bytes": 0,
        "trace_bytes": 0,
        "circular_buffer_bytes": 786432,
    }
    for seen in samples:
        assert seen["schema"] == "ttmem.live/1"
        assert "without bank padding and dataflow buffers" in seen["scope"]
        (device,) = seen["devices"]
        assert device["total"] == device["peak"] == device["abandoned"] == counters
        assert device["chip_unique_id"] == "0"
        assert device["chips"] == [{"chip": 0, "remote": False, "held": counters}]
        (process,) = device["processes"]
        assert (process["pid"], process["name"], process["running"]) == (NOBODY, "python", False)
        assert process["held"] == process["peak"] == counters
        assert [found["problem"] for found in seen["unreadable"]] == [
            "its layout is version 9; this ttmem knows versions 2 and 3"
        ]
    # THEN what cannot be read is told once, not with every sample
    assert result.err.count("its layout is version 9") == 1


def test_nothing_there_is_an_answer_not_an_error(folder: Path) -> None:
    result = call("live", "--once", env=environment(TTMEM_SHM_DIR=str(folder)))
    assert (result.code, result.out) == (0, f"no counters in {folder}\n")
    assert "TT_METAL_SHM_TRACKING_DISABLED" in result.err


def test_a_process_that_died_is_pointed_out(folder: Path) -> None:
    put(folder, REAL.read_bytes())
    result = call("live", "--once", env=environment(TTMEM_SHM_DIR=str(folder)))
    assert f"{NOBODY} python (gone)" in result.out
    assert "not running here any more" in result.out


def test_devices_that_hold_nothing_are_counted_and_mocks_are_marked(folder: Path) -> None:
    # GIVEN a device of a process on a mock cluster, one of a process on a card, and three that hold nothing
    held = (4194304, 0, 0, 0, 0)
    mocked = {**os.environ, "TT_METAL_MOCK_CLUSTER_DESC_PATH": "/somewhere/n150.yaml"}
    sleeps = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(sleeps, env=mocked, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        put(folder, region(total=held, chip_unique_id=0x1, processes=[(child.pid, "pytest", held)]), 1)
        put(folder, region(total=held, chip_unique_id=0x2, processes=[(os.getpid(), "server", held)]), 2)
        for number in (3, 4, 5):
            put(folder, region(total=(0, 0, 0, 0, 0), chip_unique_id=number), number)
        shown = call("live", "--once", env=environment(TTMEM_SHM_DIR=str(folder)))
        document = json.loads(call("live", "--once", "--json", env=environment(TTMEM_SHM_DIR=str(folder))).out)
        child.kill()
    devices = [line.split("  ")[0] for line in shown.out.splitlines() if line.startswith("device")]
    assert devices == ["device 0 (0x1) mock", "device 0 (0x2)"]
    assert shown.out.splitlines()[-1] == "3 devices hold nothing: --json lists all"
    mocks = [[process["mock"] for process in device["processes"]] for device in document["devices"]]
    assert mocks == [[True], [False], [], [], []]


def test_ctrl_c_is_how_it_ends(folder: Path) -> None:
    path = put(folder, region(total=(1, 0, 0, 0, 0)))
    process = start("live", "--json", "--interval", 0.05, env=environment(TTMEM_SHM_DIR=str(folder)))
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["devices"][0]["peak"]["dram_bytes"] == 1

    # WHEN memory rises, falls, and the file disappears
    for amount in (9, 2):
        with path.open("r+b") as file:  # in place, as a process does: never an empty file in between
            file.write(region(total=(amount, 0, 0, 0, 0)))
        while json.loads(process.stdout.readline())["devices"][0]["total"]["dram_bytes"] != amount:
            pass
    assert json.loads(process.stdout.readline())["devices"][0]["peak"]["dram_bytes"] == 9
    path.unlink()
    while json.loads(process.stdout.readline())["devices"]:
        pass

    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def test_an_interval_of_nothing_is_refused(folder: Path) -> None:
    result = call("live", "--interval", 0, env=environment(TTMEM_SHM_DIR=str(folder)))
    assert result.code == 2
    assert "--interval" in result.err
