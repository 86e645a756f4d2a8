# SPDX-License-Identifier: Apache-2.0
"""Where the compiler put a tensor: its type as the engines' steps write a tensor."""

from typing import Any

from ttmem.hardware import DATA_TYPES
from ttmem.profile import HOST
from ttmem.readers.mlir._types import parse_tensor_type, shard_of

TensorForm = dict[str, Any]
"""``{"shape", "dtype", "layout", "memory"}`` and a ``shard`` where there is one: an ``alloc`` step without its name."""

_ELEMENTS = {
    "f32": "float32",
    "bf16": "bfloat16",
    "i1": "bfloat16",
    "f16": "bfloat16",
    "i64": "int32",
    "f64": "float32",
}
"""Of types that were printed before the compiler chose how they are stored."""


class Layouts:
    """Types of one module; each text is read once."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._known: dict[bytes, TensorForm | None] = {}
        self.without_layout = 0
        """Types that do not say where the tensor lies: a stage before layouts are chosen."""

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
        dtype = parsed.dtype if DATA_TYPES.get(parsed.dtype) else _ELEMENTS.get(parsed.dtype, "")
        if not dtype:
            return None
        if not parsed.memory:
            self.without_layout += 1
        form: TensorForm = {
            "shape": list(parsed.shape),
            "dtype": DATA_TYPES.find(dtype).name,
            "layout": parsed.layout or "tile",
            "memory": parsed.memory or "DRAM",
        }
        shard = shard_of(type_text, self._columns) if parsed.memory not in ("", HOST) else None
        return {**form, "shard": shard} if shard else form


def on_device(form: TensorForm | None) -> bool:
    return form is not None and form["memory"] != HOST
