# SPDX-License-Identifier: Apache-2.0
"""Tensor types as MLIR prints them, with the ttnn layout that says how the tensor is stored.

Storage follows the memref, not the element type: a bfloat8_b tensor prints bf16 elements over bfp_bf8 tiles,
and the memref of a sharded tensor is one shard. Both layout grammars (before and after 2026-05) are read.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod

from ttmem.hardware import DATA_TYPES, DataType, Tile
from ttmem.profile import HOST, TensorType

_ELEMENT = re.compile(rb"tensor<((?:\d+x)*)(?:!tt(?:core)?\.tile<(\d+)x(\d+), ?(\w+)>|(\w+))")
_MEMREF = re.compile(
    rb"memref<((?:\d+x)*)(?:!tt(?:core)?\.tile<(\d+)x(\d+), ?(\w+)>|(\w+)), ?#(?:(?:ttnn\.)?buffer_type<)?(\w+)"
)
_GRID = re.compile(rb"(?:\), <|nd_layout<<?)(\d+(?:x\d+)*)[,>]")
_PLACEMENT = re.compile(rb"<(interleaved|height_sharded|width_sharded|block_sharded|nd_sharded)>")

_MEMORY_OF_BUFFER_TYPE = {
    b"dram": "DRAM",
    b"l1": "L1",
    b"l1_small": "L1_SMALL",
    b"trace": "TRACE",
    b"system_memory": HOST,
}


def dimensions(text: bytes) -> tuple[int, ...]:
    """``b"1x32x"`` -> ``(1, 32)``."""
    return tuple(int(part) for part in text.split(b"x") if part)


@lru_cache(maxsize=256)
def storage_type(text: bytes) -> tuple[str, DataType | None]:
    """The dtype's ttnn name and what is known of it; an unknown one keeps its spelling and counts no bytes."""
    spelling = text.decode("ascii", "replace")
    known = DATA_TYPES.get(spelling)
    return (known.name if known else spelling), known


def parse_tensor_type(text: bytes) -> TensorType | None:
    """The tensor type at the start of ``text``, or None when it is not a tensor (a device, a semaphore)."""
    element = _ELEMENT.match(text)
    if not element:
        return None
    shape = dimensions(element[1])
    elements = prod(shape)
    memref = _MEMREF.search(text, element.end())
    if not memref:
        name, dtype = storage_type(element[4] or element[5])
        logical_bytes = dtype.logical_bytes(elements) if dtype else 0
        return TensorType(shape, name, "", "", "", logical_bytes, logical_bytes, 0, 0)
    name, dtype = storage_type(memref[4] or memref[5])
    memref_dims = dimensions(memref[1])
    if memref[4]:
        layout = "tile"
        page_bytes = dtype.tile_bytes(Tile(int(memref[2]), int(memref[3]))) if dtype else 0
        memref_bytes = prod(memref_dims) * page_bytes
    else:
        layout = "row_major"
        page_bytes = dtype.logical_bytes(memref_dims[-1] if memref_dims else 1) if dtype else 0
        memref_bytes = prod(memref_dims[:-1]) * page_bytes
    placement = _PLACEMENT.search(text, memref.end())
    grid = _GRID.search(text, element.end())
    return TensorType(
        shape=shape,
        dtype=name,
        layout=layout,
        memory=_MEMORY_OF_BUFFER_TYPE.get(memref[6], ""),
        placement=placement[1].decode() if placement else "",
        logical_bytes=dtype.logical_bytes(elements) if dtype else 0,
        padded_bytes=memref_bytes * (prod(dimensions(grid[1])) if grid else 1),
        page_bytes=page_bytes,
        shard_bytes=memref_bytes if placement and placement[1] != b"interleaved" else 0,
    )
