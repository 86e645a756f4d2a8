# SPDX-License-Identifier: Apache-2.0
"""Chip generations (``architectures.toml``): what all boards of one generation share in every release."""

from dataclasses import dataclass
from typing import Any

from ttmem.base import toml
from ttmem.hardware._registry import ByName, Registry


@dataclass(frozen=True, slots=True)
class Architecture(ByName):
    """Sizes and alignments fixed by the chip; what a ttnn release reserves of them is in `releases`."""

    __hash__ = ByName.__hash__
    name: str
    dram_bytes_per_bank: int
    """Whole DRAM view of one bank, before the library takes its part from the bottom."""
    dram_alignment_bytes: int
    """Page alignment in DRAM; also the quantum in which every pool, L1 included, is handed out."""
    l1_alignment_bytes: int
    l1_bytes_per_core: int
    ttnn_name: str
    """As ttnn's messages spell it."""
    dram_regions: tuple[tuple[str, int], ...]
    """What a build may keep at the bottom of every DRAM bank: the first always, the others by how it was built."""
    max_circular_buffers_per_core: int | None = None
    """None: not measured."""
    aliases: tuple[str, ...] = ()

    @property
    def quantum_bytes(self) -> int:
        """Quantum of all allocations, in all four memories (measured)."""
        return self.dram_alignment_bytes

    def page_alignment_bytes(self, *, in_dram: bool) -> int:
        return self.dram_alignment_bytes if in_dram else self.l1_alignment_bytes


def _architecture(aliases: list[str], dram_regions: list[list[Any]], **facts: Any) -> Architecture:
    regions = tuple((name, size) for name, size in dram_regions)
    return Architecture(aliases=tuple(aliases), dram_regions=regions, **facts)


_RECORDS = toml.load_packaged("ttmem.hardware", "architectures.toml")["architecture"]
ARCHITECTURES: Registry[Architecture] = Registry("architecture", (_architecture(**record) for record in _RECORDS))
WORMHOLE, BLACKHOLE = ARCHITECTURES.find("wormhole"), ARCHITECTURES.find("blackhole")
