# SPDX-License-Identifier: Apache-2.0
"""Where the compiler put a tensor: its type as the engines' steps write a tensor."""

from typing import Any

from ttmem.hardware import DATA_TYPES
from ttmem.profile.tensor_type import HOST
from ttmem.readers.mlir._types import parse_tensor_type, shard_of

TensorForm = dict[str, Any]
"""``{"shape", "dtype", "layout", "memory"}`` and a ``shard`` where there is one: an ``alloc`` step without its name."""

_NEAREST = {"bool": "bfloat16", "float16": "bfloat16", "float64": "float32", "int64": "int32", "int16": "int32"}
"""For types that the library has no tensors of: modules from before the compiler chose how tensors are stored."""


class Layouts:
    """Types of one module; each text is read once."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._known: dict[bytes, TensorForm | None] = {}
        self.without_layout = 0
        """Types that do not say where the tensor lies: a stage before layouts are chosen."""
        self.other_types: set[str] = set()
        """Data types that the library does not have."""

    def form(self, type_text: bytes) -> TensorForm | None:
        """The tensor that a type describes, None for what is no tensor (a device, a trace's number)."""
        if type_text not in self._known:
            self._known[type_text] = self._read(type_text)
        return self._known[type_text]

    def local_shape(self, type_text: bytes, rank: int) -> list[int] | None:
        """What one chip has of a tensor, where the module says so."""
        parsed = parse_tensor_type(type_text) if type_text else None
        return list(parsed.shape) if parsed is not None and len(parsed.shape) == rank else None

    def _read(self, type_text: bytes) -> TensorForm | None:
        parsed = parse_tensor_type(type_text)
        if parsed is None or b"#ttnn.trace_id" in type_text:
            return None
        dtype = DATA_TYPES.get(parsed.dtype)
        if dtype is None or not dtype.in_ttnn:
            nearest = _NEAREST.get(dtype.name if dtype else parsed.dtype)
            if nearest is None:
                return None
            self.other_types.add(dtype.name if dtype else parsed.dtype)
            dtype = DATA_TYPES.find(nearest)
        if not parsed.memory:
            self.without_layout += 1
        form: TensorForm = {
            "shape": list(parsed.shape),
            "dtype": dtype.name,
            "layout": parsed.layout or "tile",
            "memory": parsed.memory or "DRAM",
        }
        shard = shard_of(type_text, self._columns) if parsed.memory not in ("", HOST) else None
        return {**form, "shard": shard} if shard else form


def on_device(form: TensorForm | None) -> bool:
    return form is not None and form["memory"] != HOST
