# SPDX-License-Identifier: Apache-2.0
"""``ttmem run`` and scripts that do not want to end, or that do what scripts seldom do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from support.command_line import call, environment, start
from ttmem.engines.interpreters import Interpreter

pytestmark = [pytest.mark.slow, pytest.mark.oracle]

OPEN = """
import os, signal, subprocess, sys, time
import ttnn
device = ttnn.open_device(device_id=0)
def make():
    return ttnn.zeros([1, 1, 64, 64], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
a = make()
"""


@pytest.fixture
def script(tmp_path: Path, with_ttnn: Interpreter) -> Any:
    def write(code: str) -> list[str]:
        (tmp_path / "s.py").write_text(OPEN + code.replace("PIDS", repr(str(tmp_path / "pids"))))
        return ["run", str(tmp_path / "s.py"), "--no-store", "--json", "--no-programs"]

    return write


NOTE_PID = "open(PIDS, 'a').write(f'{os.getpid()}\\n')\n"
FORKS = {
    "everything at once": f"""
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {NOTE_PID}        os.closerange(3, 4096)
        time.sleep(600)
    os._exit(0)
subprocess.Popen(['sh', '-c', 'echo $$ >> "$0"; sleep 60', PIDS], start_new_session=True)
[signal.signal(number, signal.SIG_IGN) for number in (15, 2, 1)]
{NOTE_PID}os.closerange(0, 4096)
time.sleep(600)
""",
    "left behind": f"""
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {NOTE_PID}        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists(PIDS): time.sleep(0.01)
""",
}


@pytest.mark.parametrize("code", FORKS.values(), ids=FORKS)
def test_the_time_holds_for_the_script_and_all_it_started(code: str, script: Any, tmp_path: Path) -> None:
    done = call(*script(code), "--timeout", "5", timeout=240)  # longer: a process held the pipe of the output
    left_behind = "os.wait()" in code
    assert done.code == (0 if left_behind else done.code), done.err
    assert left_behind or done.code in (128 + signal.SIGTERM, 128 + signal.SIGKILL), done.err
    assert "internal error" not in done.err
    assert left_behind or json.loads(done.out)["failure"]["class"] == "timeout"
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        assert not _lives(pid)


def test_a_script_that_closes_everything_keeps_its_status_and_its_files(script: Any, tmp_path: Path) -> None:
    """The recording is cut there, which is said; a file that gets the descriptor's number holds the script's words."""
    code = f"""
os.closerange(3, 4096)
files = [open({str(tmp_path / "mine")!r} + str(n), 'w') for n in range(300)]
make()
for file in files: file.write('mine')
for file in files: file.close()
os._exit(7)
"""
    done = call(*script(code), timeout=60)
    assert done.code == 7, done.err
    assert any("closed the descriptor" in warning for warning in json.loads(done.out)["source"]["warnings"])
    assert {path.read_text() for path in tmp_path.glob("mine*")} == {"mine"}


def test_a_second_interrupt_ends_a_script_that_ignores_the_first(script: Any, tmp_path: Path) -> None:
    words = script("[signal.signal(n, signal.SIG_IGN) for n in (2, 15)]\n" + NOTE_PID + "time.sleep(600)\n")
    running = start(*words, env=environment(**os.environ))
    pids = tmp_path / "pids"
    deadline = time.monotonic() + 60
    while not pids.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(0.7)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGKILL, err
    assert json.loads(out)["operations"]["executed"] >= 1
    assert not _lives(int(pids.read_text()))


@pytest.mark.parametrize("measured", [False, True])
def test_two_threads_that_call_ttnn_are_recorded_one_after_the_other(script: Any, measured: bool) -> None:
    code = """
import threading
failed = []
def work():
    try:
        for _ in range(4):
            b = make(); c = ttnn.add(b, b); ttnn.deallocate(b); del c
    except BaseException as error:
        failed.append(error)
for group in range(2):
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    ttnn.deallocate(make())
sys.exit(len(failed))
"""
    words = script(code)
    done = call(*(words[:-1] if measured else words), timeout=100)
    assert done.code == 0, done.err
    assert any("more than one thread" in warning for warning in json.loads(done.out)["source"]["warnings"])
    by_name = json.loads(done.out)["operations"]["by_name"]
    assert (by_name["ttnn.add"], by_name["ttnn.deallocate"]) == (16, 18)
    dram = json.loads(done.out)["memories"]["DRAM"]  # one tile per bank of each tensor: a, and up to two of each thread
    assert dram["end_bytes_per_bank"] == 2048
    assert 3 * 2048 <= dram["peak_bytes_per_bank"] <= 5 * 2048


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
