# SPDX-License-Identifier: Apache-2.0
"""What a log says about circular buffers, line by line.

The runtime logs no allocation, reserve, push or pop of a circular buffer at any level. What exists: a few operations
print their own buffers at debug level, the allocator prints the L1 map, the loader the size of kernel binaries, and
programs print what they like; kernels can print ``TTMEM cb=.. op=.. n=.. t=..`` lines (docs/circular-buffers.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ttmem.evidence.log_facts import (
    BUFFER,
    CONFIG,
    DEPTH_REDUCED,
    DIRTY,
    EVENT,
    INDEX_GAP,
    KERNEL,
    L1_MAP,
    L1_USAGE,
    PROGRAM_BUFFERS,
    STREAMING,
    VERIFICATION,
    WORKLOAD,
    EventCounts,
    Fact,
    LogFacts,
)
from ttmem.readers.byte_source import Head

KIND = "log"
TITLE = "log of a program"
GIVES = "log facts"
ORDER = 95  # any text may hold such lines

MOST_FACTS_PER_KIND = 1000
_MOST_LINE_CHARACTERS = 2000

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_DEBUG_LEVEL = re.compile(r"\|\s*(?:debug|trace|DEBUG|TRACE)\s*\||\[(?:debug|trace)\]|\bDEBUG\s+\|")
_LOGGER = re.compile(
    r"\|\s*(?:trace|debug|info|warn|warning|error|critical|fatal|INFO|DEBUG|WARNING|ERROR|FATAL)\s*\|"
    r"|\[(?:info|debug|warning|error|critical)\]"
)
_HEX = re.compile(r"0x[0-9A-Fa-f]+\Z")
_NUMBER = re.compile(r"-?\d+\Z")


def _pattern(kind: str, text: str) -> tuple[str, re.Pattern[str]]:
    return kind, re.compile(text)


_PATTERNS = (
    _pattern(
        BUFFER, r"CB (?P<index>\d+) :: PS = (?P<page_bytes>\d+), NP = (?P<pages>\d+)(?:, TOTAL = (?P<bytes>\d+))?"
    ),
    _pattern(BUFFER, r"(?P<index>\w+_cb) :: PS = (?P<page_bytes>\d+), NP = (?P<pages>\d+)"),
    _pattern(BUFFER, r"input_cb: (?P<index>\d+), npages: (?P<pages>\d+), pagesize: (?P<page_bytes>\d+)"),
    _pattern(
        BUFFER,
        r"Core\((?P<x>\d+),(?P<y>\d+)\) CB\[(?P<index>\d+)\]: addr=(?P<address>0x[0-9a-f]+) "
        r"page_size=(?P<page_bytes>\d+) num_pages=(?P<pages>\d+)",
    ),
    _pattern(
        BUFFER, r"DFB (?P<index>\d+) size override applied: entry_size=(?P<page_bytes>\d+) num_entries=(?P<pages>\d+)"
    ),
    _pattern(
        PROGRAM_BUFFERS,
        r"Scalable CB allocation - CB0:(?P<cb0>\d+), CB1:(?P<cb1>\d+), CB2\+CB16:(?P<cb2_and_cb16>\d+) tiles\. "
        r"Total:(?P<tiles>\d+) tiles \((?P<kib>\d+)KB/(?P<target_kib>\d+)KB\)",
    ),
    _pattern(STREAMING, r"Large workload detected \((?P<a_tiles>\d+) A tiles, (?P<b_tiles>\d+) B tiles\)"),
    _pattern(
        WORKLOAD,
        r"num_tiles=(?P<num_tiles>\d+), mesh_devices=(?P<mesh_devices>\d+), tiles_per_shard=(?P<tiles_per_shard>\d+)",
    ),
    _pattern(VERIFICATION, r"verification: (?P<passed>\d+) / (?P<checked>\d+) passed"),
    _pattern(
        DEPTH_REDUCED, r"CircularBuffer depth reduced due to L1 pressure \(only (?P<available_bytes>\d+) B available\)"
    ),
    _pattern(
        L1_MAP,
        r"Configured partition params: worker_l1_size:(?P<worker_l1_bytes>0x[0-9A-Fa-f]+), "
        r"l1_unreserved_base:(?P<l1_base_address>0x[0-9A-Fa-f]+), l1_small_size:(?P<l1_small_bytes>0x[0-9A-Fa-f]+)",
    ),
    _pattern(KERNEL, r"\b(?P<processor>[A-Z]?RISC=\d+), name=(?P<name>[^,]+), size=(?P<bytes>\d+) \(bytes\)"),
    _pattern(
        L1_USAGE,
        r"L1 Usage Breakdown: local_cb_size = (?P<local_bytes>\d+), global_cb_size = (?P<global_bytes>\d+), "
        r"total = (?P<bytes>\d+)",
    ),
    _pattern(
        L1_USAGE, r"Trying num_slices=(?P<slices>\d+): L1 usage=(?P<bytes>\d+), available=(?P<available_bytes>\d+)"
    ),
    _pattern(L1_USAGE, r"(?P<bytes>\d+) B of CBs do not fit in (?P<available_bytes>\d+) B of L1"),
    _pattern(INDEX_GAP, r"Circular buffer indices are not contiguous.*?First unused index: (?P<first_unused>\d+)"),
    _pattern(
        CONFIG,
        r"(?:Circular|Dataflow) Buffers \(MCAST\):.*?config_size=(?P<config_bytes>\d+) bytes",
    ),
    _pattern(DIRTY, r"Dirty CB Detected: Core \((?P<x>\d+), ?(?P<y>\d+)\) CB (?P<index>\d+) was not flushed"),
    _pattern(
        EVENT,
        r"\bTTMEM cb=(?P<index>\d+) op=(?P<operation>reserve|push|wait|pop) n=(?P<pages>\d+) t=(?P<cycles>\d+)",
    ),
)
_ANCHOR = re.compile(
    r"CB|_cb|DFB|CircularBuffer|ircular [Bb]uffer|Dataflow Buffers|RISC=|partition params|num_tiles=|num_slices="
    r"|verification:|Large workload|TTMEM cb="
)
"""Every pattern contains one of these; most lines of a log contain none."""


class LogFactsReader:
    """Takes lines as they come; a log may be larger than memory."""

    def __init__(self) -> None:
        self._lines = self._logger_lines = self._debug_lines = 0
        self._facts: dict[str, list[Fact]] = {}
        self._counts: dict[str, int] = {}
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
        """What was found so far."""
        return LogFacts(
            self._lines,
            self._logger_lines,
            self._debug_lines,
            MappingProxyType({kind: tuple(found) for kind, found in self._facts.items()}),
            MappingProxyType(dict(self._counts)),
            MappingProxyType(self._events),
        )

    def _look(self, line: str) -> None:
        for kind, pattern in _PATTERNS:
            match = pattern.search(line)
            if match is None:
                continue
            values = {name: _typed(value) for name, value in match.groupdict().items() if value is not None}
            if kind == BUFFER and "bytes" not in values:
                values["bytes"] = int(values["page_bytes"]) * int(values["pages"])
            if kind == EVENT:
                self._count_event(values)
            self._counts[kind] = self._counts.get(kind, 0) + 1
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


def _typed(value: str) -> int | str:
    if _HEX.match(value):
        return int(value, 16)
    return int(value) if _NUMBER.match(value) and len(value) < 19 else value.strip()
