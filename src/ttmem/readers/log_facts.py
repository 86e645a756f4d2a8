# SPDX-License-Identifier: Apache-2.0
"""Facts about circular buffers in a log, line by line.

The runtime logs no allocation, reserve, push or pop of a circular buffer at any level. What exists: a few operations
print their own buffers at debug level, the allocator prints the L1 map, the loader the size of kernel binaries, and
programs print what they like; kernels can print ``TTMEM cb=.. op=.. n=.. t=..`` lines (docs/circular-buffers.md).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from ttmem.base import toml
from ttmem.profile.source_facts import BUFFER, EVENT, EventCounts, Fact, LogFacts
from ttmem.readers.byte_source import Head

KIND = "log"
TITLE = "log of a program"

MOST_FACTS_PER_KIND = 1000
_MOST_LINE_CHARACTERS = 2000

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_DEBUG_LEVEL = re.compile(r"\|\s*(?:debug|trace|DEBUG|TRACE)\s*\||\[(?:debug|trace)\]|\bDEBUG\s+\|")
_LOGGER = re.compile(
    r"\|\s*(?:trace|debug|info|warn|warning|error|critical|fatal|INFO|DEBUG|WARNING|ERROR|FATAL)\s*\|"
    r"|\[(?:info|debug|warning|error|critical)\]"
)
_HEX = re.compile(r"0x[0-9A-Fa-f]+")
_NUMBER = re.compile(r"-?\d{1,18}")
_ANCHOR = re.compile(
    r"CB|_cb|DFB|CircularBuffer|ircular [Bb]uffer|Dataflow Buffers|RISC=|partition params|num_tiles=|num_slices="
    r"|verification:|Large workload|TTMEM cb="
)
"""Every pattern contains one of these; most lines of a log contain none."""


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """(kind of fact, line that says it), in the order in which they are tried."""
    lines = toml.load_packaged("ttmem.readers", "log_facts.toml")
    return tuple((kind, re.compile(pattern)) for kind, patterns in lines.items() for pattern in patterns)


class LogFactsReader:
    """Takes lines as they come; a log may be larger than memory."""

    def __init__(self) -> None:
        self._lines = self._logger_lines = self._debug_lines = 0
        self._facts: dict[str, list[Fact]] = {}
        self._counts: Counter[str] = Counter()
        self._events: dict[int, EventCounts] = {}

    def take(self, lines: Iterable[str]) -> None:
        """Look at some more lines."""
        for line in lines:
            self._lines += 1
            line = line[:_MOST_LINE_CHARACTERS]
            if "|" in line or "[" in line:
                self._logger_lines += bool(_LOGGER.search(line))
                self._debug_lines += bool(_DEBUG_LEVEL.search(line))
            if _ANCHOR.search(line):
                self._look(_ESCAPES.sub("", line))

    def facts(self) -> LogFacts:
        """Return the facts found in the lines taken until now."""
        return LogFacts(
            self._lines,
            self._logger_lines,
            self._debug_lines,
            MappingProxyType({kind: tuple(found) for kind, found in self._facts.items()}),
            MappingProxyType(dict(self._counts)),
            MappingProxyType(self._events),
        )

    def _look(self, line: str) -> None:
        for kind, pattern in _patterns():
            match = pattern.search(line)
            if match is None:
                continue
            values = {name: _parse_value(value) for name, value in match.groupdict().items() if value is not None}
            if kind == BUFFER and "bytes" not in values:
                values["bytes"] = int(values["page_bytes"]) * int(values["pages"])
            if kind == EVENT:
                self._count_event(values)
            self._counts[kind] += 1
            kept = self._facts.setdefault(kind, [])
            if len(kept) < MOST_FACTS_PER_KIND:
                kept.append(Fact(kind, self._lines, values))
            return

    def _count_event(self, values: Mapping[str, int | str]) -> None:
        seen = self._events.setdefault(int(values["index"]), EventCounts())
        operation, pages, cycle = str(values["operation"]), int(values["pages"]), int(values["cycles"])
        seen.pages[operation] += pages
        if operation in ("push", "pop"):
            seen.held += pages if operation == "push" else -pages
            seen.highest_held = max(seen.highest_held, seen.held)
        seen.first_cycle = cycle if seen.first_cycle is None else min(seen.first_cycle, cycle)
        seen.last_cycle = max(seen.last_cycle, cycle)


def sniff(head: Head) -> bool:
    """Any text may hold such lines."""
    return head.is_text


def read(lines: Iterable[str]) -> LogFacts:
    """The facts of a whole text."""
    reader = LogFactsReader()
    reader.take(lines)
    return reader.facts()


def _parse_value(value: str) -> int | str:
    if _HEX.fullmatch(value):
        return int(value, 16)
    return int(value) if _NUMBER.fullmatch(value) else value.strip()
