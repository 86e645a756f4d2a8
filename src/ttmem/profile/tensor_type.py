# SPDX-License-Identifier: Apache-2.0
"""The type of a tensor in a profile: shape, storage and the bytes that follow from them."""

from dataclasses import dataclass
from math import prod
from typing import Any

from ttmem.hardware import DATA_TYPES
from ttmem.twin.placement import compute_interleaved_bytes_per_bank, compute_sharded_bytes_per_bank

HOST = "HOST"
"""Memory of a tensor on the host: it takes none of the device's."""


def count_pages(shape: tuple[int, ...], height: int, width: int) -> int:
    """Return the number of pages of that size that cover a shape."""
    *outer, rows, columns = (1, 1, *shape)
    return prod(outer) * -(-rows // height) * -(-columns // max(width, 1))


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor type; equal types are stored once in a profile.

    ``dtype`` is how the elements are *stored* (a bfloat8_b tensor is printed with bf16 elements and
    bfp_bf8 tiles), so every byte figure follows from it.
    """

    shape: tuple[int, ...]
    dtype: str
    layout: str
    """``tile`` or ``row_major``; empty when the type was printed without a layout."""
    memory: str
    """``DRAM``, ``L1``, ``L1_SMALL``, ``TRACE``, ``HOST``, or empty when the type was printed without a layout."""
    placement: str
    """``interleaved``, ``height_sharded``, ``width_sharded``, ``block_sharded``, ``nd_sharded`` or empty."""
    logical_bytes: int
    """Bytes of the elements alone: what the tensor would need without padding."""
    padded_bytes: int
    """Bytes with padding, on one chip: all shards, or the whole interleaved buffer (before page alignment)."""
    page_bytes: int
    """One tile, or one row (of the shard when sharded)."""
    shard_bytes: int
    """Bytes that one core holds when sharded, 0 when interleaved."""
    distribution: str = ""
    """Distribution over the chips of a mesh: ``replicated on 8``, ``dim 3 over 8``; empty when unknown. The shape and
    all bytes are one chip's."""

    @property
    def on_device(self) -> bool:
        return self.memory not in ("", HOST)

    @property
    def padding_bytes(self) -> int:
        """Bytes added by rounding the shape up to tiles (or shards)."""
        return max(0, self.padded_bytes - self.logical_bytes)

    def bytes_per_bank(self, banks: int, page_alignment: int) -> int:
        """Return the bytes in each bank: pages are dealt round robin, and every bank reserves the largest share."""
        if not self.page_bytes or banks <= 0:
            return 0
        if self.shard_bytes:
            return compute_sharded_bytes_per_bank(
                shard_pages=self.shard_bytes // self.page_bytes,
                page_bytes=self.page_bytes,
                alignment_bytes=page_alignment,
            )
        return compute_interleaved_bytes_per_bank(
            pages=self.padded_bytes // self.page_bytes,
            page_bytes=self.page_bytes,
            alignment_bytes=page_alignment,
            banks=banks,
        )

    def describe(self) -> str:
        """Return ``1x32x4x64 bfloat16``, as tables and messages show a tensor."""
        return f"{'x'.join(map(str, self.shape)) or 'scalar'} {self.dtype}"


def decode_tensor_type(described: dict[str, Any]) -> TensorType:
    """Build the type from ``worker.library.describe_tensor``: shapes, pages and shards are the library's own
    figures."""
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
