# SPDX-License-Identifier: Apache-2.0
"""Forked copies of this process, which start with an open device and can crash alone; lifetime and environment.

ttnn makes its thread pool anew in a fork. Measured: a fork answers within milliseconds, a new process needs a third of
a second.
"""

import contextlib
import ctypes
import os
import resource
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from .protocol import LineReader, decode, write_line

Message = dict[str, Any]
Send = Callable[[Message], None]

_SETTLING_SECONDS = 0.02
_PR_SET_PDEATHSIG = 1


class ForkedProcess:
    """A forked copy at work. Its messages are kept even if it dies later."""

    def __init__(
        self,
        work: Callable[[Send], None],
        *,
        memory_cap: int | None = None,
        own_group: bool = False,
        silent: bool = True,
    ) -> None:
        """``memory_cap`` limits its data in bytes; with ``own_group`` its child processes end with it; unless
        ``silent`` it prints to the streams of this process."""
        self._own_group = own_group
        self._reading, writing = os.pipe()
        parent = os.getpid()
        _let_threads_settle()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python's general warning about threads and fork
            self._process = os.fork()
        if self._process == 0:
            _run_fork(work, writing, memory_cap, own_group, silent, parent)
        os.close(writing)
        self._lines = LineReader(self._reading)
        self.signal = 0
        self.timed_out = False
        self.status = 0

    def read_messages(self, silence: float) -> Iterator[Message]:
        """Yield its messages until it ends or is silent for ``silence`` seconds; then end it."""
        try:
            while line := self._lines.read_line(silence):
                with contextlib.suppress(ValueError):  # half a line of a copy that died
                    yield decode(line)
        except TimeoutError:
            self.timed_out = True
        except BaseException:  # it has no reader any more
            self._end(kill=True)
            raise
        self._end(kill=self.timed_out)

    def _end(self, *, kill: bool) -> None:
        os.close(self._reading)
        for send in (os.killpg, os.kill) if self._own_group else (os.kill,):  # the group may not exist yet
            if kill:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    send(self._process, signal.SIGKILL)
        status = os.waitpid(self._process, 0)[1]
        if os.WIFSIGNALED(status) and not kill:
            self.signal = os.WTERMSIG(status)
        elif os.WIFEXITED(status):
            self.status = os.WEXITSTATUS(status)


def _let_threads_settle() -> None:
    """Wait briefly until no other thread runs.

    The library's threads may be about to go idle; a fork then makes it print a warning.
    """
    own = str(threading.get_native_id())
    deadline = time.monotonic() + _SETTLING_SECONDS
    while True:
        time.sleep(0.0005)
        others = [task for task in os.listdir("/proc/self/task") if task != own]  # noqa: PTH208 - bare names
        if not any(_is_running(task) for task in others) or time.monotonic() > deadline:
            return


def _is_running(task: str) -> bool:
    with contextlib.suppress(OSError):  # it may just have ended
        state = Path(f"/proc/self/task/{task}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "R"
    return False


def _run_fork(
    work: Callable[[Send], None], writing: int, memory_cap: int | None, own_group: bool, silent: bool, parent: int
) -> None:
    """Run the work and never return: exit handlers of the parent must not run here."""
    try:
        die_with_parent(parent)
        if own_group:
            os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2) if silent else (0,):
            os.dup2(nowhere, stream)
        if memory_cap is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (memory_cap, memory_cap))
        work(partial(write_line, writing))
    finally:
        os._exit(0)


def die_with_parent(parent: int) -> None:
    """End this process when its parent ends, for whatever reason."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def show_environment(variables: Mapping[str, str | None]) -> None:
    """Let the program read these values (None: not set); the library's C++ code, which also reads them, sees ours.

    Python copies the environment; only a change through the mapping itself reaches the process's own.
    """
    copied: Any = os.environ
    for name, value in variables.items():
        if value is None:
            copied._data.pop(copied.encodekey(name), None)
        else:
            copied._data[copied.encodekey(name)] = copied.encodevalue(value)
