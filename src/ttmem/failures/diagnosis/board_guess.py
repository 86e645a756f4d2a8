# SPDX-License-Identifier: Apache-2.0
"""The board and the build of a failure, inferred from bank sizes, bank counts and core ranges.

A DRAM bank is the chip's bank minus what the build keeps at its bottom minus the trace region; an L1 bank is the L1 of
a core minus the base minus L1_SMALL. The parts are looked for among known ones, and where two sets of parts explain a
size equally well, neither is claimed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from ttmem.failures.failure import Failure
from ttmem.failures.knowledge.tables import load_facts
from ttmem.hardware import BOARDS, RELEASES, Architecture, Board
from ttmem.twin.tensor_spec import CoreRange

GIVEN, LIKELY, POSSIBLE, UNKNOWN = "given", "likely", "possible", "unknown"

_MOST_TRACE_SHARE = 2
"""A trace region of more than half a bank is no explanation."""
_TILE_BYTES = 2048
_TRACE_PAGE_BYTES = 8192
_BASE_DRIFT_BYTES = 3000
"""Largest distance of an unrecorded base from those that are known."""


@dataclass(frozen=True, slots=True)
class BoardGuess:
    """The board, and what its build keeps of each bank."""

    architecture: str | None
    boards: tuple[str, ...]
    """Names of the registry that fit, the smallest first."""
    confidence: str
    """``given`` by the caller, ``likely``, ``possible`` or ``unknown``."""
    reasons: tuple[str, ...] = ()
    build: tuple[str, ...] = ()
    """What the sizes say about the build and how the device was opened."""
    numbers: Mapping[str, int] = field(default_factory=dict, hash=False)
    """``l1_base_address``, ``l1_small_bytes``, ``trace_region_bytes_per_bank``, ... where they are certain enough."""


def parse_core_range(text: str | None) -> CoreRange | None:
    """``[(x=0,y=0) - (x=7,y=7)]`` until spring 2026, ``[0-0 - 7-7]`` since."""
    figures = [int(figure) for figure in re.findall(r"\d+", text or "")]
    is_range = len(figures) == 4 and figures[0] <= figures[2] and figures[1] <= figures[3]
    return CoreRange(*figures) if is_range else None


def guess_board(failure: Failure, *, board: str | None = None, hints: Mapping[str, str] | None = None) -> BoardGuess:
    """The board behind a failure; ``board`` is the user's word for it, ``hints`` are words near the message."""
    numbers, reasons = failure.numbers, list[str]()
    if board is None and (old := _old_chip(failure)):
        return BoardGuess(old, (), POSSIBLE)
    boards, confidence = _boards(failure, hints or {}, reasons)
    if board is not None:
        boards, confidence, reasons = (BOARDS.find(board),), GIVEN, []
    chips = {known.architecture.name: known.architecture for known in boards}
    architecture = next(iter(chips.values())) if len(chips) == 1 else None
    if architecture is None:
        return BoardGuess(None, (), UNKNOWN, tuple(reasons))
    bases = list_l1_bases(architecture)
    build: list[str] = []
    found = {
        "l1_bytes_per_core": architecture.l1_bytes_per_core,
        "dram_bytes_per_bank": architecture.dram_bytes_per_bank,
        "max_circular_buffers": architecture.max_circular_buffers_per_core or 0,
        "least_l1_base_address": min(bases),
        "most_l1_base_address": max(bases),
    }
    if len({known.dram_banks for known in boards}) == 1:
        found["dram_banks"] = boards[0].dram_banks
    if len(grids := {grid.cores for known in boards for _, grid in known.grids[:1]}) == 1:
        found["grid_cores"] = grids.pop()
    parts_of = {"DRAM": _dram_parts, "L1": _l1_parts}.get(failure.memory or "")
    if parts_of and (bank_bytes := numbers.get("bank_bytes")):
        parts_of(architecture, bank_bytes, build, found)
    release = RELEASES.get((hints or {}).get("release", ""))
    reserved = dict(release.reserved).get(architecture.name) if release else None
    if reserved and "l1_base_address" not in found:  # the bank's own size counts more: worker_l1_size moves the base
        found["l1_base_address"] = reserved.l1_base_address
        build.append(f"L1 base {reserved.l1_base_address:,} ({release})")
    if failure.failure_class == "buffers/overflow":
        _l1_base_of_region(bases, numbers, build, found)
    names = tuple(known.name for known in boards)
    return BoardGuess(architecture.name, names, confidence, tuple(reasons), tuple(build), found)


def _boards(failure: Failure, hints: Mapping[str, str], reasons: list[str]) -> tuple[tuple[Board, ...], str]:
    """The boards that every clue allows; a clue that leaves none is not believed."""
    fitting = tuple(known for known in BOARDS if known.runs_operations)
    certain = False
    for reason, allowed, is_strong in _clues(failure, hints):
        narrowed = tuple(known for known in fitting if known in allowed)
        if narrowed and len(narrowed) < len(fitting):
            fitting, certain = narrowed, certain or is_strong
            reasons.append(reason)
    return fitting, LIKELY if certain else POSSIBLE


def _clues(failure: Failure, hints: Mapping[str, str]) -> Iterator[tuple[str, set[Board], bool]]:
    """Yield the clues to a board: the reason, the boards it allows, and True when it is more than a habit."""
    numbers = failure.numbers
    every = {known for known in BOARDS if known.runs_operations}
    banks, bank_bytes = numbers.get("banks"), numbers.get("bank_bytes")
    if failure.memory == "DRAM" and bank_bytes:
        # A chip's bank less what a build and a trace region take of it: the generations do not overlap.
        allowed = {b for b in every if bank_bytes < b.architecture.dram_bytes_per_bank < _MOST_TRACE_SHARE * bank_bytes}
        yield f"a DRAM bank of {bank_bytes:,} B", allowed, True
    if failure.memory == "DRAM" and banks:
        # Eight banks alone may also be a Grayskull, in messages that are too old to name the bank's size.
        yield f"{banks} DRAM banks", {b for b in every if b.dram_banks == banks}, bool(bank_bytes) or banks != 8
    if l1_bytes := numbers.get("l1_bytes"):
        yield f"{l1_bytes:,} B of L1", {b for b in every if b.architecture.l1_bytes_per_core == l1_bytes}, True
    top = max((numbers.get(name, 0) for name in ("l1_buffer_address", "address", "usable_end")), default=0)
    if top and failure.memory in ("L1", None):
        yield f"an L1 address of {top:,}", {b for b in every if b.architecture.l1_bytes_per_core >= top}, True
    if failure.memory == "L1" and bank_bytes:
        yield f"an L1 bank of {bank_bytes:,} B", {b for b in every if _can_have_l1_bank(b, bank_bytes)}, True
    if failure.memory in ("L1", "L1_SMALL") and banks:
        grids = {b for b in every if any(grid.cores == banks for _, grid in b.grids)}
        most = max(grid.cores for b in BOARDS if b.architecture.name == "wormhole" for _, grid in b.grids)
        yield f"{banks} cores", grids, banks > most
    cores = parse_core_range(failure.texts.get("core_range"))
    if cores is not None:
        x, y = cores.end_x, cores.end_y
        # Dispatch takes a row or a column, and harvesting moves both: one more of each is still the same chip.
        wide = {b for b in every if any(x <= grid.columns + 1 and y <= grid.rows for _, grid in b.grids)}
        yield f"a core range up to ({x}, {y})", wide, True
        if (cores.start_x, cores.start_y) == (0, 0):
            exact = {b for b in every if any((x + 1, y + 1) == (grid.columns, grid.rows) for _, grid in b.grids)}
            yield "a core range that is the whole grid", exact, False
    for word in ("board", "architecture"):
        if word in hints:
            named = {b for b in every if hints[word] in (b.name, b.architecture.name)}
            yield f"the word '{hints[word]}'", named, True


def _can_have_l1_bank(board: Board, bank_bytes: int) -> bool:
    architecture = board.architecture
    left = architecture.l1_bytes_per_core - bank_bytes
    bases = list_l1_bases(architecture)
    low, high = min(bases) - _BASE_DRIFT_BYTES, max(bases) + _BASE_DRIFT_BYTES
    return any(low <= left - small <= high for small in load_facts("builds")["usual_l1_small_bytes"])


@cache
def list_l1_bases(architecture: Architecture) -> dict[int, str]:
    """Return the known L1 bases of a chip and the origin of each, published releases first."""
    known: dict[int, str] = {}
    for release in RELEASES:
        if reserved := dict(release.reserved).get(architecture.name):
            known.setdefault(reserved.l1_base_address, str(release))
    for entry in load_facts("builds")["l1_base"]:
        if entry["architecture"] == architecture.name:
            known.setdefault(entry["address"], f"builds of {entry['seen']}")
    return known


def _dram_parts(architecture: Architecture, bank_bytes: int, build: list[str], found: dict[str, int]) -> None:
    """The regions of the build and the trace region whose sum is what the bank lacks."""
    rests = {
        architecture.dram_bytes_per_bank - base - bank_bytes: regions for base, regions in _dram_bases(architecture)
    }
    options = [rest for rest in rests if rest == 0 or _TRACE_PAGE_BYTES <= rest < bank_bytes // _MOST_TRACE_SHARE]
    best = max(map(_roundness, options), default=0)
    chosen = [rest for rest in options if _roundness(rest) == best]
    if len(chosen) != 1 or best == 0:
        if options:
            low, high = min(options), max(options)
            build.append(f"{low:,} to {high:,} B of every bank are reserved, mostly a trace region")
            found["least_trace_region_bytes_per_bank"] = low
        return
    rest = chosen[0]
    regions = rests[rest]
    words = load_facts("builds")["region_words"]
    build.append(f"a build {' and '.join(words[name] for name in regions[1:] or regions)}")
    found["trace_region_bytes_per_bank"] = rest
    if "profiler" in regions:
        found["profiler_bytes_per_bank"] = dict(architecture.dram_regions)["profiler"]
    if rest:
        build.append(f"a trace region of {rest:,} B per bank")


def _dram_bases(architecture: Architecture) -> list[tuple[int, tuple[str, ...]]]:
    """Return the possible DRAM bases of a build; published wheels have bases of their own only among these."""
    (always, first), *optional = architecture.dram_regions
    bases: list[tuple[int, tuple[str, ...]]] = [(first, (always,))]
    for name, size in optional:
        bases += [(base + size, (*regions, name)) for base, regions in bases]
    return bases


def _roundness(trace_bytes: int) -> int:
    """Rank how likely a person typed this size: zero, then whole millions, ..., then whole trace pages."""
    units = ((5, 1_000_000), (4, 1 << 20), (3, 100_000), (2, _TRACE_PAGE_BYTES), (1, 10_000))
    return 9 if trace_bytes == 0 else next((rank for rank, unit in units if trace_bytes % unit == 0), 0)


def _l1_parts(architecture: Architecture, bank_bytes: int, build: list[str], found: dict[str, int]) -> None:
    left = architecture.l1_bytes_per_core - bank_bytes
    usual = load_facts("builds")["usual_l1_small_bytes"]
    options = [
        (base, left - base, origin) for base, origin in list_l1_bases(architecture).items() if left - base in usual
    ]
    if not options:
        build.append(f"L1 base and L1_SMALL take {left:,} B together")
        return
    # The commonest L1_SMALL first: a base that needs an unusual one as well is the weaker explanation.
    base, small, origin = min(options, key=lambda option: usual.index(option[1]))
    found["l1_base_address"], found["l1_small_bytes"] = base, small
    build.append(f"L1 base {base:,} ({origin}), l1_small_size {small:,}")


def _l1_base_of_region(
    bases: Mapping[int, str], numbers: Mapping[str, int], build: list[str], found: dict[str, int]
) -> None:
    """The base under a region of static buffers: most buffers are whole tiles, so few bases leave whole tiles.

    A habit and no rule, hence a name of its own: whatever depends on it says so.
    """
    end = numbers.get("region_end")
    if end is None or "l1_base_address" in found:
        return
    whole = [base for base in bases if end > base and (end - base) % _TILE_BYTES == 0]
    if len(whole) == 1:
        found["whole_tiles_base_address"] = whole[0]
        build.append(f"L1 base {whole[0]:,} ({bases[whole[0]]}) if the buffers are whole bfloat16 tiles")


def _old_chip(failure: Failure) -> str | None:
    """A chip that is known by sizes which no board of today has."""
    numbers = failure.numbers
    for chip in load_facts("builds")["old_chip"]:
        its_banks = failure.memory == "DRAM" and numbers.get("banks") == chip["dram_banks"]
        has_dram = its_banks and 0 < numbers.get("bank_bytes", 0) <= chip["dram_bytes_per_bank"]
        if has_dram or numbers.get("l1_bytes") == chip["l1_bytes_per_core"]:
            return str(chip["name"])
    return None
