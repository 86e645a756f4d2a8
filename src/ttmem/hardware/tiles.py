# SPDX-License-Identifier: Apache-2.0
"""Tiles: the unit in which TILE tensors are stored and padded."""

from __future__ import annotations

from dataclasses import dataclass

FACE_WIDTH = 16
_LEGAL_SHAPES = frozenset(
    [(32, 32), (16, 32), (32, 16), (16, 16)] + [(h, w) for h in (8, 4, 2, 1) for w in (32, 16)],
)


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of height x width elements, stored as faces of at most 16 x 16."""

    height: int = 32
    width: int = 32

    @property
    def is_legal(self) -> bool:
        """Whether the library accepts this tile shape."""
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
