# SPDX-License-Identifier: Apache-2.0
"""A tensor's description from the worker as a ``TensorType`` of the model."""

from __future__ import annotations

from math import prod
from typing import Any

from ttmem.hardware import DATA_TYPES
from ttmem.profile import TensorType


def tensor_type_of(told: dict[str, Any]) -> TensorType:
    """``told`` as ``worker.tensors.describe`` gives it: shapes, pages and shards are the library's own figures."""
    elements = prod(told["shape"])
    padded = told["pages"] * told["page_bytes"]
    known = DATA_TYPES.get(told["dtype"])
    if known is not None:
        logical = known.logical_bytes(elements)
    else:  # a format newer than our table: its own pages tell what an element takes
        logical = padded * elements // max(prod(told["padded"]), 1)
    cores = told.get("shard_cores", 0)
    return TensorType(
        shape=tuple(told["shape"]),
        dtype=told["dtype"],
        layout=told["layout"],
        memory=told["memory"],
        placement=told["placement"],
        logical_bytes=logical,
        padded_bytes=padded,
        page_bytes=told["page_bytes"],
        shard_bytes=-(-padded // cores) if cores else 0,
    )
