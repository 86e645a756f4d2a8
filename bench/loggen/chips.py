# SPDX-License-Identifier: Apache-2.0
"""The two simulated chips: bank counts, pool sizes and alignments.

Pool sizes are ones that occur in public failure texts (DRAM 1073741792 = 1 GiB - 32 on Wormhole, 4273390016 on
Blackhole), so that a reader which recognises a chip by its numbers has something true to recognise.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Chip:
    name: str
    mlir_arch: str
    dram_banks: int
    dram_bytes_per_bank: int
    l1_bytes_per_core: int
    l1_unreserved_base: int
    l1_small_bytes_per_bank: int
    core_columns: int
    core_rows: int
    quantum_bytes: int
    """Every pool hands out multiples of this (32 Wormhole, 64 Blackhole), L1 included."""
    dram_page_alignment_bytes: int
    l1_page_alignment_bytes: int = 16

    @property
    def l1_banks(self) -> int:
        return self.core_columns * self.core_rows

    @property
    def l1_bytes_per_bank(self) -> int:
        return self.l1_bytes_per_core - self.l1_unreserved_base - self.l1_small_bytes_per_bank


CHIPS: dict[str, Chip] = {
    "wormhole": Chip(
        name="wormhole",
        mlir_arch="wormhole_b0",
        dram_banks=12,
        dram_bytes_per_bank=1_073_741_792,
        l1_bytes_per_core=1_499_136,
        l1_unreserved_base=103_712,
        l1_small_bytes_per_bank=65_536,
        core_columns=8,
        core_rows=8,
        quantum_bytes=32,
        dram_page_alignment_bytes=32,
    ),
    "blackhole": Chip(
        name="blackhole",
        mlir_arch="blackhole",
        dram_banks=8,
        dram_bytes_per_bank=4_273_390_016,
        l1_bytes_per_core=1_572_864,
        l1_unreserved_base=111_744,
        l1_small_bytes_per_bank=65_536,
        core_columns=11,
        core_rows=10,
        quantum_bytes=64,
        dram_page_alignment_bytes=64,
    ),
}
