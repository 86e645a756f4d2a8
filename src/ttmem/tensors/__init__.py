# SPDX-License-Identifier: Apache-2.0
"""Tensor specs to padded shapes, pages, shards and bytes per bank: `place(spec, open_board("n150"))`."""

from ttmem.tensors.banks import interleaved_bytes_per_bank, round_up, sharded_bytes_per_bank, taken_bytes_per_bank
from ttmem.tensors.padding import DimensionPadding, PaddingExplanation, explain_padding
from ttmem.tensors.paging import paging_of
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
from ttmem.tensors.text import parse_shape, parse_shard

__all__ = [
    "LAYOUTS",
    "ROW_MAJOR",
    "TILE",
    "CoreRange",
    "DimensionPadding",
    "InvalidSpecError",
    "Layout",
    "NdShard",
    "PaddingExplanation",
    "Placement",
    "Shard",
    "TensorSpec",
    "explain_padding",
    "grid_of",
    "interleaved_bytes_per_bank",
    "paging_of",
    "parse_shape",
    "parse_shard",
    "place",
    "round_up",
    "sharded_bytes_per_bank",
    "taken_bytes_per_bank",
]
