# SPDX-License-Identifier: Apache-2.0
"""Prefixes of the loggers that share a log, and the clock they read.

tt-mlir's runtime logger prints no time and always colours; the colours are optional here because logs pasted into
issues have lost them.
"""

from __future__ import annotations

from datetime import datetime, timedelta

OUT, ERR, PY, MARK = range(4)
"""Kinds of output: runtime and tt-metal lines (stdout), plug-in lines (stderr), Python lines (stderr), and a
callback that wants to know the byte position reached."""

_LEVEL_COLOURS = {"DEBUG": "38;5;240", "INFO": "38;5;69", "WARNING": "38;5;208", "FATAL": "31"}


def runtime_prefix(component: str, level: str, *, ansi: bool) -> bytes:
    """Component right-aligned in 23 columns, level in 8, each followed by ` | `."""
    if ansi:
        return f"\x1b[32m{component:>23}\x1b[0m | \x1b[1m\x1b[{_LEVEL_COLOURS[level]}m{level:>8}\x1b[0m | ".encode()
    return f"{component:>23} | {level:>8} | ".encode()


class Clock:
    """Strictly growing fake time; real time would make the log differ from run to run."""

    def __init__(self) -> None:
        self._start = datetime(2026, 5, 14, 1, 0, 0)
        self._milliseconds = 0

    def tick(self) -> tuple[str, float]:
        """`2026-05-14 01:00:00.003` and the seconds since the start."""
        self._milliseconds += 3
        now = self._start + timedelta(milliseconds=self._milliseconds)
        return now.isoformat(sep=" ", timespec="milliseconds"), self._milliseconds / 1000


def plugin_line(clock: Clock, file: str, line: int, level: str, message: str) -> bytes:
    """tt-xla's PJRT plug-in (C++ loguru): time, uptime, thread, file:line, level."""
    stamp, uptime = clock.tick()
    return f"{stamp} ({uptime:8.3f}s) [{'4F4456C0':>16}]{file:>23}:{line:<5d} {level:>4}| {message}\n".encode()


def metal_line(clock: Clock, level: str, component: str, message: str, source: str) -> bytes:
    """tt-metal's logger: lower-case level padded to 8, component right-aligned in 15, source at the end."""
    stamp, _ = clock.tick()
    return f"{stamp} | {level:<8} | {component:>15} | {message} ({source})\n".encode()


def python_line(clock: Clock, level: str, where: str, message: str) -> bytes:
    """Python loguru, as tt-xla's Python side uses it."""
    stamp, _ = clock.tick()
    return f"{stamp} | {level:<8} | {where} - {message}\n".encode()
