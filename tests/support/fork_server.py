# SPDX-License-Identifier: Apache-2.0
"""A process that has ttmem loaded and forks for each command line: a few milliseconds instead of some 300.

The fork gets the caller's arguments, environment, working folder and standard input, and its exit status, stdout and
stderr come back. Tests that are about the start of a process (imports, signals, closed streams) start a new one.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_WARM = (["boards", "--json"], ["tensor", "32x32", "--json"], ["explain", "Out of Memory: Not enough space"])


class ForkServer:
    """The client side; one server per test process, started on first use."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ttmem-forks-")
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )
        self._lock = threading.Lock()
        atexit.register(self.close)

    def run(
        self, arguments: list[str], *, environment: dict[str, str], folder: str, stdin: bytes, timeout: float
    ) -> tuple[int, bytes, bytes]:
        """Run a command line to its end; raises ``subprocess.TimeoutExpired`` as ``subprocess.run`` does."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            place = Path(self._folder.name)
            (place / "in").write_bytes(stdin)
            request = {"arguments": arguments, "environment": environment, "cwd": folder, "timeout": timeout}
            self._process.stdin.write(json.dumps(request | {"place": str(place)}) + "\n")
            self._process.stdin.flush()
            code: int | None = json.loads(self._process.stdout.readline())
            out, err = (place / "out").read_bytes(), (place / "err").read_bytes()
        if code is None:
            raise subprocess.TimeoutExpired(["ttmem", *arguments], timeout, out, err)
        return code, out, err

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait(30)
        self._folder.cleanup()


@contextlib.contextmanager
def forking_program(folder: Path, environment: dict[str, str]) -> Iterator[Path]:
    """A program ``ttmem`` for shells, which hands its descriptors to a fork of a warm process."""
    address = folder / "socket"
    server = subprocess.Popen([sys.executable, __file__, str(address)], stdin=subprocess.PIPE, env=environment)
    program = folder / "ttmem"
    program.write_text(f"#!{sys.executable} -IS\n" + _PROGRAM.format(address=str(address)))
    program.chmod(0o755)
    while not address.exists() and server.poll() is None:
        time.sleep(0.02)
    yield program
    assert server.stdin is not None
    server.stdin.close()
    server.terminate()
    server.wait(30)


_PROGRAM = """\
import json, os, socket, sys

with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    request = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
    socket.send_fds(server, [len(request).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(request)
    code = server.recv(16)
sys.exit(int(code) if code else 70)
"""


def _listen(address: str) -> None:
    """Serve ``forking_program``: a fork for each connection, several at a time as a pipe needs them."""
    main = _warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks report to their connection, nobody waits for them
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(16)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                size, descriptors, _, _ = socket.recv_fds(connection, 8, 3)
                text = b""
                while len(text) < int.from_bytes(size, "big"):
                    text += connection.recv(1 << 20)
                arguments, environment, folder = json.loads(text)
                request = {"arguments": arguments, "environment": environment, "cwd": folder}
                _run(main, request | {"descriptors": descriptors}, connection)
            connection.close()


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    main = _warm_up()
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(main, asked, None)
        answers.write(json.dumps(_wait(child, asked["timeout"])) + "\n")
        answers.flush()


def _warm_up() -> Callable[[list[str]], int]:
    """Run a few verbs: their imports and compiled patterns are inherited by every fork."""
    from ttmem.commands.program import main

    silent, kept = os.open(os.devnull, os.O_WRONLY), (os.dup(1), os.dup(2))
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    for line in _WARM:
        with contextlib.suppress(SystemExit):
            main(list(line))
    sys.stdout.flush()
    os.dup2(kept[0], 1)
    os.dup2(kept[1], 2)
    gc.collect()
    gc.freeze()
    return main


def _run(main, asked, connection) -> None:
    """Be the command line; never returns."""
    code = 70
    try:
        os.setpgid(0, 0)
        os.environ.clear()
        os.environ.update(asked["environment"])
        os.chdir(asked["cwd"])
        for number, descriptor in enumerate(asked.get("descriptors") or _open_files(Path(asked["place"]))):
            os.dup2(descriptor, number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdin, sys.stdout, sys.stderr = (  # open until the process ends
            open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
            for number, mode, errors in ((0, "r", "surrogateescape"), (1, "w", "strict"), (2, "w", "backslashreplace"))
        )
        sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
        sys.argv = ["-c", *asked["arguments"]]
        try:
            result = main()
            code = 0 if result is None else int(result)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        except BaseException:
            sys.excepthook(*sys.exc_info())
            code = 1
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        if connection is not None:
            connection.sendall(str(code).encode())
    finally:
        os._exit(code)


def _open_files(place: Path) -> list[int]:
    new = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    return [os.open(place / name, flags, 0o600) for name, flags in (("in", os.O_RDONLY), ("out", new), ("err", new))]


def _wait(child: int, timeout: float) -> int | None:
    """Return the exit status, as ``subprocess`` has it; None after ending a child that took too long."""
    end = time.monotonic() + timeout
    pause = 0.001
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)


if __name__ == "__main__":
    _listen(sys.argv[1]) if sys.argv[1:] else _serve()
