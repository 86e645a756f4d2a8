# SPDX-License-Identifier: Apache-2.0
"""Chip generations: what every board of one generation shares, whatever the release."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.hardware._registry import Registry


@dataclass(frozen=True, slots=True)
class Architecture:
    """Sizes and alignments fixed by the chip; what a ttnn release reserves of them is in `releases`."""

    name: str
    dram_bytes_per_bank: int
    """Whole DRAM view of one bank, before the library takes its part from the bottom."""
    dram_alignment_bytes: int
    """Page alignment in DRAM; also the quantum in which every pool, L1 included, is handed out."""
    l1_alignment_bytes: int
    l1_bytes_per_core: int
    max_circular_buffers_per_core: int | None
    """None: not measured."""
    ttnn_name: str
    """As ttnn's messages spell it."""
    dram_regions: tuple[tuple[str, int], ...]
    """What a build may keep at the bottom of every DRAM bank: the first always, the others by how it was built."""
    aliases: tuple[str, ...] = ()

    @property
    def quantum_bytes(self) -> int:
        """Every allocation is rounded up to this, in all four memories (allocator rule, measured)."""
        return self.dram_alignment_bytes

    def page_alignment_bytes(self, *, in_dram: bool) -> int:
        return self.dram_alignment_bytes if in_dram else self.l1_alignment_bytes

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


WORMHOLE = Architecture(
    "wormhole",
    dram_bytes_per_bank=1 << 30,
    dram_alignment_bytes=32,
    l1_alignment_bytes=16,
    l1_bytes_per_core=1464 * 1024,
    max_circular_buffers_per_core=32,
    ttnn_name="wormhole_b0",
    dram_regions=(("barrier", 32), ("profiler", 1920000), ("print", 1048608)),
    aliases=("wormhole_b0", "wh"),
)
BLACKHOLE = Architecture(
    "blackhole",
    dram_bytes_per_bank=(1 << 32) - (1 << 24),
    dram_alignment_bytes=64,
    l1_alignment_bytes=16,
    l1_bytes_per_core=1536 * 1024,
    max_circular_buffers_per_core=64,
    ttnn_name="blackhole",
    dram_regions=(("barrier", 64), ("profiler", 4800000), ("print", 1048640)),
    aliases=("bh",),
)
QUASAR = Architecture(
    "quasar",
    dram_bytes_per_bank=1 << 30,
    dram_alignment_bytes=64,
    l1_alignment_bytes=16,
    l1_bytes_per_core=4 << 20,
    max_circular_buffers_per_core=None,
    ttnn_name="quasar",
    dram_regions=(("reserved", 17825920),),
)

ARCHITECTURES: Registry[Architecture] = Registry("architecture", (WORMHOLE, BLACKHOLE, QUASAR))
