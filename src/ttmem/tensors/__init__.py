# SPDX-License-Identifier: Apache-2.0
"""Tensor specs to padded shapes, pages, shards and bytes per bank: `place(spec, open_board("n150"))`."""

from ttmem.tensors.banks import interleaved_bytes_per_bank, round_up, sharded_bytes_per_bank, taken_bytes_per_bank
from ttmem.tensors.paging import Paging, paging_of
from ttmem.tensors.placement import Placement, place
from ttmem.tensors.spec import (
    LAYOUTS,
    ROW_MAJOR,
    TILE,
    CoreRange,
    InvalidSpecError,
    Layout,
    NdShard,
    Shard,
    TensorSpec,
    grid_of,
)

__all__ = [
    "LAYOUTS",
    "ROW_MAJOR",
    "TILE",
    "CoreRange",
    "InvalidSpecError",
    "Layout",
    "NdShard",
    "Paging",
    "Placement",
    "Shard",
    "TensorSpec",
    "grid_of",
    "interleaved_bytes_per_bank",
    "paging_of",
    "place",
    "round_up",
    "sharded_bytes_per_bank",
    "taken_bytes_per_bank",
]
