# SPDX-License-Identifier: Apache-2.0
"""Command lines in forks of a process that has ttmem loaded: thousands a minute, each alone, measured and bounded.

A fork costs a few milliseconds where a new interpreter costs hundreds. What a case does to its process (a hang, an
endless allocation, a crash) ends that fork and nothing else, and its CPU time and memory are its own.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

_READ_BYTES = 4 << 20
"""How much of an answer is looked at."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a case may use before it is ended."""

    cpu_seconds: int = 20
    wall_seconds: float = 40.0
    data_bytes: int = 2 << 30


USUAL = Limits()


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command line ended, what it said and what it took."""

    code: int
    """As a shell has it; negative: the signal that ended it."""
    out: bytes
    err: bytes
    cpu_seconds: float
    peak_bytes: int
    """Resident, beyond what the process held before it began."""


class Child:
    """One process that has ttmem loaded and forks for every command line."""

    def __init__(self, folder: Path, *, nice: int = 0) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        source = Path(__file__).resolve().parents[2] / "src"
        bench = Path(__file__).resolve().parents[1]
        settings = {"TTMEM_HOME": str(folder / "home"), "OPENBLAS_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "100"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.children", str(folder), str(nice)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **settings, "PYTHONPATH": f"{source}{os.pathsep}{bench}"},
            text=True,
        )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)

    def warm(self, lines: Sequence[Sequence[str]]) -> None:
        """Run these in the process itself: what they load and compile is inherited by every fork from then on."""
        self._asked({"warm": [list(line) for line in lines]})

    def run(self, arguments: Sequence[str | Path], *, stdin: Path | None = None, limits: Limits = USUAL) -> Ran:
        """``ttmem`` with these arguments, to its end or to a limit."""
        answer = self._asked(
            {
                "arguments": list(map(str, arguments)),
                "stdin": str(stdin) if stdin else os.devnull,
                "limits": [limits.cpu_seconds, limits.wall_seconds, limits.data_bytes],
            }
        )
        out, err = (_beginning(self.folder / name) for name in ("out", "err"))
        return Ran(answer["code"], out, err, answer["cpu_seconds"], answer["peak_bytes"])

    def _asked(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_READ_BYTES)


def _serve(folder: Path) -> None:
    from ttmem.commands.program import main

    os.chdir(folder)
    _load(main, _usual_lines(folder))
    for line in sys.stdin:
        asked = json.loads(line)
        answer = _load(main, asked["warm"]) if "warm" in asked else _ask(main, asked)
        print(json.dumps(answer), flush=True)


def _usual_lines(folder: Path) -> list[list[str]]:
    """Of the verbs that nearly everybody asks."""
    sample = folder / "sample.log"
    sample.write_text(
        "RuntimeTTNN | DEBUG | Executing operation: "
        '%0 = "ttnn.add"(%1, %2) : (tensor<32x32xbf16>, tensor<32x32xbf16>) -> tensor<32x32xbf16> loc("a")\n'
        "TT_FATAL @ a.cpp:1: false\ninfo:\nOut of Memory: Not enough space to allocate 4096 B DRAM buffer across 12 "
        "banks, where each bank needs to store 2048 B, but bank size is 1024 B\n"
    )
    verbs = [["explain", str(sample)], ["profile", str(sample), "--no-store"], ["cb", "profile", str(sample)]]
    tests = folder / "sample_results.txt"
    tests.write_text("tests/test_a.py::test_a[1] PASSED\n")
    report = ["sweep", "report", str(tests), "-o", str(folder / "reports")]
    return [*verbs, report, *([*verb, "--json"] for verb in verbs), ["tensor", "32x32"], ["boards"]]


def _load(main: Any, lines: list[list[str]]) -> dict[str, Any]:
    """What verbs import and compile when they first need it is loaded here, once, and inherited by every fork."""
    silent, kept = os.open(os.devnull, os.O_WRONLY), (os.dup(1), os.dup(2))
    os.dup2(silent, 1), os.dup2(silent, 2)
    for words in lines:
        main(words)
    for at, copy in zip((1, 2), kept, strict=True):
        os.dup2(copy, at)
        os.close(copy)
    os.close(silent)
    gc.collect()
    gc.freeze()  # forks then do not copy the pages of all that is loaded, only to find it alive
    return {}


def _ask(main: Any, asked: dict[str, Any]) -> dict[str, Any]:
    before = _inherited_bytes()
    pid = os.fork()
    if not pid:
        _become(main, **asked)
    _, status, used = os.wait4(pid, 0)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # what it may have left behind
    return {
        "code": os.waitstatus_to_exitcode(status),
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_bytes": max(0, used.ru_maxrss * 1024 - before),
    }


def _inherited_bytes() -> int:
    """What a fork begins with: pages of files are mapped again when it needs them, and the most that was ever held,
    while verbs were loaded, would hide what it takes."""
    pages = Path("/proc/self/statm").read_text().split()
    return (int(pages[1]) - int(pages[2])) * resource.getpagesize()


def _become(main: Any, arguments: list[str], stdin: str, limits: list[float]) -> None:
    """The forked process: bound it, give it its own files, run the command line."""
    code = 99
    try:
        os.setpgid(0, 0)
        cpu_seconds, wall_seconds, data_bytes = limits
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds), int(cpu_seconds)))
        resource.setrlimit(resource.RLIMIT_DATA, (int(data_bytes), int(data_bytes)))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.setitimer(signal.ITIMER_REAL, wall_seconds)
        os.dup2(os.open(stdin, os.O_RDONLY), 0)
        for at, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), at)
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        code = main(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    if int(sys.argv[2]):
        os.nice(int(sys.argv[2]))
    with tempfile.TemporaryDirectory() as _temporary:
        tempfile.tempdir = _temporary
        _serve(Path(sys.argv[1]))
