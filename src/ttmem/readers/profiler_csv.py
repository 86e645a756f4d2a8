# SPDX-License-Identifier: Apache-2.0
"""The device profiler's table of operations: how long compute really waited on circular buffers."""

import csv
from collections.abc import Iterable, Mapping
from itertools import dropwhile, islice

from ttmem.base.errors import BadInputError
from ttmem.base.limits import FACT_LINE_BYTES
from ttmem.profile.source_facts import MeasuredStall, ProfilerFacts
from ttmem.readers.byte_source import Head

KIND = "profiler-csv"
TITLE = "device profiler's table of operations (CSV)"

WAIT_FRONT = "DEVICE COMPUTE CB WAIT FRONT [ns]"
RESERVE_BACK = "DEVICE COMPUTE CB RESERVE BACK [ns]"
DURATION = "DEVICE KERNEL DURATION [ns]"
CORE_COUNT = "CORE COUNT"
_NAMES = ("OP CODE", "OP NAME", "OP TYPE")
_LINES_ABOVE = 20
_MOST = 1e18
"""Thirty years in nanoseconds: a larger figure is none, and sums of such would leave what a number can hold."""


def sniff(head: Head) -> bool:
    """True when the table's head is among the first lines; tools print a few lines of their own above it."""
    return head.is_text and any(map(_is_table_head, islice(head.lines, _LINES_ABOVE)))


def read(lines: Iterable[str], where: str = "") -> ProfilerFacts:
    """The rows that measured a wait."""
    csv.field_size_limit(FACT_LINE_BYTES)
    rows = csv.DictReader(dropwhile(lambda line: not _is_table_head(line), lines))
    try:
        has_columns = not {WAIT_FRONT, RESERVE_BACK}.isdisjoint(rows.fieldnames or ())
        stalls = [_read_stall(row, rows.line_num) for row in rows]
    except csv.Error as error:
        raise BadInputError(f"is not a table: {error}", where=f"{where}:{rows.line_num}") from error
    return ProfilerFacts(len(stalls), has_columns, tuple(stall for stall in stalls if stall is not None))


def _read_stall(row: Mapping[str, str | None], line: int) -> MeasuredStall | None:
    duration = _number(row.get(DURATION))
    front, back = _number(row.get(WAIT_FRONT)), _number(row.get(RESERVE_BACK))
    if duration is None or (front is None and back is None):
        return None
    cores = _number(row.get(CORE_COUNT))
    name = next((text for key in _NAMES if (text := row.get(key))), "")
    return MeasuredStall(name, line, duration, front or 0.0, back or 0.0, int(cores) if cores else None)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < _MOST else None


def _is_table_head(line: str) -> bool:
    return DURATION in line or WAIT_FRONT in line or RESERVE_BACK in line
