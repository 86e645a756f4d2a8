# SPDX-License-Identifier: Apache-2.0
"""Sizes of the memories of the device of a capture, and how certain they are.

A report names the chip and the L1 bank; nothing but the allocator itself knows the DRAM bank, so that comes from the
bank tables of the release. A bare node list names nothing: boards are ruled out until all that are left agree.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.engines.worker.graph_nodes import read_number
from ttmem.hardware import (
    ARCHITECTURES,
    BOARDS,
    DEFAULT_RELEASE,
    RELEASES,
    Architecture,
    Board,
    MemoryMap,
    OpenSettings,
    Pool,
    Release,
    open_board,
)
from ttmem.profile.model import MEMORIES
from ttmem.twin.placement import compute_interleaved_bytes_per_bank

_BOARD_TYPE = re.compile(r"board_type\"?\s*:\s*\"?(\w+)")
_L1_BASE = "address_at_first_l1_cb_buffer"
_FIRST_WITH_DATAFLOW_BUFFERS = (0, 80)
_BARE = "a bare capture does not say how large the memories are"
_KEEP_DEVICE = "ttnn.graph.full_graph_capture keeps the device's own description"
_NO_TRACE_REGION = "a trace region, if one was configured, is not in the file and makes DRAM smaller"


@dataclass(frozen=True, slots=True)
class MemorySpan:
    """A memory: its banks and the addresses that tensors may have in each of them; 0 where unknown."""

    banks: int = 0
    base_address: int = 0
    bytes_per_bank: int = 0


@dataclass(frozen=True, slots=True)
class CapturedDevice:
    """The chip of a capture and its memories, as far as they are known."""

    architecture: Architecture | None
    spans: Mapping[str, MemorySpan]
    """By memory; all four are there."""
    warnings: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    release: Release | None = None
    """The ttnn that captured: named by the source, or the newest one whose L1 begins where this one does."""

    @property
    def has_only_circular_buffers(self) -> bool:
        """True when that ttnn has no dataflow buffers yet, so that programs have circular buffers alone."""
        numbers = parse_release(self.release.name) if self.release else ()
        return bool(numbers) and numbers[:2] < _FIRST_WITH_DATAFLOW_BUFFERS


UNKNOWN = CapturedDevice(None, dict.fromkeys(MEMORIES, MemorySpan()))


@dataclass(frozen=True, slots=True)
class InterleavedSample:
    """An interleaved buffer whose share per bank is known: it tells how many banks there are."""

    memory: str
    total_bytes: int
    page_bytes: int
    stored_bytes_per_bank: int


def find_release(version: str) -> Release | None:
    """The bank table of a version: its own, or that of the nearest release before it."""
    if version in RELEASES:
        return RELEASES.find(version)
    wanted = parse_release(version)
    older = [release for release in RELEASES if wanted and parse_release(release.name) <= wanted]
    return max(older, key=lambda release: parse_release(release.name)) if older else None


def read_described_device(
    device: Mapping[str, Any], *, version: str, cluster_descriptor: str, samples: Iterable[InterleavedSample]
) -> CapturedDevice:
    """From a device's own description (a report's ``devices`` or the table of a database)."""
    l1_bank, base, banks = (read_number(device, key) for key in ("l1_bank_size", _L1_BASE, "l1_num_banks"))
    whole_l1 = read_number(device, "worker_l1_size")
    chips = [chip for chip in ARCHITECTURES if whole_l1 and chip.l1_bytes_per_core == whole_l1]
    architecture = ARCHITECTURES.get(str(device.get("arch", ""))) or next(iter(chips), None)
    small = max(0, read_number(device, "cb_limit") - l1_bank) if l1_bank else 0
    spans = {
        **UNKNOWN.spans,
        "L1": MemorySpan(banks, base, l1_bank),
        "L1_SMALL": MemorySpan(banks if small else 0, base + l1_bank, small),
    }
    release = find_release(version) or _release_with_base(architecture, base)
    boards = [board for board in BOARDS if board.architecture is architecture]
    boards = _fitting(boards, cluster_descriptor, read_number(device, "num_dram_channels"))
    boards = [board for board in boards if _explains(board.dram_banks, "DRAM", samples, board.architecture)] or boards
    warnings: list[str] = []
    memory_map = _map(boards[0], release) if boards else None
    if memory_map is not None:
        dram_banks = {board.dram_banks for board in boards}
        spans["DRAM"] = _span(dram_banks, memory_map.dram)
        if len(dram_banks) > 1:
            possible = " or ".join(map(str, sorted(dram_banks)))
            warnings.append(f"how many DRAM banks the chip has is not in the file ({possible} are possible)")
        kind = boards[0].name if len(boards) == 1 else f"{boards[0].architecture.name} boards"
        warnings.append(f"the DRAM bank's size is that of {memory_map.source} on {kind}; {_NO_TRACE_REGION}")
    else:
        warnings.append("the chip is not named in the file, so the size of DRAM is not known")
    facts = {"system": architecture.name} if architecture else {}
    return CapturedDevice(architecture, spans, tuple(warnings), facts, release)


def infer_device(
    samples: Iterable[InterleavedSample], *, l1_base_address: int, l1_end_address: int, cores: int
) -> CapturedDevice:
    """From a bare node list: the boards whose banks explain every buffer, as far as they all look the same.

    ``l1_base_address`` is the lowest address of a circular buffer, ``l1_end_address`` the highest end of an L1 buffer,
    ``cores`` the worker cores that programs may use; 0 where the list does not tell.
    """
    samples = list(samples)
    candidates = [
        board
        for board in BOARDS
        if board.runs_operations
        and l1_end_address <= board.architecture.l1_bytes_per_core
        and _base_is_possible(board.architecture, l1_base_address)
        and cores in (0, board.grid().cores)
        and _explains(board.dram_banks, "DRAM", samples, board.architecture)
        and _explains(board.grid().cores, "L1", samples, board.architecture)
    ]
    chips = {board.architecture.name for board in candidates}
    if len(chips) != 1:
        alike = f", and its buffers would fit {', '.join(sorted(chips))} alike" if chips else ""
        return CapturedDevice(None, UNKNOWN.spans, (f"{_BARE}{alike}; {_KEEP_DEVICE}",))
    architecture = candidates[0].architecture
    release = _release_with_base(architecture, l1_base_address)
    memory_map = _map(candidates[0], release)
    if memory_map is None:
        return UNKNOWN
    spans = {
        **UNKNOWN.spans,
        "DRAM": _span({board.dram_banks for board in candidates}, memory_map.dram),
        "L1": _span({board.grid().cores for board in candidates}, memory_map.l1),
    }
    warning = (
        f"{_BARE}: sizes are those of {memory_map.source} on {architecture.name}, whose banks explain every buffer; "
        f"L1_SMALL and trace regions, if configured, make L1 and DRAM smaller; {_KEEP_DEVICE}"
    )
    return CapturedDevice(architecture, spans, (warning,), {"system": architecture.name}, release)


def _span(banks: set[int], pool: Pool) -> MemorySpan:
    """A memory of boards that may differ in their banks: 0, not known, when they do."""
    return MemorySpan(next(iter(banks)) if len(banks) == 1 else 0, pool.base_address, pool.bytes_per_bank)


def _map(board: Board, release: Release | None) -> MemoryMap | None:
    try:
        return open_board(board, OpenSettings(), release or DEFAULT_RELEASE)
    except BadInputError:  # no bank table of this chip for that release
        return open_board(board) if release not in (None, DEFAULT_RELEASE) else None


def _releases_with_base(l1_base_address: int) -> Iterator[tuple[str, Release]]:
    """Chips and releases whose L1 begins there, newest first: the base moves with almost every release."""
    for release in RELEASES:
        yield from ((chip, release) for chip, held in release.reserved if held.l1_base_address == l1_base_address)


def _release_with_base(architecture: Architecture | None, l1_base_address: int) -> Release | None:
    found = _releases_with_base(l1_base_address)
    return next((release for chip, release in found if architecture and chip == architecture.name), None)


def _base_is_possible(architecture: Architecture, l1_base_address: int) -> bool:
    """Circular buffers begin at the base: one that only other chips have rules a chip out, an unknown one does not."""
    chips = {chip for chip, _ in _releases_with_base(l1_base_address)}
    return not l1_base_address or not chips or architecture.name in chips


def _explains(banks: int, memory: str, samples: Iterable[InterleavedSample], architecture: Architecture) -> bool:
    """True when this number of banks gives every sampled buffer its recorded share."""
    alignment = architecture.page_alignment_bytes(in_dram=memory == "DRAM")
    return all(
        compute_interleaved_bytes_per_bank(
            pages=sample.total_bytes // sample.page_bytes,
            page_bytes=sample.page_bytes,
            alignment_bytes=alignment,
            banks=banks,
        )
        == sample.stored_bytes_per_bank
        for sample in samples
        if sample.memory == memory and sample.page_bytes > 0
    )


def _fitting(boards: list[Board], cluster_descriptor: str, dram_channels: int) -> list[Board]:
    named = BOARDS.get(match[1]) if (match := _BOARD_TYPE.search(cluster_descriptor)) else None
    if named is not None and named in boards:
        return [named]
    return [board for board in boards if not dram_channels or board.dram_banks == dram_channels] or boards


def parse_release(version: str) -> tuple[int, ...]:
    """``0.81.1`` -> ``(0, 81, 1)``; empty when there are no numbers."""
    return tuple(int(part) for part in re.findall(r"\d{1,6}", version)[:3])
