# SPDX-License-Identifier: Apache-2.0
"""Tensor specs to padded shapes, pages, shards and bytes per bank."""

from ttmem.tensors.banks import interleaved_bytes_per_bank, round_up, sharded_bytes_per_bank, taken_bytes_per_bank

__all__ = [
    "interleaved_bytes_per_bank",
    "round_up",
    "sharded_bytes_per_bank",
    "taken_bytes_per_bank",
]
