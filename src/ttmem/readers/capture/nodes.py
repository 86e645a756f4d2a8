# SPDX-License-Identifier: Apache-2.0
"""Nodes of a captured graph, and the tensor specs and stack frames that ttnn prints into them.

ttnn spells the same object differently in C++ (``DataType::BFLOAT16``), in Python (``DataType.BFLOAT16``) and between
releases. All known spellings are read; others are ignored, because a capture stays useful without them.
"""

import re
from functools import lru_cache
from math import prod
from typing import Any

import msgspec

from ttmem.base.arithmetic import round_up
from ttmem.engines.worker import graph_nodes
from ttmem.engines.worker.graph_nodes import parse_memory
from ttmem.hardware import DATA_TYPES, TILE_32X32, DataType
from ttmem.profile.tensor_type import HOST, TensorType, count_pages


class Node(msgspec.Struct):
    """A node. Fields that a release does not write keep their defaults, unknown ones are ignored."""

    node_type: str = ""
    params: dict[str, Any] | None = None
    connections: list[int] = []
    input_tensors: list[int] = []
    stacking_level: int = 0

    @property
    def stated(self) -> graph_nodes.Params:
        """Return the parameters; ``graph_nodes`` knows the spelling of each release."""
        return self.params or {}

    def text(self, key: str) -> str:
        """A parameter as text."""
        return graph_nodes.read_text(self.stated, key)

    def number(self, key: str) -> int:
        """A parameter as a number."""
        return graph_nodes.read_number(self.stated, key)

    def flag(self, key: str) -> bool:
        """A parameter as yes or no."""
        return graph_nodes.read_flag(self.stated, key)


class PythonCall(msgspec.Struct):
    """A call as the Python layer recorded it (in the ``.python_io.json`` next to a report)."""

    name: str = ""
    python_stack_trace: list[str] | str | None = None
    error: dict[str, Any] | str | None = None

    @property
    def stack_trace(self) -> str:
        trace = self.python_stack_trace or ""
        return trace if isinstance(trace, str) else "\n".join(trace)

    @property
    def error_text(self) -> str:
        """``RuntimeError: TT_FATAL @ ...``; empty when the call returned."""
        if not self.error:
            return ""
        if isinstance(self.error, str):
            return self.error
        kind, message = (str(self.error.get(key, "")) for key in ("type", "message"))
        return f"{kind}: {message}" if kind else message


class BufferRow(msgspec.Struct):
    """A live buffer as a snapshot lists it."""

    address: int = 0
    max_size_per_bank: int = 0
    buffer_type: int | str = 0
    device_id: int = 0


class Report(msgspec.Struct):
    """The parts of a ``report.json`` that tell about memory."""

    graph: list[Node]
    version: int | str | None = None
    metadata: dict[str, Any] = {}
    devices: list[dict[str, Any]] = []
    cluster_descriptor: str = ""
    per_operation_buffers: dict[str, list[BufferRow]] = {}
    """By the number of the operation's first node: what was alive when it had ended."""
    python_io: list[PythonCall] = []


_DIMENSION = re.compile(r"(\d{1,15})(?:\[\d+\])?")
"""2024's shapes print the padded size in brackets behind the logical one."""
_MEMORY_LAYOUT = re.compile(r"TensorMemoryLayout(?:::|\.)(\w+)")
_BUFFER_TYPE = re.compile(r"BufferType(?:::|\.)(\w+)")
_SHARD_SHAPE = re.compile(r"(?<!\w)(?:shard_)?shape\"?[=:][\[{(](?P<sizes>[\d, ]{1,400})[\]})]")
_ND_SHAPE = re.compile(r'nd_shard_spec=\{"shard_shape":\[([\d, ]{1,400})\]')
_FRAME = re.compile(r'File "([^"\n]{1,4096})", line (\d{1,9})')
_MOST_ELEMENTS = 1 << 50


@lru_cache(maxsize=4096)
def parse_tensor_spec(
    shape: str, dtype: str, layout: str, memory_config: str, buffer_type: object = None
) -> TensorType | None:
    """The type of a captured tensor; None when its shape or element type cannot be read."""
    dimensions = tuple(int(size) for size in _DIMENSION.findall(shape))
    known = DATA_TYPES.get(dtype)
    if known is None or prod(dimensions) > _MOST_ELEMENTS:
        return None
    kind = _MEMORY_LAYOUT.search(memory_config)
    where = _BUFFER_TYPE.search(memory_config)
    memory = parse_memory(where[1]) if where else parse_memory(buffer_type)
    tiled = "ROW_MAJOR" not in layout.upper()
    placement = kind[1].lower() if kind else ""
    shard = _shard_shape(memory_config) if placement.endswith("sharded") else ()
    page_bytes, padded_bytes, shard_bytes = _sizes(dimensions, known, tiled, shard)
    return TensorType(
        shape=dimensions,
        dtype=known.name,
        layout="tile" if tiled else "row_major",
        memory=memory or HOST,
        placement=placement,
        logical_bytes=known.logical_bytes(prod(dimensions)),
        padded_bytes=padded_bytes,
        page_bytes=page_bytes,
        shard_bytes=shard_bytes,
    )


def _shard_shape(memory_config: str) -> tuple[int, ...]:
    """Parse the shard shape of the spec that made the tensor: a legacy spec is printed as an ND one too."""
    found = _ND_SHAPE.search(memory_config) if "created_with_nd_shard_spec=1" in memory_config else None
    sizes = found[1] if found else (other["sizes"] if (other := _SHARD_SHAPE.search(memory_config)) else "")
    return tuple(int(size) for size in _DIMENSION.findall(sizes))


def _sizes(shape: tuple[int, ...], dtype: DataType, tiled: bool, shard: tuple[int, ...]) -> tuple[int, int, int]:
    """Bytes of one page, of the whole padded tensor, and of one shard (0 when there is none)."""
    *outer, rows, columns = (1, 1, *shape)
    height, width = (32, 32) if tiled else (1, shard[-1] if shard else columns)
    page_bytes = dtype.tile_bytes(TILE_32X32) if tiled else dtype.logical_bytes(width)
    if not shard:
        return page_bytes, count_pages(shape, height, width) * page_bytes, 0
    shard_bytes = count_pages(shard, height, width) * page_bytes
    padded = (*outer, round_up(rows, height), round_up(columns, max(width, 1)))
    return page_bytes, _shards(padded, shard) * shard_bytes, shard_bytes


def _shards(shape: tuple[int, ...], shard: tuple[int, ...]) -> int:
    """Count the shards of a tensor: dimensions that the shard lacks are folded into its first one."""
    rank = len(shard)
    shape = (1,) * (rank - len(shape)) + shape
    folded = (prod(shape[: len(shape) - rank + 1]), *shape[len(shape) - rank + 1 :])
    return prod(-(-size // max(part, 1)) for size, part in zip(folded, shard, strict=True))


def find_innermost_frame(stack_trace: str) -> str:
    """``file.py:12`` of the frame that called the operation: captures print the innermost one first."""
    frame = _FRAME.search(stack_trace)
    return f"{frame[1]}:{frame[2]}" if frame else ""


def normalize_operation(name: str) -> str:
    """``ttnn::add`` and ``ttnn.add`` are one operation; ``Tensor::deallocate`` is a deallocation like any other."""
    return name.replace("::", ".")
