# SPDX-License-Identifier: Apache-2.0
"""The recording of a suite as files, one per process: what a process wrote is there even if it dies next.

A line is a message of the recorder; ``{"test": ID}`` says whose the following ones are, ``{"row": ...}`` what came of
a test.
"""

import faulthandler
import os
from os import getpid
from pathlib import Path
from time import monotonic_ns
from typing import Any

from .protocol import write_line


class Events:
    """Writes for whichever process it finds itself in: the copies that run tests are forks of the one that made it."""

    def __init__(self, folder: str, ttnn: str) -> None:
        """An empty ``folder`` writes nothing."""
        self._folder = folder
        self._ttnn = ttnn
        self._process = 0
        self._file = -1
        self._patience = 0.0

    def write(self, message: dict[str, Any]) -> None:
        """One message."""
        if not self._folder:
            return
        if self._process != getpid():
            self._process = getpid()
            place = Path(self._folder) / f"{monotonic_ns():020}-{self._process}.jsonl"
            self._file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            write_line(self._file, {"hello": 1, "ttnn": self._ttnn})
        write_line(self._file, message)
        if self._patience:
            faulthandler.dump_traceback_later(self._patience, file=self._file, exit=True)

    def watch(self, seconds: float) -> None:
        """From now on this process is ended when it writes nothing for so long, whatever holds it; what every thread
        was doing is then the last thing in the file (``HUNG``). 0 ends the watch."""
        self._patience = seconds
        faulthandler.cancel_dump_traceback_later()
