# SPDX-License-Identifier: Apache-2.0
"""The specification of a tensor: shape, data type, layout, memory and sharding; also as users type it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, product
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.base.errors import BadInputError
from ttmem.base.limits import NUMBER_BITS, TENSOR_DIMENSIONS
from ttmem.hardware import BFLOAT16, DRAM, TILE_32X32, DataType, Memory, Registry, Tile
from ttmem.hardware._registry import ByName


class InvalidSpecError(BadInputError):
    """A spec that the library refuses; the message is the library's reason where it gives one."""


@dataclass(frozen=True, slots=True)
class Layout(ByName):
    """The grouping of elements into pages: tiles or rows."""

    __hash__ = ByName.__hash__
    name: str
    aliases: tuple[str, ...] = ()


def _fold_layout(name: str) -> str:
    return name.strip().lower().removeprefix("layout").lstrip(".:").removesuffix("_layout")


TILE = Layout("tile", aliases=("tiled",))
ROW_MAJOR = Layout("row_major", aliases=("row-major", "rm", "rowmajor"))
LAYOUTS: Registry[Layout] = Registry("layout", (TILE, ROW_MAJOR), fold=_fold_layout)


@dataclass(frozen=True, slots=True)
class CoreRange:
    """A rectangle of cores, both corners included; x counts columns, y rows."""

    start_x: int
    start_y: int
    end_x: int
    end_y: int

    @property
    def columns(self) -> int:
        return self.end_x - self.start_x + 1

    @property
    def rows(self) -> int:
        return self.end_y - self.start_y + 1

    @property
    def cores(self) -> int:
        return self.columns * self.rows

    def intersects(self, other: CoreRange) -> bool:
        return not (
            self.end_x < other.start_x
            or other.end_x < self.start_x
            or self.end_y < other.start_y
            or other.end_y < self.start_y
        )

    def walk(self, *, by_column: bool = False) -> Iterator[tuple[int, int]]:
        """Yield the cores in the order in which shards are distributed: row by row, or column by column."""
        columns, rows = range(self.start_x, self.end_x + 1), range(self.start_y, self.end_y + 1)
        return product(columns, rows) if by_column else ((x, y) for y in rows for x in columns)

    def __str__(self) -> str:
        """Format the range as the library prints it since mid 2026."""
        return f"[{self.start_x}-{self.start_y} - {self.end_x}-{self.end_y}]"


def make_core_grid(columns: int, rows: int) -> tuple[CoreRange, ...]:
    """Return the grid that starts at core (0, 0)."""
    return (CoreRange(0, 0, columns - 1, rows - 1),)


def _check_shard(shape: tuple[int, ...], ranges: tuple[CoreRange, ...]) -> None:
    """Check a shard: the library divides by its sizes, and a zero crashes some of its paths (SIGFPE)."""
    if not shape or not all(1 <= size < 1 << 32 for size in shape):
        raise InvalidSpecError(f"shard shape {list(shape)} must have sizes in 1 .. 2^32-1")
    if not ranges:
        raise InvalidSpecError("a shard grid needs at least one core")
    for core_range in ranges:
        if core_range.columns < 1 or core_range.rows < 1 or core_range.start_x < 0 or core_range.start_y < 0:
            raise InvalidSpecError(f"core range {core_range} is empty or negative")
    if any(first.intersects(other) for first, other in combinations(ranges, 2)):
        raise InvalidSpecError("core ranges of a shard grid overlap")


@dataclass(frozen=True, slots=True)
class Shard:
    """Height, width or block sharding: one shard of `height` x `width` elements per core."""

    kind: str
    height: int
    width: int
    ranges: tuple[CoreRange, ...]
    by_column: bool = False
    """ShardOrientation.COL_MAJOR; it changes which core gets which shard, never the bytes."""

    def __post_init__(self) -> None:
        if self.kind not in ("height", "width", "block"):
            raise InvalidSpecError(f"unknown shard kind {self.kind!r}", hint="known: height, width, block, nd")
        _check_shard((self.height, self.width), self.ranges)

    @property
    def cores(self) -> int:
        return sum(r.cores for r in self.ranges)


@dataclass(frozen=True, slots=True)
class NdShard:
    """N-dimensional sharding: shards of any rank dealt over the cores, more than one per core if need be."""

    shape: tuple[int, ...]
    ranges: tuple[CoreRange, ...]
    by_column: bool = False
    distribution: str = "round_robin_1d"

    def __post_init__(self) -> None:
        if self.distribution not in ("round_robin_1d", "grid_2d"):
            raise InvalidSpecError(
                f"unknown shard distribution {self.distribution!r}", hint="known: round_robin_1d, grid_2d"
            )
        _check_shard(self.shape, self.ranges)

    @property
    def height(self) -> int:
        return (1, *self.shape)[-2]

    @property
    def width(self) -> int:
        return self.shape[-1]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor before it has an address."""

    shape: tuple[int, ...]
    dtype: DataType = BFLOAT16
    layout: Layout = TILE
    memory: Memory = DRAM
    shard: Shard | NdShard | None = None
    tile: Tile = field(default=TILE_32X32)
    alignment: tuple[int, int] = (1, 1)
    """Multiples to which the last two dimensions are padded too; tiles are always whole."""

    def __post_init__(self) -> None:
        if len(self.shape) > TENSOR_DIMENSIONS:
            raise InvalidSpecError(f"a shape of {len(self.shape):,} dimensions: {TENSOR_DIMENSIONS:,} at most")
        for dimension in self.shape:
            if not 0 <= dimension < 1 << 32:
                raise InvalidSpecError(f"dimension {dimension} of shape {list(self.shape)} is not in 0 .. 2^32-1")

        if len(self.shape) > 4 and self.elements.bit_length() > NUMBER_BITS:
            raise InvalidSpecError(f"a tensor of 2^{self.elements.bit_length() - 1} elements or more")

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def logical_bytes(self) -> int:
        """Bytes of the elements alone, before any padding."""
        return self.dtype.logical_bytes(self.elements)

    @property
    def is_tiled(self) -> bool:
        return self.layout is TILE

    @property
    def tile_bytes(self) -> int:
        """Bytes of one tile of its elements, in either layout."""
        return self.dtype.tile_bytes(self.tile)

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of a row; 0 for block floats, which exist in tiles alone."""
        return self.dtype.element_bytes or 0

    @property
    def tiles_across(self) -> int:
        """Tiles side by side in the last dimension."""
        return ceil_div(self.shape[-1], self.tile.width)

    @property
    def tiles_down(self) -> int:
        """Tiles below each other in the last dimension but one; IndexError where there is none."""
        return ceil_div(self.shape[-2], self.tile.height)

    @property
    def shard_kind(self) -> str:
        """`height`, `width`, `block` or `nd`; empty for an interleaved tensor."""
        return self.shard.kind if isinstance(self.shard, Shard) else "nd" if self.shard else ""

    @property
    def padded(self) -> tuple[int, ...]:
        """The shape with its padding, which only the last two dimensions have: tiles pad H of ``[N, C, H, W]`` per
        image.
        """
        shape, (rows, columns) = self.shape, self.alignment
        height, width = (1, 1, *shape)[-2:]
        if self.is_tiled:
            rows, columns = max(rows, self.tile.height), max(columns, self.tile.width)
            return (*shape[:-2], round_up(height, rows), round_up(width, columns))
        columns = max(columns, self.shard.width if self.shard is not None else 1)
        if rows == 1:
            return (*shape[:-1], round_up(width, columns))
        return (*shape[:-2], round_up(height, rows), round_up(width, columns))

    @property
    def padded_shape(self) -> tuple[int, ...]:
        """`padded` with the rank of the shape: a row in tiles has no height here."""
        padded = self.padded
        return padded[len(padded) - len(self.shape) :]

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape)) or "scalar"
        sharded = "" if self.shard is None else " sharded"
        return f"{shape} {self.dtype} {self.layout} {self.memory}{sharded}"


_SHARD = re.compile(
    r"(?P<kind>height|width|block|nd):(?P<shape>[0-9x]+)@(?P<grid>[0-9]+x[0-9]+)(?P<flags>(?::[a-z0-9_]+)*)"
)
_FLAGS = {"row", "col", "round_robin_1d", "grid_2d"}


def parse_shape(text: str) -> tuple[int, ...]:
    """Parse `1x96x2176x1920`; brackets and commas are accepted, and `scalar` has no dimensions."""
    cleaned = text.strip().strip("[]()").strip()
    if cleaned in ("", "scalar"):
        return ()
    try:
        return tuple(int(part) for part in re.split(r"\s*[x,]\s*|\s+", cleaned.removesuffix(",")))
    except ValueError:
        raise BadInputError(f"{text[:200]!r} is not a shape", hint="write it as 1x96x2176x1920") from None


def parse_shard(text: str) -> Shard | NdShard:
    """Parse `height:64x512@8x8`: kind, shard shape, grid of columns x rows; then `:col` and, for nd, `:grid_2d`."""
    match = _SHARD.fullmatch(text.strip().lower())
    if not match:
        raise BadInputError(
            f"{text!r} is not a shard",
            hint="write it as height:64x512@8x8[:col]; kinds: height, width, block, nd (nd: [:grid_2d])",
        )
    flags = [flag for flag in match["flags"].split(":") if flag]
    for flag in flags:
        if flag not in _FLAGS:
            raise BadInputError(f"unknown flag {flag!r} in shard {text!r}", hint="known: row, col, grid_2d")
    shape = parse_shape(match["shape"])
    columns, rows = parse_shape(match["grid"])
    if not (columns and rows):
        raise BadInputError(f"the grid of shard {text!r} has no cores")
    ranges, by_column = make_core_grid(columns, rows), "col" in flags
    if match["kind"] == "nd":
        return NdShard(shape, ranges, by_column, "grid_2d" if "grid_2d" in flags else "round_robin_1d")
    if len(shape) != 2:
        raise BadInputError(f"a {match['kind']} shard has two sizes, {text!r} has {len(shape)}")
    return Shard(match["kind"], shape[0], shape[1], ranges, by_column)
