# SPDX-License-Identifier: Apache-2.0
"""Shared-memory regions made by hand, field by field as tt-metal's header declares them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

UNUSED_CHIP = 0xFFFFFFFF
Amounts = tuple[int, int, int, int, int]
"""DRAM, L1, L1_SMALL, TRACE, circular buffers."""


def region(
    *,
    version: int = 2,
    chip_unique_id: int = 0,
    device: int = 0,
    attached: int = 1,
    updated_ns: int = 1_700_000_000_000_000_000,
    total: Amounts = (0, 0, 0, 0, 0),
    chips: Mapping[int, tuple[bool, Amounts]] | None = None,
    processes: Sequence[tuple[int, str, Amounts]] = (),
) -> bytes:
    """All 8576 bytes of it."""
    raw = bytearray()
    raw += struct.pack("<II", version, len(processes))
    raw += struct.pack("<Q", updated_ns)
    raw += struct.pack("<I", attached) + bytes(4)  # the next field is 8 bytes wide and aligned
    raw += struct.pack("<QQ", 0, chip_unique_id)
    raw += struct.pack("<I", device) + bytes(4)
    raw += struct.pack("<5Q", *total)
    slots = [(chip, remote, held) for chip, (remote, held) in (chips or {device: (False, total)}).items()]
    slots += [(UNUSED_CHIP, False, (0, 0, 0, 0, 0))] * (16 - len(slots))
    for chip, remote, held in slots:
        raw += struct.pack("<II5Q", chip, remote, *held)
    for pid, name, held in [*processes, *[(0, "", (0, 0, 0, 0, 0))] * (64 - len(processes))]:
        raw += struct.pack("<i", pid) + bytes(4) + struct.pack("<5Q", *held)
        raw += struct.pack("<Q", updated_ns if pid else 0) + name.encode().ljust(64, b"\0")
    return bytes(raw).ljust(8576, b"\0")
