# SPDX-License-Identifier: Apache-2.0
"""Element formats and how many bytes they take, plain and in tiles, the unit in which TILE tensors are stored.

Names: the canonical one is what ttnn prints (`bfloat16`), aliases are what MLIR prints (`bf16`, `ui32`, and inside
tiles `bfp_bf8`, `u32`) and what people type. Types that only MLIR knows are here too, so that a log can be read.
"""

from dataclasses import dataclass
from functools import lru_cache

from ttmem.hardware._registry import ByName, Registry

FACE_WIDTH = 16
_LEGAL_SHAPES = frozenset([(32, 32), (16, 32), (32, 16), (16, 16)] + [(h, w) for h in (8, 4, 2, 1) for w in (32, 16)])


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of height x width elements, stored as faces of at most 16 x 16."""

    height: int = 32
    width: int = 32

    @property
    def is_legal(self) -> bool:
        """True if the library accepts this tile shape."""
        return (self.height, self.width) in _LEGAL_SHAPES

    @property
    def elements(self) -> int:
        return self.height * self.width

    @property
    def exponent_bytes(self) -> int:
        """Shared exponents of a block float tile: one per 16-element face row, padded to 16 bytes as a whole."""
        face_height = min(self.height, 16)
        faces = self.elements // (face_height * FACE_WIDTH)
        return -(-face_height * faces // 16) * 16

    def __str__(self) -> str:
        return f"{self.height}x{self.width}"


TILE_32X32 = Tile()
LEGAL_TILES = tuple(Tile(h, w) for h, w in sorted(_LEGAL_SHAPES, reverse=True))


@dataclass(frozen=True, slots=True)
class DataType(ByName):
    """An element format; block floats share one exponent byte per 16 elements and exist only in tiles."""

    __hash__ = ByName.__hash__
    name: str
    mlir_name: str
    """As MLIR prints it in a tile, which is the storage type (a bfp8 tensor has the element type bf16)."""
    mantissa_bits: int
    """Bits per element: the whole element for plain formats, sign and mantissa for block floats."""
    is_block_float: bool = False
    in_ttnn: bool = True
    """False: only MLIR or the host knows it; ttnn cannot allocate such a tensor."""
    row_major_only: bool = False
    not_on: tuple[str, ...] = ()
    """Architectures whose device tensors cannot have it."""
    aliases: tuple[str, ...] = ()

    @property
    def is_float(self) -> bool:
        return "float" in self.name or self.name.startswith("fp")

    @property
    def element_bytes(self) -> int | None:
        """Bytes of one row-major element; None for block floats, whose elements have no bytes of their own."""
        return None if self.is_block_float else self.mantissa_bits // 8

    def tile_bytes(self, tile: Tile = TILE_32X32) -> int:
        """Bytes of one tile, exponents included: 2048 for bfloat16, 1088 for bfloat8_b."""
        return tile.elements * self.mantissa_bits // 8 + (tile.exponent_bytes if self.is_block_float else 0)

    def logical_bytes(self, elements: int) -> int:
        """Return the bytes of ``elements`` elements without any padding.

        A block float counts with its share of the exponents (1088/1024 and 576/1024 bytes per element), so that the
        ratio of padded to logical bytes shows padding of the shape alone. Fractions of a byte are dropped.
        """
        return elements * self.tile_bytes() // TILE_32X32.elements


@lru_cache(1 << 10)  # a report of a sweep asks millions of times
def _fold(name: str) -> str:
    """`DataType.BFLOAT16` (Python) and `DataType::BFLOAT16` (captures) are bfloat16."""
    return name.strip().lower().removeprefix("datatype").lstrip(".:")


BFLOAT16 = DataType("bfloat16", "bf16", 16, aliases=("bf16",))
FLOAT32 = DataType("float32", "f32", 32, aliases=("f32", "fp32", "float"))
BFLOAT8_B = DataType("bfloat8_b", "bfp_bf8", 8, is_block_float=True, aliases=("bfp_bf8", "bfp8_b", "bfp8", "bf8"))
BFLOAT4_B = DataType("bfloat4_b", "bfp_bf4", 4, is_block_float=True, aliases=("bfp_bf4", "bfp4_b", "bfp4", "bf4"))
UINT8 = DataType("uint8", "u8", 8, aliases=("u8", "ui8"))
UINT16 = DataType("uint16", "u16", 16, aliases=("u16", "ui16"))
UINT32 = DataType("uint32", "u32", 32, aliases=("u32", "ui32"))
INT32 = DataType("int32", "si32", 32, aliases=("si32", "i32"))
INT8 = DataType("int8", "si8", 8, aliases=("si8", "i8"))
FP8_E4M3 = DataType(
    "fp8_e4m3", "f8E4M3FN", 8, row_major_only=True, not_on=("wormhole",), aliases=("f8e4m3fn", "fp8", "float8_e4m3fn")
)

_MLIR_ONLY = (
    DataType("int16", "si16", 16, in_ttnn=False, aliases=("si16", "i16")),
    DataType("int64", "si64", 64, in_ttnn=False, aliases=("si64", "i64")),
    DataType("uint64", "u64", 64, in_ttnn=False, aliases=("u64", "ui64")),
    DataType("bool", "bool", 8, in_ttnn=False, aliases=("i1",)),
    DataType("float16", "f16", 16, in_ttnn=False, aliases=("f16", "fp16", "half")),
    DataType("float64", "f64", 64, in_ttnn=False, aliases=("f64", "fp64", "double")),
    DataType("bfloat8_a", "bfp_f8", 8, is_block_float=True, in_ttnn=False, aliases=("bfp_f8", "bfp8_a")),
    DataType("bfloat4_a", "bfp_f4", 4, is_block_float=True, in_ttnn=False, aliases=("bfp_f4", "bfp4_a")),
    DataType("bfloat2_b", "bfp_bf2", 2, is_block_float=True, in_ttnn=False, aliases=("bfp_bf2", "bfp2_b", "bfp2")),
    DataType("bfloat2_a", "bfp_f2", 2, is_block_float=True, in_ttnn=False, aliases=("bfp_f2", "bfp2_a")),
)
_TTNN = (BFLOAT16, FLOAT32, BFLOAT8_B, BFLOAT4_B, UINT8, UINT16, UINT32, INT32, INT8, FP8_E4M3)

DATA_TYPES: Registry[DataType] = Registry("data type", (*_TTNN, *_MLIR_ONLY), fold=_fold)
