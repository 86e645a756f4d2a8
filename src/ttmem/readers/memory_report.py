# SPDX-License-Identifier: Apache-2.0
"""tt-metal's memory reports: ``EnableMemoryReports()`` writes three CSV files, with a row group per new program.

A row is the state when a program is launched for the first time, its results already allocated. It has the number of
the program, not its name. The rows of a group are DRAM, L1 and (since September 2025) L1_SMALL, unlabelled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ttmem.base.errors import BadInputError
from ttmem.base.limits import DOCUMENT_BYTES
from ttmem.base.text_files import read_bytes
from ttmem.engines.worker.graph_nodes import parse_number
from ttmem.readers.byte_source import Head

if TYPE_CHECKING:
    from ttmem.profile.model import BufferTable, Profile, Timeline
    from ttmem.profile.tables import ProfileTables, View
    from ttmem.readers.registry import ReadOptions

KIND = "tt-metal-memory-report"
TITLE = "memory reports of tt-metal (CSV files)"
_SUMMARY = "memory_usage_summary.csv"
_HEADER = re.compile(r"Total Allocatable Size \((K?)B\)")
_FOLDERS = ("", "reports", "generated/reports")
_DETAILED = "detailed_memory_usage.csv"
_PROGRAMS = f"program_{_SUMMARY}"
_ROWS = ("DRAM", "L1", "L1_SMALL")
_ROW = re.compile(r"(\d*),(\d+),(\d+),(\d+),(\d+)")
_SECTION = re.compile(r"^(\d*),(DRAM|L1|L1_SMALL)[ \t]*$", re.MULTILINE)
"""Where a memory begins in the detailed file, which is not CSV; a number: that of the program that starts here."""
_TAKEN_BLOCK = re.compile(r"^\s*\d+[ \t]+(\d+)[ \t]+(\d+)(?:[ \t]+(?:none|\d+)){2}[ \t]+yes[ \t]*$", re.MULTILINE)
_WHOLE = re.compile(r"^,Total allocatable \(B\):,(\d+)", re.MULTILINE)
_EMPTY = "the files are written out by ttnn._ttnn.device.DisableMemoryReports() or when the process ends in order"
_OF_PROGRAMS = (
    "a row is written when a program is launched for the first time: repeats, operation names and the "
    "programs' own L1 are not in these files; addresses of blocks count from the start of the bank"
)

Figures = tuple[int, int, int, int]
"""Total, allocated, free, largest free: bytes per bank."""
_Block = tuple[int, int, int]
"""Memory, address and bytes of a block."""


_Group = tuple[str, list[Figures]]
"""The rows of one program (its number), or of one dump."""


class _DetailedMemory(NamedTuple):
    """A memory in the detailed file: bytes of all banks, and the blocks that are taken."""

    whole_bytes: int
    blocks: tuple[tuple[int, int], ...]
    """(address within the bank, bytes)."""


def sniff(head: Head) -> bool:
    """The summary among the files, or a folder that has one where tt-metal puts it."""
    if head.is_folder and head.path is not None:
        return _find_folder(head.path) is not None
    return _HEADER.search(head.content[:200].decode("ascii", "replace")) is not None


def _find_folder(folder: Path) -> Path | None:
    """Return the folder that holds the files."""
    blocks = (folder / block for block in _FOLDERS)
    return next((block for block in blocks if any(block.glob(f"*{_SUMMARY}"))), None)


def read(source: str | Path, options: ReadOptions) -> Profile:
    """Read the memory history in a folder of reports, or next to one summary file."""
    from ttmem.profile.model import Source
    from ttmem.profile.tables import ProfileTables

    path = _find_folder(Path(source)) or Path(source)
    summaries = [path] if path.is_file() else _summaries(path)
    tables = ProfileTables()
    warnings: list[str] = []
    groups: list[_Group] = []
    details: list[dict[str, _DetailedMemory]] = []
    for summary in summaries:
        found = _groups(summary, warnings)
        groups += found
        details += _details(summary.with_name(summary.name.removesuffix(_SUMMARY) + _DETAILED), len(found))
    programs = summaries[0].name == _PROGRAMS or any(program for program, _ in groups)
    timeline = _timeline(groups, details, tables, programs=programs)
    warnings += _caveats(path, summaries, programs=programs)
    size_bytes = sum(summary.stat().st_size for summary in summaries)
    origin = Source(kind=KIND, name=str(path), bytes=size_bytes, lines=0, warnings=tuple(warnings))
    return tables.build([timeline], name=options.name, source=origin)


def _summaries(folder: Path) -> list[Path]:
    """The file of programs if there is one, else every dump, oldest first."""
    programs = folder / _PROGRAMS
    if programs.is_file():
        return [programs]
    found = sorted(folder.glob(f"*{_SUMMARY}"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    if not found:
        raise BadInputError(f"no {_SUMMARY} in this folder", where=str(folder), hint=_EMPTY)
    return found


def _groups(summary: Path, warnings: list[str]) -> list[_Group]:
    lines = _text(summary).splitlines()
    header = _HEADER.search(lines[0]) if lines else None
    if header is None:
        what = "is empty" if not lines else "does not begin like a memory report"
        raise BadInputError(what, where=str(summary), hint=_EMPTY)
    unit = 1024 if header[1] else 1
    groups: list[_Group] = []
    for number, line in enumerate(lines[1:], start=2):
        row = _ROW.fullmatch(line.strip())
        if row is None:
            if line.strip():
                warnings.append(f"{summary.name}:{number}: the row is damaged or cut")
            continue
        if row[1] or not groups or len(groups[-1][1]) == len(_ROWS):
            groups.append((row[1], []))
        total, allocated, free, largest = (parse_number(figure) * unit for figure in row.groups()[1:])
        groups[-1][1].append((total, allocated, free, largest))
    if not groups:
        raise BadInputError("holds a header and no program", where=str(summary), hint=_EMPTY)
    return groups


def _text(path: Path) -> str:
    return read_bytes(path, most=DOCUMENT_BYTES, what="a memory report").decode("utf-8", "replace")


def _details(path: Path, groups: int) -> list[dict[str, _DetailedMemory]]:
    """Per group and memory what the detailed file says; empty entries where it does not."""
    found: list[dict[str, _DetailedMemory]] = []
    _, *parts = _SECTION.split(_text(path) if path.is_file() else "")
    for program, memory, lines in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if program or not found or memory in found[-1]:
            found.append({})
        whole = _WHOLE.search(lines)
        blocks = tuple((parse_number(address), parse_number(size)) for address, size in _TAKEN_BLOCK.findall(lines))
        found[-1][memory] = _DetailedMemory(parse_number(whole[1]) if whole else 0, blocks)
    return (found + [{}] * groups)[:groups]


def _timeline(
    groups: Sequence[_Group], details: Sequence[dict[str, _DetailedMemory]], tables: ProfileTables, *, programs: bool
) -> Timeline:
    from ttmem.profile.model import BEFORE_OPERATION, MEMORIES, SNAPSHOT
    from ttmem.profile.tables import States, build_timeline

    states = States()
    for number, ((_, rows), detail) in enumerate(zip(groups, details, strict=True)):
        views: dict[int, View] = {}
        for memory, figures in zip(_ROWS, rows, strict=False):
            whole = detail[memory].whole_bytes if memory in detail else 0
            views[MEMORIES.index(memory)] = (whole // figures[0] if figures[0] else 0, *figures)
        # The program's results are allocated already, so what is new since the state before is its own doing.
        operation = number if programs else -1
        states.add(BEFORE_OPERATION if programs else SNAPSHOT, operation, operation, tables.add_views(views))
    forms = [tables.add_form("program", location=f"program {program}") for program, _ in groups if programs]
    banks = [tables.banks(views[column] for views in states.views) for column in range(len(MEMORIES))]
    return build_timeline(forms, states, buffers=_buffers(details, banks))


def _buffers(details: Sequence[dict[str, _DetailedMemory]], banks: Sequence[int]) -> BufferTable | None:
    """Blocks with one address and size in successive states count as one buffer; their owners are not recorded."""
    from ttmem.profile.model import MEMORIES
    from ttmem.profile.tables import BufferEntry, build_buffer_table

    spans: list[tuple[_Block, list[int]]] = []
    alive: dict[_Block, list[int]] = {}
    for number, detail in enumerate(details):
        here: dict[_Block, list[int]] = {}
        for memory, stated in detail.items():
            for address, size in stated.blocks:
                block = (MEMORIES.index(memory), address, size)
                if block not in alive:
                    alive[block] = [number, number]
                    spans.append((block, alive[block]))
                here[block] = alive[block]
                here[block][1] = number
        alive = here
    if not spans:
        return None
    return build_buffer_table(
        [
            BufferEntry(address, column, size, size * banks[column], first, last, name="block")
            for (column, address, size), (first, last) in spans
        ]
    )


def _caveats(path: Path, summaries: Sequence[Path], *, programs: bool) -> list[str]:
    if not programs:
        return ["these dumps are snapshots: what ran before and between them is unknown"]
    caveats = [_OF_PROGRAMS]
    others = [file for file in path.glob(f"*{_SUMMARY}") if file not in summaries] if path.is_dir() else []
    if others:
        caveats.append(f"{len(others)} dumps in the folder are left out: when they were taken is not known")
    return caveats
