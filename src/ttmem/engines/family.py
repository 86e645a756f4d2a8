# SPDX-License-Identifier: Apache-2.0
"""The processes of a run, and how they end together.

A script's forked children may have another session, parent or environment. They are found by any of: the mark in the
environment that they were started with, the session of the run (where it has one), an ancestor found so. A process that
gives up all of these before its parent ends is not found. The mark holds the random name of a private folder, so no
other process carries it.

Also runs as a file, by a Python without ttmem on its path: the guard, which ends the family when ttmem was killed.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_ROUNDS, _ROUND_SECONDS = 20, 0.05
_DISMISSED = b"."
"""Sent to the guard when the run ends normally; when ttmem is killed, the guard's input just ends."""


class ProcessFamily:
    """The processes that carry a mark. Ends with ``close``, and also when this process is killed before that."""

    def __init__(self, mark: str, leftovers: Sequence[Path] = ()) -> None:
        """``leftovers`` are removed by this process at its end, or by the guard when it is killed."""
        self._mark = mark
        self._session = 0
        reading, self._writing = os.pipe()
        try:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, mark, *map(str, leftovers)],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # it outlives a signal to our process group
            )
        finally:
            os.close(reading)

    def has_session(self, session: int) -> None:
        self._session = session
        self._send(f"{session}\n".encode())

    def end(self) -> None:
        end_family(self._mark, self._session)

    def close(self) -> None:
        """End what is left, and the guard."""
        self.end()
        self._send(_DISMISSED)
        os.close(self._writing)
        self._guard.wait()

    def _send(self, words: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self._writing, words)


def end_family(mark: str, session: int) -> None:
    for _ in range(_ROUNDS):  # one that was just starting another is found in the next round
        found = find_members(mark, session) - {os.getpid()}
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return
        time.sleep(_ROUND_SECONDS)


def find_members(mark: str, session: int) -> set[int]:
    """Return the living processes of the family; none where /proc is missing."""
    wanted = mark.encode()
    marked: set[int] = set()
    of_session: set[int] = set()
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent, _, own_session = (place / "stat").read_bytes().rpartition(b")")[2].split()[:4]
            if state in (b"Z", b"X"):
                continue
            pid = int(place.name)
            children.setdefault(int(parent), []).append(pid)
            if session and int(own_session) == session:
                of_session.add(pid)
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                marked.add(pid)
    if session not in of_session - marked:  # else our session has ended and its number was reused
        marked |= of_session
    rest = list(marked)
    while rest:
        new = [pid for pid in children.get(rest.pop(), ()) if pid not in marked]
        marked.update(new)
        rest += new
    return marked


def main() -> None:
    """Run ``family.py MARK LEFTOVERS...``: wait until ttmem dismisses the guard or dies; then end the family and remove
    what ttmem would have removed."""
    words = b""
    while chunk := os.read(0, 4096):
        words += chunk
    if words.endswith(_DISMISSED):
        return
    end_family(sys.argv[1], int(words or 0))
    for place in map(Path, sys.argv[2:]):
        with contextlib.suppress(OSError):
            shutil.rmtree(place) if place.is_dir() else place.unlink()


if __name__ == "__main__":
    main()
