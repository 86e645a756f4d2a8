# SPDX-License-Identifier: Apache-2.0
"""tt-metal's memory reports: ``EnableMemoryReports()`` writes three CSV files, with a row group per new program.

A row is the state when a program is launched for the first time, its results already allocated. Which program it was
is not written, only its number; rows within a group are DRAM, L1 and (since September 2025) L1_SMALL, unlabelled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ttmem._errors import BadInputError
from ttmem.profile import BEFORE_OPERATION, MEMORIES, SNAPSHOT, BufferTable, Profile, Source, Timeline
from ttmem.profile.operation_forms import Int32
from ttmem.readers.capture._profile import CapturedTables
from ttmem.readers.memory_report import HEADER, KIND, SUMMARY

_DETAILED = "detailed_memory_usage.csv"
_PROGRAMS = f"program_{SUMMARY}"
_ROWS = ("DRAM", "L1", "L1_SMALL")
_ROW = re.compile(r"(\d*),(\d+),(\d+),(\d+),(\d+)")
_SECTION = re.compile(r"(\d*),(DRAM|L1|L1_SMALL)\s*")
_BLOCK = re.compile(r"\s*\d+\s+(\d+)\s+(\d+)\s+(?:none|\d+)\s+(?:none|\d+)\s+(yes|no)\s*")
_WHOLE = re.compile(r",Total allocatable \(B\):,(\d+)")
_EMPTY = "the files are written out by ttnn._ttnn.device.DisableMemoryReports() or when the process ends in order"

Figures = tuple[int, int, int, int]
"""Total, allocated, free, largest free: bytes per bank."""


@dataclass(frozen=True, slots=True)
class _Group:
    """The rows of one program, or of one dump."""

    program: str
    rows: tuple[Figures, ...]


@dataclass(frozen=True, slots=True)
class _Detail:
    """One memory in the detailed file: bytes of all banks, and the blocks that are taken."""

    whole_bytes: int
    blocks: tuple[tuple[int, int], ...]
    """(address within the bank, bytes)."""


def read_memory_report(path: str | Path, *, name: str) -> Profile:
    """The memory history in a folder of reports, or beside one summary file."""
    path = Path(path)
    summaries = [path] if path.is_file() else _summaries(path)
    tables = CapturedTables()
    warnings: list[str] = []
    groups: list[_Group] = []
    details: list[dict[str, _Detail]] = []
    for summary in summaries:
        found = _groups(summary, warnings)
        groups += found
        details += _details(summary.with_name(summary.name.removesuffix(SUMMARY) + _DETAILED), len(found))
    programs = summaries[0].name == _PROGRAMS or any(group.program for group in groups)
    timeline = _timeline(groups, details, tables, programs=programs)
    warnings += _caveats(path, summaries, programs=programs)
    size_bytes = sum(summary.stat().st_size for summary in summaries)
    source = Source(kind=KIND, name=str(path), bytes=size_bytes, lines=0, warnings=tuple(warnings))
    return tables.profile([timeline], name=name, source=source, facts={})


def _summaries(folder: Path) -> list[Path]:
    """The file of programs if there is one, else every dump, oldest first."""
    programs = folder / _PROGRAMS
    if programs.is_file():
        return [programs]
    found = sorted(folder.glob(f"*{SUMMARY}"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    if not found:
        raise BadInputError(f"no {SUMMARY} in this folder", where=str(folder), hint=_EMPTY)
    return found


def _groups(summary: Path, warnings: list[str]) -> list[_Group]:
    lines = _text(summary).splitlines()
    header = HEADER.search(lines[0]) if lines else None
    if header is None:
        what = "is empty" if not lines else "does not begin like a memory report"
        raise BadInputError(what, where=str(summary), hint=_EMPTY)
    unit = 1024 if header[1] else 1
    groups: list[tuple[str, list[Figures]]] = []
    for number, line in enumerate(lines[1:], start=2):
        row = _ROW.fullmatch(line.strip())
        if row is None:
            if line.strip():
                warnings.append(f"{summary.name}:{number}: the row is damaged or cut")
            continue
        if row[1] or not groups or len(groups[-1][1]) == len(_ROWS):
            groups.append((row[1], []))
        total, allocated, free, largest = (int(figure) * unit for figure in row.groups()[1:])
        groups[-1][1].append((total, allocated, free, largest))
    if not groups:
        raise BadInputError("holds a header and no program", where=str(summary), hint=_EMPTY)
    return [_Group(program, tuple(rows)) for program, rows in groups]


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}", where=str(path)) from error


def _details(path: Path, groups: int) -> list[dict[str, _Detail]]:
    """Per group and memory what the detailed file says; empty entries where it does not."""
    found: list[dict[str, _Detail]] = []
    if path.is_file():
        for first, memory, lines in _sections(_text(path)):
            if first or not found or memory in found[-1]:
                found.append({})
            blocks = [match for line in lines if (match := _BLOCK.fullmatch(line))]
            whole = next((match for line in lines if (match := _WHOLE.match(line))), None)
            found[-1][memory] = _Detail(
                int(whole[1]) if whole else 0,
                tuple((int(block[1]), int(block[2])) for block in blocks if block[3] == "yes"),
            )
    return (found + [{}] * groups)[:groups]


def _sections(text: str) -> Iterator[tuple[bool, str, list[str]]]:
    """(whether a program starts here, memory, lines) of the detailed file, which is not CSV."""
    current: tuple[bool, str, list[str]] | None = None
    for line in text.splitlines():
        section = _SECTION.fullmatch(line)
        if section:
            if current:
                yield current
            current = (bool(section[1]), section[2], [])
        elif current:
            current[2].append(line)
    if current:
        yield current


def _timeline(
    groups: Sequence[_Group], details: Sequence[dict[str, _Detail]], tables: CapturedTables, *, programs: bool
) -> Timeline:
    count = len(groups)
    view = np.full((count, len(MEMORIES)), -1, np.int32)
    for number, (group, detail) in enumerate(zip(groups, details, strict=True)):
        for memory, figures in zip(_ROWS, group.rows, strict=False):
            whole = detail[memory].whole_bytes if memory in detail else 0
            row = (whole // figures[0] if figures[0] else 0, *figures)
            view[number, MEMORIES.index(memory)] = tables.views.setdefault(row, len(tables.views))
    operations = np.arange(count, dtype=np.int32)
    outside = np.full(count, -1, np.int32)
    forms = [tables.add_form("program", ((), ()), "=", f"program {group.program}") for group in groups if programs]
    return Timeline(
        rank=-1,
        first_index=0,
        form=np.array(forms, np.int32),
        line=np.zeros(len(forms), np.int64),
        program=np.full(len(forms), -1, np.int32),
        block_kind=np.full(count, BEFORE_OPERATION if programs else SNAPSHOT, np.int8),
        block_operation=operations if programs else outside,
        # The program's results are allocated already, so what is new since the state before is its own doing.
        block_cause=operations if programs else outside,
        block_view=view,
        block_line=np.zeros(count, np.int64),
        buffers=_buffers(details, {memory: _banks(view, tables, memory) for memory in _ROWS}),
    )


def _banks(view: Int32, tables: CapturedTables, memory: str) -> int:
    numbers = view[:, MEMORIES.index(memory)]
    return max((row[0] for row, number in tables.views.items() if number in numbers), default=0)


def _buffers(details: Sequence[dict[str, _Detail]], banks: dict[str, int]) -> BufferTable | None:
    """Blocks with one address and size in successive states are taken for one buffer; nothing names their owners."""
    rows: list[list[int]] = []
    alive: dict[tuple[int, int, int], list[int]] = {}
    for number, detail in enumerate(details):
        here: dict[tuple[int, int, int], list[int]] = {}
        for memory, stated in detail.items():
            column = MEMORIES.index(memory)
            for address, size in stated.blocks:
                key = (column, address, size)
                if key not in alive:
                    alive[key] = [address, column, size, number, number]
                    rows.append(alive[key])
                alive[key][4] = number
                here[key] = alive[key]
        alive = here
    if not rows:
        return None
    table = np.array(rows, np.int64)
    unknown = np.full(len(rows), -1, np.int32)
    return BufferTable(
        address=table[:, 0].copy(),
        memory=table[:, 1].astype(np.int8),
        bytes_per_bank=table[:, 2].copy(),
        total_bytes=np.array([size * banks[MEMORIES[column]] for _, column, size, _, _ in rows], np.int64),
        first_block=table[:, 3].astype(np.int32),
        last_block=table[:, 4].astype(np.int32),
        producer=unknown,
        last_use=unknown,
        tensor_type=unknown,
        name=np.zeros(len(rows), np.int32),
        names=("block",),
    )


def _caveats(path: Path, summaries: Sequence[Path], *, programs: bool) -> list[str]:
    caveats = []
    if programs:
        caveats.append(
            "a row is written when a program is launched for the first time: repeats, operation names and the "
            "programs' own L1 are not in these files; addresses of blocks count from the start of the bank"
        )
        others = [file for file in path.glob(f"*{SUMMARY}") if file not in summaries] if path.is_dir() else []
        if others:
            caveats.append(f"{len(others)} dumps in the folder are left out: when they were taken is not known")
    else:
        caveats.append("these are dumps of moments: nothing tells what ran before or between them")
    return caveats
