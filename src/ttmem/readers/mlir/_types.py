# SPDX-License-Identifier: Apache-2.0
"""Tensor types as MLIR prints them, with the ttnn layout that says how the tensor is stored.

Storage follows the memref, not the element type: a bfloat8_b tensor prints bf16 elements over bfp_bf8 tiles,
and the memref of a sharded tensor is one shard. Both layout grammars (before and after 2026-05) are read.
"""

import re
from functools import lru_cache
from math import prod
from typing import Any

from ttmem.engines.worker.graph_nodes.parameters import memory_named
from ttmem.hardware import DATA_TYPES, DataType, Tile
from ttmem.profile.tensor_type import TensorType, pages_of

_STORED = rb"((?:\d{1,15}x){0,64})(?:!tt(?:core)?\.tile<([1-9]\d{0,3})x([1-9]\d{0,3}), ?(\w{1,32})>|([A-Za-z]\w{0,31}))"
_ELEMENT = re.compile(rb"tensor<" + _STORED)
_COMPLEX = re.compile(rb"complex<(\w{1,16})>")
_MEMREF = re.compile(rb"memref<" + _STORED + rb", ?#(?:(?:ttnn\.)?buffer_type<)?(\w+)")
_GRID = re.compile(rb"(?:\), <|nd_layout<<?)(\d{1,6}(?:x\d{1,6}){0,8})[,>]")
_PLACEMENT = re.compile(rb"<(interleaved|height_sharded|width_sharded|block_sharded|nd_sharded)>")

_MOST_ELEMENTS = 1 << 50
"""More than any machine holds: such a shape is a damaged line, and its bytes would not fit a column."""

_CORES = re.compile(rb"core_range<\((\d{1,4}), ?(\d{1,4})\), ?\((\d{1,4}), ?(\d{1,4})\)>")
_COLUMNS = re.compile(rb"<\d+x\d+, \(d0, d1\) -> \(0, d[01] floordiv (\d{1,4}), ")


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
    """The tensor type at the start of ``text``, or None when it is not a tensor (a device, a semaphore).

    Complex numbers are pairs: the compiler stores them with a last dimension of 2, and so they are given here.
    """
    element = _ELEMENT.match(text)
    if not element:
        return None
    shape = dimensions(element[1])
    elements = prod(shape)
    if elements > _MOST_ELEMENTS:
        return None
    memref = _MEMREF.search(text, element.end())
    if not memref:
        if element[5] == b"complex":
            return _complex(text, element.start(5), shape)
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
    interleaved = not placement or placement[1] == b"interleaved"
    grid = _GRID.search(text, element.end())
    padded_bytes = memref_bytes * (prod(dimensions(grid[1])) if grid else 1)
    if padded_bytes > memref_bytes and interleaved and memref[4]:
        # Old logs print interleaved tensors with a grid and the memref of one core, rounded up: the shape bounds it.
        padded_bytes = min(padded_bytes, pages_of(shape, int(memref[2]), int(memref[3])) * page_bytes)
    if padded_bytes > _MOST_ELEMENTS:
        return None
    return TensorType(
        shape=shape,
        dtype=name,
        layout=layout,
        memory=memory_named(memref[6].decode("ascii", "replace")),
        placement=placement[1].decode() if placement else "",
        logical_bytes=dtype.logical_bytes(elements) if dtype else 0,
        padded_bytes=padded_bytes,
        page_bytes=page_bytes,
        shard_bytes=0 if interleaved else memref_bytes,
    )


def _complex(text: bytes, start: int, shape: tuple[int, ...]) -> TensorType:
    part = _COMPLEX.match(text, start)
    name, dtype = storage_type(part[1] if part else b"complex")
    logical_bytes = dtype.logical_bytes(2 * prod(shape)) if dtype else 0
    return TensorType((*shape, 2), name, "", "", "", logical_bytes, logical_bytes, 0, 0)


def shard_of(text: bytes, columns: int) -> dict[str, Any] | None:
    """How a sharded tensor is cut, as steps of the engines write it; None when it is interleaved.

    Layouts name the cores since May 2026. Before, a one-dimensional grid goes along the rows of the device, of which
    the layout's own map says how many ``columns`` they have.
    """
    placement, memref, element = _PLACEMENT.search(text), _MEMREF.search(text), _ELEMENT.match(text)
    if not placement or not memref or not element or placement[1] == b"interleaved":
        return None
    kind = placement[1].decode().removesuffix("_sharded")
    shape = list(dimensions(memref[1]))
    if memref[4]:
        shape[-2:] = [shape[-2] * int(memref[2]), shape[-1] * int(memref[3])]
    if kind != "nd":
        shape = [prod(shape[:-1]), shape[-1]]
    ranges = [[int(number) for number in found] for found in _CORES.findall(text, memref.end())]
    if not ranges:
        found, grid = _COLUMNS.search(text), _GRID.search(text, element.end())
        rows_columns = dimensions(grid[1]) if grid else (1, 1)
        ranges = _ranges(rows_columns, kind, int(found[1]) if found else columns)
    more = {"distribution": "round_robin_1d"} if kind == "nd" else {}
    return {"kind": kind, "shape": shape, "ranges": ranges, **more}


def _ranges(grid: tuple[int, ...], kind: str, columns: int) -> list[list[int]]:
    """Rectangles of cores, ``[x0, y0, x1, y1]``."""
    cores = prod(grid)
    if kind == "block" or (kind == "height" and grid[-1] > 1) or columns < 1:
        return [[0, 0, grid[-1] - 1, grid[0] - 1]]
    whole, rest = divmod(cores, columns)
    full = [[0, 0, columns - 1, whole - 1]] if whole else []
    return [*full, [0, whole, rest - 1, whole]] if rest else full
