# SPDX-License-Identifier: Apache-2.0
"""Tensors among the arguments and results of a call, and what they say about themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .library import Library

_DEEPEST = 6
"""Arguments are lists of lists at most; a cyclic structure must not be followed for ever."""


def tensors_in(library: Library, value: Any, depth: int = 0) -> Iterator[Any]:
    """Every tensor in a structure of lists, tuples and dictionaries."""
    if isinstance(value, library.ttnn.Tensor):
        yield value
    elif depth < _DEEPEST and isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(library, item, depth + 1)
    elif depth < _DEEPEST and isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(library, item, depth + 1)


def device_tensors(library: Library, value: Any) -> list[Any]:
    """Those that have a buffer on a device."""
    return [tensor for tensor in tensors_in(library, value) if library.is_on_device(tensor)]


def describe(tensor: Any) -> dict[str, Any]:
    """What a tensor type of a profile is made from; figures are the library's own."""
    config = tensor.memory_config()
    shard = config.shard_spec
    described: dict[str, Any] = {
        "shape": list(tensor.shape),
        "padded": list(tensor.padded_shape),
        "dtype": tensor.dtype.name.lower(),
        "layout": "tile" if tensor.layout.name == "TILE" else "row_major",
        "memory": config.buffer_type.name,
        "placement": config.memory_layout.name.lower(),
        "page_bytes": tensor.buffer_page_size(),
        "pages": tensor.buffer_num_pages(),
    }
    if shard is not None:
        described["shard"] = list(shard.shape)
        described["shard_cores"] = shard.num_cores()
    return described


def address_key(tensor: Any) -> tuple[str, int]:
    """Where its buffer is: two tensors with the same key share one."""
    return tensor.memory_config().buffer_type.name, tensor.buffer_address()
