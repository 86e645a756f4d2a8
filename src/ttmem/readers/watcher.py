# SPDX-License-Identifier: Apache-2.0
"""A watcher log: which processors stood in a circular buffer's wait, which buffers were not empty, who waits."""

import re
from collections.abc import Iterable

from ttmem.profile.source_facts import CoreState, HeldBuffer, WatcherFacts
from ttmem.readers.byte_source import Head

KIND = "watcher-log"
TITLE = "log of the watcher (TT_METAL_WATCHER)"

_CORE = re.compile(
    r"\bcore ?\(x=\s{0,9}(?P<x>\d{1,6}),\s{0,9}y=\s{0,9}(?P<y>\d{1,6})\)[^:]{0,200}:\s*(?P<rest>.*)", re.IGNORECASE
)
_WAYPOINTS = re.compile(r"\s*(?P<points>\w+(?:\s*,\s*\w+){1,})")
_DEVICE = re.compile(r"\bDevice (\d{1,6})\b")
_KERNEL_IDS = re.compile(r"k_ids:\s{0,9}(?P<ids>(?:\d{1,9}\|?){1,16})")
_KERNEL_NAME = re.compile(r"\bk_id\s{0,9}\[?\s{0,9}(?P<id>\d{1,9})\]?:\s{0,99}(?P<name>\S.*)")
_BUFFER = re.compile(r"cb\[(?P<index>\d{1,6})\]\(rcv (?P<received>\d{1,18})!=ack (?P<acknowledged>\d{1,18})\)")
_DUMP = re.compile(r"\bDump #?(?P<number>\d{1,9})")
OVERFLOW = "NOC transaction overflows a circular buffer"
_COUNTER_RANGE = 1 << 16
"""The counters have 16 bits, so their difference is taken modulo 65536."""
_MOST_CORES = 2000


def sniff(head: Head) -> bool:
    """True when a core's state is near the beginning; further below, only reading shows it."""
    return head.is_text and read(head.lines) is not None


def read(lines: Iterable[str]) -> WatcherFacts | None:
    """Return the facts of a whole log; None when it is no watcher log."""
    reader = WatcherReader()
    reader.take(lines)
    return reader.facts()


class WatcherReader:
    """Takes the lines of a watcher log as they come."""

    def __init__(self) -> None:
        self._line = 0
        self._dumps = 0
        self._cores: dict[tuple[int, int, int], CoreState] = {}
        self._kernels: dict[int, str] = {}
        self._overflows: list[int] = []

    def take(self, lines: Iterable[str]) -> None:
        """Look at some more lines."""
        for line in lines:
            self._line += 1
            if OVERFLOW in line:
                self._overflows.append(self._line)
            if "k_id" in line and (named := _KERNEL_NAME.search(line)):
                self._kernels[int(named["id"])] = named["name"].strip()
            elif "Dump" in line and _DUMP.search(line):
                self._dumps += 1
            elif "ore" in line and (found := _CORE.search(line[:2000])):
                self._take_core(line, found)

    def facts(self) -> WatcherFacts | None:
        """Return the facts found; None when this is no watcher log."""
        if not self._cores and not self._overflows:
            return None
        return WatcherFacts(self._dumps, tuple(self._cores.values()), dict(self._kernels), tuple(self._overflows))

    def _take_core(self, line: str, found: re.Match[str]) -> None:
        points = _WAYPOINTS.match(found["rest"])
        if points is None or ("rmsg:" not in line and "k_ids:" not in line):
            return
        device = _DEVICE.search(line)
        ids = _KERNEL_IDS.search(line)
        key = (int(device[1]) if device else 0, int(found["x"]), int(found["y"]))
        if key not in self._cores and len(self._cores) >= _MOST_CORES:
            return
        self._cores[key] = CoreState(
            *key,
            waypoints=tuple(point.strip() for point in points["points"].split(",")),
            kernel_ids=tuple(int(word) for word in ids["ids"].split("|") if word) if ids else (),
            held=tuple(
                HeldBuffer(int(one["index"]), (int(one["received"]) - int(one["acknowledged"])) % _COUNTER_RANGE)
                for one in _BUFFER.finditer(line)
            ),
            line=self._line,
        )
