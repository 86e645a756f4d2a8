# SPDX-License-Identifier: Apache-2.0
"""``ttmem run`` ends as a plain interpreter would, whatever a script does to the modules that the recorder uses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.command_line import call, environment, start
from ttmem.engines.interpreters import Interpreter
from ttmem.engines.run_script import run_script
from ttmem.engines.workspace import open_workspace

pytestmark = [pytest.mark.slow, pytest.mark.oracle]

OPEN = """
import builtins, json, os, signal, sys, threading, time
import ttnn
device = ttnn.open_device(device_id=0)
a = ttnn.zeros([1, 1, 64, 64], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
"""
REST = """
b = ttnn.relu(a)
c = ttnn.add(a, b)
"""
ALL = {"ttnn.zeros": 1, "ttnn.relu": 1, "ttnn.add": 1}
HARMLESS = {
    "no arguments": "sys.argv = None",
    "json.dumps": "json.dumps = json.JSONEncoder = lambda *_: 1 / 0",
    "os.write": "os.write = os.fstat = os.getpid = None",
    "os.getcwd": "os.getcwd = os.lstat = os.path.realpath = None",
    "open": "builtins.open = None",
    "builtins": "builtins.sorted = builtins.sum = builtins.any = builtins.zip = None",
}
"""What a script may do without losing a single operation of its recording."""
BROKEN = {
    "len": "def bad(_): raise RuntimeError('bad len')\nbuiltins.len = bad",
    "next": "builtins.next = None",
    "isinstance": "builtins.isinstance = lambda *_: False",
    "modules": "sys.modules.clear()",
    "json.loads": "json.loads = None",
}
"""After this the library's own C++ code can report no more: the recording ends, the script goes on."""
ENDINGS = {
    "beyond a long": "sys.exit(10**30)",
    "below a long": "sys.exit(-(10**30))",
    "negative": "sys.exit(-3)",
    "a text": "sys.exit('\\ud800')",
    "no text": "class Odd:\n    def __str__(self): raise ValueError\nsys.exit(Odd())",
    "an error without text": "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd",
    "a type without a name": "class Meta(type):\n    __name__ = property(lambda _: 1 / 0)\n"
    "class Odd(Exception, metaclass=Meta): pass\nraise Odd('x')",
    "half a letter": "raise ValueError('\\ud800')",
    "a hook of its own": "sys.excepthook = lambda *_: sys.exit(9)\nraise ValueError",
    "a hook that fails": "sys.excepthook = None\nraise ValueError",
    "no stderr": "sys.stderr = None\nraise ValueError",
    "an alarm": "signal.alarm(1)\ntime.sleep(9)",
    "a termination": "os.kill(os.getpid(), signal.SIGTERM)",
    "a real-time signal": "os.kill(os.getpid(), 40)",
    "a handler that raises": "def late(*_): raise TimeoutError('late')\nsignal.signal(signal.SIGALRM, late)\n"
    "signal.setitimer(signal.ITIMER_REAL, 0.2)\nwhile True: ttnn.relu(a)",
}


@pytest.fixture
def plain(with_ttnn: Interpreter) -> Callable[[Path], int]:
    """The status that the interpreter itself ends a script with, on the same mock board."""

    def run(script: Path) -> int:
        with open_workspace(with_ttnn, board="n150") as place:
            command = [with_ttnn.path, str(script)]
            done = subprocess.run(command, env=place.build_environment(os.environ), capture_output=True, check=False)
        return 128 - done.returncode if done.returncode < 0 else done.returncode

    return run


def run_it(folder: Path, code: str) -> tuple[Path, int, dict[str, Any]]:
    script = folder / "s.py"
    script.write_text(OPEN + code + REST)
    done = call("run", str(script), "--json", "--name", "odd", env={**environment(), "TTMEM_HOME": str(folder)})
    assert "internal error" not in done.err
    return script, done.code, json.loads(done.out)


@pytest.fixture
def home(with_ttnn: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of its own; ttnn is where it was."""
    monkeypatch.setenv("TTMEM_TTNN_PYTHON", with_ttnn.path)
    return tmp_path


@pytest.mark.parametrize("code", HARMLESS.values(), ids=HARMLESS)
def test_a_script_that_replaces_what_the_recorder_uses_is_recorded(
    code: str, home: Path, plain: Callable[[Path], int]
) -> None:
    script, status, told = run_it(home, code)
    assert (status, told["failure"]) == (plain(script), None)
    assert told["operations"]["by_name"] == ALL


@pytest.mark.parametrize("code", BROKEN.values(), ids=BROKEN)
def test_a_recording_that_breaks_off_costs_the_script_nothing(
    code: str, home: Path, plain: Callable[[Path], int]
) -> None:
    script, status, told = run_it(home, code)
    assert (status, told["failure"]) == (plain(script), None)
    assert told["operations"]["by_name"]["ttnn.zeros"] == 1
    assert told["source"]["warnings"]


@pytest.mark.parametrize("code", ENDINGS.values(), ids=ENDINGS)
def test_every_ending_keeps_its_status_and_is_stored(code: str, home: Path, plain: Callable[[Path], int]) -> None:
    script, status, told = run_it(home, code)
    assert status == plain(script)
    assert told["ended"]["error"]
    assert told["ended"]["message"]
    # AND what was stored says the same
    stored = json.loads(call("profile", "odd", "--json", env={**environment(), "TTMEM_HOME": str(home)}).out)
    assert (stored["ended"], stored["failure"]) == (told["ended"], told["failure"])
    if 128 < status <= 128 + signal.SIGRTMAX:
        name = signal.Signals(status - 128).name if status - 128 < 32 else "SIGRTMIN+6"
        assert told["failure"]["class"] == "crash"
        assert name in told["failure"]["message"]


def test_half_a_letter_in_an_argument_is_stored(home: Path) -> None:
    script = home / "s.py"
    script.write_text(OPEN + REST)
    words = ["run", str(script), "--name", "odd", "--json", "--", "a\udce9b"]
    assert call(*words, env={**environment(), "TTMEM_HOME": str(home)}).code == 0
    assert call("profile", "odd", "--llm", env={**environment(), "TTMEM_HOME": str(home)}).code == 0


def test_a_run_returns_when_its_script_has_ended(with_ttnn: Interpreter, tmp_path: Path) -> None:
    """Also when a process that the script forked holds the pipe of the recording open."""
    ended = tmp_path / "ended"
    fork = "if os.fork() == 0:\n    time.sleep(60)\n    os._exit(0)\n"
    for code in ("", fork):
        (tmp_path / "s.py").write_text(f"{OPEN}{code}{REST}open({str(ended)!r}, 'w').write(str(time.time()))\n")
        profile = run_script(tmp_path / "s.py", output=2).profile
        assert time.time() - float(ended.read_text()) < 1.5
        assert len(profile.timelines[0]) == 3


LEFT_BEHIND = """
import subprocess
sleep = ['sh', '-c', 'echo $$ >> "$0"; exec sleep 600', PIDS]
subprocess.Popen(sleep)
subprocess.Popen(sleep, start_new_session=True)
middle = "import subprocess, sys; subprocess.Popen(sys.argv[1:], env={})"
subprocess.run([sys.executable, '-c', middle.replace('Popen(', 'run('), 'sh', '-c', '"$@" & sleep 0.5', 'x', *sleep])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(PIDS, 'a').write(f'{os.getpid()}\\n')
        time.sleep(600)
    os._exit(0)
while not os.path.exists(PIDS) or open(PIDS).read().count('\\n') < 3: time.sleep(0.01)
"""


def pids(place: Path) -> list[int]:
    return [int(word) for word in place.read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def marked_folder(pid: int) -> Path:
    """The private folder of the run that a process belongs to."""
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return Path(next(one for one in variables if one.startswith(b"TT_METAL_LOGS_PATH=")).partition(b"=")[2].decode())


def test_what_a_script_leaves_behind_ends_with_the_run(home: Path) -> None:
    code = LEFT_BEHIND.replace("PIDS", repr(str(home / "pids")))
    _, status, _ = run_it(home, code)
    assert status == 0
    assert len(pids(home / "pids")) >= 3
    assert not any(map(is_alive, pids(home / "pids")))


@pytest.mark.parametrize("whole_group", [False, True])
def test_what_a_script_leaves_behind_ends_when_ttmem_is_killed(home: Path, whole_group: bool) -> None:
    code = LEFT_BEHIND.replace("PIDS", repr(str(home / "pids")))
    (home / "s.py").write_text(f"{OPEN}{code}print('ready', file=sys.stderr, flush=True)\ntime.sleep(600)\n")
    words = ("run", str(home / "s.py"), "--no-store", "--json")
    # a process of somebody else's, with nothing in common
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        running = start(*words, env=environment(**os.environ), start_new_session=True)
        assert running.stderr is not None
        for line in running.stderr:
            if "ready" in line:
                break
        folder = marked_folder(pids(home / "pids")[0])
        assert folder.is_dir()
        (os.killpg if whole_group else os.kill)(running.pid, signal.SIGKILL)
        running.communicate(timeout=60)
        deadline = time.monotonic() + 20
        while any(map(is_alive, pids(home / "pids"))) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(is_alive, pids(home / "pids")))
        assert is_alive(stranger.pid)
        # AND the folder of the run is removed
        while folder.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not folder.exists()
    finally:
        stranger.kill()
        stranger.wait()
