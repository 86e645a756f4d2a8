# SPDX-License-Identifier: Apache-2.0
"""What a case's inputs weigh: the elements alone, and in the layout that ran."""

from __future__ import annotations

from math import prod

from ttmem.hardware import DATA_TYPES
from ttmem.operators import Recipe


def bytes_of(recipe: Recipe) -> dict[str, int]:
    """``logical_bytes`` and ``padded_bytes`` of the tensors that are put on the device."""
    logical = padded = 0
    for tensor in recipe.inputs:
        if tensor.on_host:
            continue
        dtype = DATA_TYPES.find(tensor.dtype)
        logical += dtype.logical_bytes(prod(tensor.shape))
        if tensor.layout == "tile":
            *outer, height, width = (1, 1, *tensor.shape)
            padded += prod(outer) * -(-height // 32) * -(-width // 32) * dtype.tile_bytes()
        else:
            padded += dtype.logical_bytes(prod(tensor.shape))
    return {"logical_bytes": logical, "padded_bytes": padded}
