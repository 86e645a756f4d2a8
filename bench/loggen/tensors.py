# SPDX-License-Identifier: Apache-2.0
"""Tensor types: how MLIR prints them, how many bytes they hold and how many each bank loses.

Grammars (dated by when tt-mlir printed them):
  head        `<61x1>, memref<..>, <height_sharded>, core_ranges = <[..]>`
  exact-grid  `<61x1>, memref<..>, <height_sharded>, exactGrid = true`
  tt          `<61x1, (d0, d1) -> (0, d0 floordiv 8, d0 mod 8)>, memref<..x!tt.tile<..>>, <height_sharded>`
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from loggen.chips import Chip

TILE = 32
GRAMMARS = ("head", "exact-grid", "tt")

TILE_BYTES = {
    "f32": 4096,
    "si32": 4096,
    "u32": 4096,
    "bf16": 2048,
    "u16": 2048,
    "u8": 1024,
    "bfp_bf8": 1088,
    "bfp_bf4": 576,
}
ELEMENT_BYTES = {"f32": 4, "si32": 4, "u32": 4, "bf16": 2, "u16": 2, "u8": 1}
_STORAGE_OF_ELEMENT = {"ui32": "u32", "ui16": "u16", "ui8": "u8"}
_POOL_OF_BUFFER = {"dram": "DRAM", "l1": "L1", "system_memory": None}

Grid = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class TensorType:
    """One printed type. Identity is equality: the factory hands out one object per distinct type."""

    shape: tuple[int, ...]
    element: str
    storage: str
    """What the memref holds: block floats hide behind a bf16 element type, so bytes follow the storage."""
    buffer: str
    sharding: str | None
    pool: str | None
    text: str
    head: str
    """Everything before the layout, e.g. `tensor<2x77x1024xbf16, `, for dumps that alias the layout."""
    aliased_layout: str
    """The layout as dumps define it, with `#dram` instead of `#ttnn.buffer_type<dram>`."""
    memory_config: str
    logical_sixteenths: int
    """Logical bytes times 16: a bfp8 element is 17/16 B, a bfp4 element 9/16 B (1088 and 576 B per 1024 elements)."""
    padded_bytes: int
    bytes_per_bank: int
    """Before the pool rounds it up; 0 for host tensors."""

    @property
    def plain_text(self) -> str:
        """The type without layout, as in the dialects above TTNN."""
        return f"tensor<{_dims(self.shape)}{self.element}>"


@dataclass(frozen=True, slots=True, eq=False)
class OpaqueType:
    """A type that takes no memory: the device handle, a trace id."""

    text: str
    pool: None = None


DEVICE = OpaqueType("!ttnn.device")
TRACE_ID = OpaqueType("tensor<ui32, #ttnn.trace_id>")

AnyType = TensorType | OpaqueType


class TypeFactory:
    """Makes and remembers types for one chip and one grammar."""

    def __init__(self, chip: Chip, grammar: str) -> None:
        self.chip = chip
        self.grammar = grammar
        self.dialect = "tt" if grammar == "tt" else "ttcore"
        self._known: dict[tuple[object, ...], TensorType] = {}

    def dram(
        self, shape: tuple[int, ...], element: str = "bf16", *, tiled: bool = True, storage: str = ""
    ) -> TensorType:
        return self._make(shape, element, storage, tiled, "dram", "interleaved", 0)

    def host(self, shape: tuple[int, ...], element: str = "bf16") -> TensorType:
        return self._make(shape, element, "", False, "system_memory", None, 0)

    def sharded(
        self, shape: tuple[int, ...], sharding: str, element: str = "bf16", *, max_cores: int = 0
    ) -> TensorType:
        return self._make(shape, element, "", True, "l1", sharding, max_cores)

    def _make(
        self,
        shape: tuple[int, ...],
        element: str,
        storage: str,
        tiled: bool,
        buffer: str,
        sharding: str | None,
        max_cores: int,
    ) -> TensorType:
        key = (shape, element, storage, tiled, buffer, sharding, max_cores)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._build(*key)
        return known

    def _build(
        self,
        shape: tuple[int, ...],
        element: str,
        storage: str,
        tiled: bool,
        buffer: str,
        sharding: str | None,
        max_cores: int,
    ) -> TensorType:
        storage = storage or _STORAGE_OF_ELEMENT.get(element, element)
        height, width = physical_shape(shape, tiled=tiled)
        rows, columns = (height // TILE, width // TILE) if tiled else (height, width)
        unit_bytes = TILE_BYTES[storage] if tiled else ELEMENT_BYTES[storage]
        grid, (shard_rows, shard_columns) = self._distribute(rows, columns, sharding, max_cores)
        if self.grammar == "tt" and buffer == "dram" and tiled and rows % 8 == 0 and columns % 8 == 0:
            # 2025 logs print interleaved DRAM over an 8x8 grid with a memref divided by it. Done only where the
            # division is exact, so that memref x grid still is the true size.
            grid, (shard_rows, shard_columns) = (8, 8), (rows // 8, columns // 8)
        tile_text = f"!{self.dialect}.tile<32x32, {storage}>" if tiled else storage
        memref = f"memref<{shard_rows}x{shard_columns}x{tile_text}, "
        bytes_per_bank = self._bytes_per_bank(
            rows, columns, shard_rows, shard_columns, unit_bytes, tiled=tiled, buffer=buffer, sharding=sharding
        )
        grid_text, tail = self._grid_and_tail(grid, sharding)
        layout_start = f"#ttnn.ttnn_layout<{_collapse_map(shape, tiled=tiled)}, {grid_text}, {memref}"
        shown_element = element
        if tiled and storage.startswith("bfp") and self.grammar == "tt":
            shown_element = tile_text
        head = f"tensor<{_dims(shape)}{shown_element}, "
        per_element = {"bfp_bf8": 17, "bfp_bf4": 9}.get(storage) or ELEMENT_BYTES[storage] * 16
        return TensorType(
            shape=shape,
            element=element,
            storage=storage,
            buffer=buffer,
            sharding=sharding,
            pool=_POOL_OF_BUFFER[buffer],
            text=f"{head}{layout_start}#ttnn.buffer_type<{buffer}>>{tail}>>",
            head=head,
            aliased_layout=f"{layout_start}#{buffer}>{tail}>",
            memory_config=self._memory_config(buffer, sharding, grid, (shard_rows, shard_columns)),
            logical_sixteenths=prod(shape) * per_element,
            padded_bytes=prod(grid) * shard_rows * shard_columns * unit_bytes,
            bytes_per_bank=bytes_per_bank,
        )

    def _distribute(self, rows: int, columns: int, sharding: str | None, max_cores: int) -> tuple[Grid, Grid]:
        """Grid and shard in units of tiles (or elements): as few cores as the even split needs, at most all."""
        cores = max_cores or self.chip.l1_banks
        if sharding == "height_sharded":
            shard = -(-rows // cores)
            return (-(-rows // shard), 1), (shard, columns)
        if sharding == "width_sharded":
            shard = -(-columns // cores)
            return (1, -(-columns // shard)), (rows, shard)
        if sharding == "block_sharded":
            high = -(-rows // min(rows, self.chip.core_rows))
            wide = -(-columns // min(columns, self.chip.core_columns))
            return (-(-rows // high), -(-columns // wide)), (high, wide)
        return (1, 1), (rows, columns)

    def _bytes_per_bank(
        self,
        rows: int,
        columns: int,
        shard_rows: int,
        shard_columns: int,
        unit_bytes: int,
        *,
        tiled: bool,
        buffer: str,
        sharding: str | None,
    ) -> int:
        """Pages are dealt round robin over the banks; a shard costs itself in every bank (lock step)."""
        if buffer == "system_memory":
            return 0
        if sharding != "interleaved":
            return shard_rows * shard_columns * unit_bytes
        pages, page_bytes = (rows * columns, unit_bytes) if tiled else (rows, columns * unit_bytes)
        alignment = self.chip.dram_page_alignment_bytes
        aligned_page_bytes = -(-page_bytes // alignment) * alignment
        return -(-pages // self.chip.dram_banks) * aligned_page_bytes

    def _core_ranges(self, grid: Grid, sharding: str, separator: str) -> str:
        """Cores row by row; layouts print `(0, 7)`, shard specs `(0,7)`."""

        def core_range(x0: int, y0: int, x1: int, y1: int) -> str:
            return f"#ttnn.core_range<({x0}{separator}{y0}), ({x1}{separator}{y1})>"

        if sharding == "block_sharded":
            return core_range(0, 0, grid[1] - 1, grid[0] - 1)
        full_rows, rest = divmod(prod(grid), self.chip.core_columns)
        ranges = []
        if full_rows:
            ranges.append(core_range(0, 0, self.chip.core_columns - 1, full_rows - 1))
        if rest:
            ranges.append(core_range(0, full_rows, rest - 1, full_rows))
        return ", ".join(ranges)

    def _grid_and_tail(self, grid: Grid, sharding: str | None) -> tuple[str, str]:
        rows, columns = grid
        if sharding is None:
            return f"<{rows}x{columns}>", ""
        tail = f", <{sharding}>"
        if self.grammar != "tt":
            if sharding == "interleaved":
                return f"<{rows}x{columns}>", tail
            if self.grammar == "exact-grid":
                return f"<{rows}x{columns}>", f"{tail}, exactGrid = true"
            return f"<{rows}x{columns}>", f"{tail}, core_ranges = <[{self._core_ranges(grid, sharding, ', ')}]>"
        width = self.chip.core_columns
        if sharding == "height_sharded":
            return f"<{rows}x{columns}, (d0, d1) -> (0, d0 floordiv {width}, d0 mod {width})>", tail
        if sharding == "width_sharded":
            return f"<{rows}x{columns}, (d0, d1) -> (0, d1 floordiv {width}, d1 mod {width})>", tail
        if rows * columns == 1:
            return "<1x1>", tail
        return f"<{rows}x{columns}, (d0, d1) -> (0, d0, d1)>", tail

    def _memory_config(self, buffer: str, sharding: str | None, grid: Grid, shard: Grid) -> str:
        """Text of `#ttnn.memory_config`; NUL marks enclose the buffer, which dumps alias and op lines do not."""
        if sharding is None:
            return ""
        if sharding == "interleaved":
            return f"#ttnn.memory_config<\0{buffer}\0, <interleaved>>"
        ranges = self._core_ranges(grid, sharding, ",")
        spec = f"#ttnn.shard_spec<<[{ranges}]>, <{shard[0] * TILE}x{shard[1] * TILE}>, <row_major>>"
        return f"#ttnn.memory_config<\0{buffer}\0, <{sharding}>, {spec}>"


def physical_shape(shape: tuple[int, ...], *, tiled: bool) -> Grid:
    """Height and width after tile padding: only the last two dimensions are rounded up."""
    if not shape:
        return (TILE, TILE) if tiled else (1, 1)
    width = shape[-1]
    second = shape[-2] if len(shape) > 1 else 1
    if tiled:
        width = -(-width // TILE) * TILE
        second = -(-second // TILE) * TILE
    return prod(shape[:-2]) * second, width


def _dims(shape: tuple[int, ...]) -> str:
    return "".join(f"{d}x" for d in shape)


def _collapse_map(shape: tuple[int, ...], *, tiled: bool) -> str:
    """The affine map that folds all but the last dimension into rows."""
    rank = len(shape)
    if rank == 0:
        return "() -> (0, 0)"
    names = [f"d{i}" for i in range(rank)]
    inputs = ", ".join(names)
    if rank == 1:
        return f"({inputs}) -> (0, d0)"
    stride = -(-shape[-2] // TILE) * TILE if tiled else shape[-2]
    terms = [names[-2]]
    for i in range(rank - 3, -1, -1):
        terms.append(f"{names[i]} * {stride}")
        stride *= shape[i]
    return f"({inputs}) -> ({' + '.join(reversed(terms))}, {names[-1]})"
