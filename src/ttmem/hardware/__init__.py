# SPDX-License-Identifier: Apache-2.0
"""Hardware as frozen values, looked up by name: `BOARDS.find("n150")`, `DATA_TYPES.find("bf16")`."""

from ttmem.hardware._registry import Registry
from ttmem.hardware.architectures import ARCHITECTURES, BLACKHOLE, WORMHOLE, Architecture
from ttmem.hardware.boards import BOARDS, Board, Chip, Grid, Mock
from ttmem.hardware.data_types import (
    BFLOAT4_B,
    BFLOAT8_B,
    BFLOAT16,
    DATA_TYPES,
    FLOAT32,
    INT32,
    TILE_32X32,
    UINT8,
    UINT16,
    UINT32,
    DataType,
    Tile,
)
from ttmem.hardware.memory_map import (
    DRAM,
    HOST,
    L1,
    L1_SMALL,
    MEMORIES,
    TRACE,
    Memory,
    MemoryMap,
    OpenSettings,
    Pool,
    open_board,
)
from ttmem.hardware.releases import DEFAULT_RELEASE, RELEASES, Release

__all__ = [
    "ARCHITECTURES",
    "BFLOAT4_B",
    "BFLOAT8_B",
    "BFLOAT16",
    "BLACKHOLE",
    "BOARDS",
    "DATA_TYPES",
    "DEFAULT_RELEASE",
    "DRAM",
    "FLOAT32",
    "HOST",
    "INT32",
    "L1",
    "L1_SMALL",
    "MEMORIES",
    "RELEASES",
    "TILE_32X32",
    "TRACE",
    "UINT8",
    "UINT16",
    "UINT32",
    "WORMHOLE",
    "Architecture",
    "Board",
    "Chip",
    "DataType",
    "Grid",
    "Memory",
    "MemoryMap",
    "Mock",
    "OpenSettings",
    "Pool",
    "Registry",
    "Release",
    "Tile",
    "open_board",
]
