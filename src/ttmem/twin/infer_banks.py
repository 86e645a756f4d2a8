# SPDX-License-Identifier: Apache-2.0
"""Infer a board's bank sizes from the output of a real run: an error message, a log's memory blocks, a capture.

Builds differ from the published wheels (profiler, print region, firmware), so their banks differ too. Out-of-memory
messages and the device table of a capture give bytes. The memory blocks of a runtime log give MiB with three decimals;
a bank table completes them where one matches.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ttmem.base.errors import BadInputError
from ttmem.hardware import (
    BOARDS,
    DEFAULT_RELEASE,
    DRAM,
    L1,
    L1_SMALL,
    RELEASES,
    TRACE,
    Architecture,
    Board,
    MemoryMap,
    OpenSettings,
    Pool,
    Release,
    open_board,
)

_MIB = 1 << 20
_ROUNDING_BYTES = 525
"""Half of the last printed digit of a log's MiB, rounded up."""
_USUAL_L1_SMALL = (0, 32768, 65536, 24576, 16384, 8192)
_NUMBER = r"([0-9][0-9,]*)"
_OUT_OF_MEMORY = re.compile(
    rf"(DRAM|L1_SMALL|L1|TRACE) buffer across {_NUMBER} banks, where each bank needs to store {_NUMBER} B, "
    rf"but bank size is (?:only )?{_NUMBER} B"
)
_MEMORY_BLOCK = re.compile(
    r"Device (DRAM|L1_SMALL|L1|TRACE) memory state: MemoryView\{numBanks: (\d+), totalBytesPerBank: ([0-9.]+) MB"
)
_DEVICE_TABLE = re.compile(r'"(l1_num_banks|l1_bank_size|num_dram_channels|address_at_first_l1_cb_buffer)"\s*:\s*(\d+)')
_MESSAGE_BREAK = re.compile(r"\s*\n\s*")


@dataclass(frozen=True, slots=True)
class BankEvidence:
    """The bank size of one memory according to one source."""

    banks: int | None
    bytes_per_bank: int
    error_bytes: int
    """0: exact. Otherwise the true size is within this of the figure."""
    words: str


def find_evidence(lines: Iterable[str]) -> dict[str, BankEvidence]:
    """Return bank sizes by memory name from the lines of a log, a capture or a message; exact sources win."""
    found: dict[str, BankEvidence] = {}
    table: dict[str, int] = {}
    previous = ""
    for line in lines:
        broken = "Out of Memory" in previous
        if not (broken or "ank" in line or "Out of Memory" in line):  # most lines of a log, at the price of a search
            previous = ""
            continue
        # A terminal or a chat may have broken the message between two words.
        joined = _MESSAGE_BREAK.sub(" ", f"{previous} {line}") if broken else line
        previous = line.rstrip("\n")
        for match in _OUT_OF_MEMORY.finditer(joined):
            memory, banks, _, size = match.groups()
            _keep(found, memory, BankEvidence(_parse_number(banks), _parse_number(size), 0, "an out-of-memory message"))
        for match in _MEMORY_BLOCK.finditer(line):
            memory, banks, size = match.groups()
            exact = round(float(size) * _MIB)
            _keep(found, memory, BankEvidence(int(banks), exact, _ROUNDING_BYTES, "a log's memory block"))
        for match in _DEVICE_TABLE.finditer(line):
            table[match[1]] = int(match[2])
    if "l1_bank_size" in table:
        evidence = BankEvidence(table.get("l1_num_banks"), table["l1_bank_size"], 0, "a capture's device table")
        _keep(found, L1.name, evidence)
    return found


def _parse_number(text: str) -> int:
    return int(text.replace(",", ""))


def _keep(found: dict[str, BankEvidence], memory: str, evidence: BankEvidence) -> None:
    known = found.get(memory)
    if known is None or evidence.error_bytes < known.error_bytes:
        found[memory] = evidence


def learn_board(lines: Iterable[str], board: Board | str | None = None) -> MemoryMap:
    """Return the memory map that fits the evidence; bank tables supply the other sizes."""
    evidence = find_evidence(lines)
    if not evidence:
        raise BadInputError(
            "no bank sizes in this evidence",
            hint="give an out-of-memory message with its bank size, a log with memory blocks, or a capture's report",
        )
    if isinstance(board, str):
        board = BOARDS.find(board)
    found = board or _guess_board(evidence)
    _check_banks(found, evidence)
    release, base, small = _infer_l1(found.architecture, evidence)
    memory_map = open_board(found, OpenSettings(l1_small_bytes=small), release)
    warnings = list(memory_map.warnings)
    banks = evidence[L1.name].banks if L1.name in evidence else None
    grid = next((candidate for _, candidate in found.grids if candidate.cores == banks), memory_map.grid)
    dram_base, dram_bytes, trace_bytes, notes = _infer_dram(found.architecture, memory_map, evidence)
    warnings += notes
    l1_end = found.architecture.l1_bytes_per_core - small
    used = ", ".join(sorted({one.words for one in evidence.values()}))
    blurred = [name for name, one in evidence.items() if one.error_bytes]
    if blurred:
        warnings.append(
            f"{' and '.join(blurred)} from a rounded log: exact if the build is {release}, else within "
            f"{_ROUNDING_BYTES} B per bank"
        )
    return replace(
        memory_map,
        grid=grid,
        dram=Pool(DRAM, found.dram_banks, dram_base, dram_bytes),
        l1=Pool(L1, grid.cores, base, l1_end - base),
        l1_small=Pool(L1_SMALL, grid.cores if small else 0, l1_end, small),
        trace=Pool(TRACE, found.dram_banks, dram_base + dram_bytes, trace_bytes),
        l1_base_address=base,
        source=f"learned from {used}",
        warnings=tuple(warnings),
    )


def _guess_board(evidence: dict[str, BankEvidence]) -> Board:
    """Return the one-chip board with this number of DRAM banks or, without DRAM evidence, of cores."""
    dram = evidence.get(DRAM.name) or evidence.get(TRACE.name)
    for candidate in BOARDS:
        if candidate.chips != 1:
            continue
        if dram is not None and dram.banks == candidate.dram_banks:
            return candidate
        l1 = evidence.get(L1.name)
        if dram is None and l1 is not None and any(grid.cores == l1.banks for _, grid in candidate.grids):
            return candidate
    raise BadInputError("the evidence does not say which board it is from", hint="name the board as well")


def _check_banks(board: Board, evidence: dict[str, BankEvidence]) -> None:
    dram = evidence.get(DRAM.name)
    # A sharded buffer names its cores, not all banks, so fewer is no contradiction.
    if dram is not None and dram.banks is not None and dram.banks > board.dram_banks:
        raise BadInputError(
            f"the evidence has {dram.banks} DRAM banks, {board.name} has {board.dram_banks}",
            hint="name the board that the evidence is from",
        )


def _matches(evidence: BankEvidence, size: int) -> bool:
    return abs(evidence.bytes_per_bank - size) <= evidence.error_bytes


def _infer_l1(architecture: Architecture, evidence: dict[str, BankEvidence]) -> tuple[Release, int, int]:
    """Return the release, L1 base and L1_SMALL size that explain the evidence; newest release first."""
    known = [r for r in RELEASES if any(name == architecture.name for name, _ in r.reserved)]
    nearest = DEFAULT_RELEASE if DEFAULT_RELEASE in known else known[0]
    l1, small = evidence.get(L1.name), evidence.get(L1_SMALL.name)
    if small is not None:
        rounded = [s for s in _USUAL_L1_SMALL if _matches(small, s)]
        small_sizes = rounded[:1] or [small.bytes_per_bank]
    else:
        small_sizes = list(_USUAL_L1_SMALL)
    if l1 is None:
        return nearest, nearest.find_reserved(architecture).l1_base_address, small_sizes[0] if small is not None else 0
    for size in small_sizes:
        for release in known:
            base = release.find_reserved(architecture).l1_base_address
            if _matches(l1, architecture.l1_bytes_per_core - base - size):
                return release, base, size
    size = small_sizes[0]
    base = architecture.l1_bytes_per_core - size - l1.bytes_per_bank
    if base <= 0:
        raise BadInputError(f"an L1 bank of {l1.bytes_per_bank} B is more than a core of {architecture.name} has")
    return nearest, base, size


def _infer_dram(
    architecture: Architecture, memory_map: MemoryMap, evidence: dict[str, BankEvidence]
) -> tuple[int, int, int, list[str]]:
    """Return the DRAM base, the bank size, the trace region above it, and notes."""
    base, dram = memory_map.dram.base_address, evidence.get(DRAM.name)
    trace = evidence.get(TRACE.name)
    trace_bytes = trace.bytes_per_bank if trace is not None else 0
    if dram is None:
        return base, architecture.dram_bytes_per_bank - base - trace_bytes, trace_bytes, []
    for candidate, words in sorted(_list_builds(architecture), key=lambda build: build[0] != base):
        size = architecture.dram_bytes_per_bank - candidate - trace_bytes
        if _matches(dram, size):
            return candidate, size, trace_bytes, [] if candidate == base else [f"a build with {words} regions in DRAM"]
    missing = architecture.dram_bytes_per_bank - base - trace_bytes - dram.bytes_per_bank
    release = f"those of ttnn {memory_map.release.name}"
    note = (
        f"DRAM banks are {missing:,} B smaller than {release} (trace, profiler or print regions); addresses in DRAM "
        "assume that the difference is above the tensors"
        if missing > 0
        else f"DRAM banks are {-missing:,} B larger than {release}: another build or release"
    )
    return base, dram.bytes_per_bank, trace_bytes, [note]


def _list_builds(architecture: Architecture) -> list[tuple[int, str]]:
    """Return all DRAM bases that a build of the library can have, with the regions below each."""
    (always, first), *optional = architecture.dram_regions
    builds = [(first, always)]
    for name, size in optional:
        builds += [(base + size, f"{words}, {name}") for base, words in builds]
    return builds
