# SPDX-License-Identifier: Apache-2.0
"""What a shape weighs on a device: tiles, and bytes in the layout that ran."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ttmem.hardware import DataType


def tile_count(shape: Sequence[int]) -> int:
    """Tiles of 32x32 that a shape fills, in whole or in part."""
    *outer, height, width = (1, 1, *shape)
    return prod(outer) * -(-height // 32) * -(-width // 32)


def padded_bytes(shape: Sequence[int], dtype: DataType, layout: str) -> int:
    """Bytes of all elements with the padding of their tiles; row-major tensors have none."""
    return tile_count(shape) * dtype.tile_bytes() if layout == "tile" else dtype.logical_bytes(prod(shape))
