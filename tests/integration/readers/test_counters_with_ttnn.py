# SPDX-License-Identifier: Apache-2.0
"""Counters that the installed ttnn writes while it runs, read from outside."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.real import find_ttnn, mock_environment
from support.command_line import environment, start
from ttmem.engines.interpreters import Interpreter
from ttmem.readers.live_counters import Counters, DeviceCounters, PeakHold, sample

pytestmark = pytest.mark.oracle

MIB = 1 << 20


@pytest.fixture
def process(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    interpreter, reason = find_ttnn()
    if interpreter is None:
        pytest.skip(f"COUNTERS WERE NOT READ FROM THE REAL TTNN: {reason}; run `python tools/ttnn_env.py`")
    chip = int.from_bytes(os.urandom(6), "big")
    script = Path(__file__).with_name("counters_process.py")
    with mock_environment(interpreter, "n150") as environment:
        del environment["TT_METAL_SHM_TRACKING_DISABLED"]
        child = subprocess.Popen(
            [interpreter.path, str(script), str(tmp_path), str(chip)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        try:
            yield child, chip
        finally:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream:
                    stream.close()
            Path(f"/dev/shm/tt_device_{chip}_memory").unlink(missing_ok=True)


def counters_of(chip: int) -> DeviceCounters:
    return next(device for device in sample("/dev/shm").devices if device.chip_unique_id == chip)


def test_a_running_process_is_followed_from_outside(process: tuple[subprocess.Popen[str], int]) -> None:
    child, chip = process
    assert child.stdin is not None
    assert child.stdout is not None
    peaks = PeakHold()
    seen: dict[str, DeviceCounters] = {}
    for step in ("two in DRAM, one in L1", "one in DRAM, one in L1", "after an add"):
        assert child.stdout.readline().strip() == step
        seen[step] = counters_of(chip)
        peaks.add(sample("/dev/shm"))
        child.stdin.write("\n")
        child.stdin.flush()

    totals = [device.total for device in seen.values()]
    assert totals == [
        Counters(dram_bytes=4 * MIB, l1_bytes=2 * MIB),
        Counters(dram_bytes=2 * MIB, l1_bytes=2 * MIB),
        Counters(dram_bytes=4 * MIB, l1_bytes=2 * MIB, circular_buffer_bytes=12288 * 64),
    ]
    (mine,) = seen["after an add"].processes
    assert (mine.pid, mine.running, mine.held) == (child.pid, True, totals[-1])
    assert peaks.find_chip_peak(chip) == totals[-1]

    assert child.stdout.readline().strip() == "closed"
    child.wait(timeout=30)
    closed = counters_of(chip)
    assert (closed.total, closed.processes) == (Counters(), ())


def test_a_run_on_a_mock_board_is_seen_and_leaves_nothing_behind(with_ttnn: Interpreter, tmp_path: Path) -> None:
    # GIVEN a script that holds 4 MiB of DRAM and says so
    script = tmp_path / "holding.py"
    script.write_text(HOLDING)
    with start("run", script, "--no-store", env=environment(), stdin=subprocess.PIPE) as running:
        assert running.stderr is not None
        while "holding" not in (line := running.stderr.readline()):
            assert line, "the script ended early"
        pid = int(line.split()[-1])
        # WHEN one looks from outside (other tests may run devices of their own)
        (mine,) = [
            device
            for device in sample("/dev/shm").devices
            if pid in {process.pid for process in device.processes if process.running}
        ]
        # THEN its memory is there, and measuring programs has left no trace in it
        assert mine.total == Counters(dram_bytes=4 * MIB, circular_buffer_bytes=12288 * 64)
        running.communicate("go on\n", timeout=60)
        assert running.returncode == 0
    assert mine.chip_unique_id not in {device.chip_unique_id for device in sample("/dev/shm").devices}


HOLDING = """
import os
import sys
import ttnn

device = ttnn.open_device(device_id=0)
x = ttnn.allocate_tensor_on_device(
    ttnn.Shape([1, 1, 1024, 1024]), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.DRAM_MEMORY_CONFIG)
y = ttnn.add(x, x)
print("holding", os.getpid(), flush=True)
sys.stdin.readline()
ttnn.close_device(device)
"""
