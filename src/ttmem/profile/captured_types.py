# SPDX-License-Identifier: Apache-2.0
"""What a worker says of a tensor, as the type that profiles keep."""

from math import prod
from typing import Any

from ttmem.hardware import DATA_TYPES
from ttmem.profile.tensor_type import TensorType


def tensor_type_of(described: dict[str, Any]) -> TensorType:
    """``described`` as ``worker.tensors.describe`` gives it: shapes, pages and shards are the library's own figures."""
    elements = prod(described["shape"])
    padded = described["pages"] * described["page_bytes"]
    known = DATA_TYPES.get(described["dtype"])
    if known is not None:
        logical = known.logical_bytes(elements)
    else:  # a format newer than our table: its own pages tell what an element takes
        logical = padded * elements // max(prod(described["padded"]), 1)
    cores = described.get("shard_cores", 0)
    return TensorType(
        shape=tuple(described["shape"]),
        dtype=described["dtype"],
        layout=described["layout"],
        memory=described["memory"],
        placement=described["placement"],
        logical_bytes=logical,
        padded_bytes=padded,
        page_bytes=described["page_bytes"],
        shard_bytes=-(-padded // cores) if cores else 0,
        distribution=described.get("distribution", ""),
    )
