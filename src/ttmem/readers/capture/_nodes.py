# SPDX-License-Identifier: Apache-2.0
"""The nodes of a captured graph, decoded and checked; what they mean is worked out elsewhere."""

from typing import Any

import msgspec

from ttmem.engines.worker.graph_nodes import parameters


class Node(msgspec.Struct):
    """One node. Fields that a release does not write keep their defaults, unknown ones are ignored."""

    node_type: str = ""
    params: dict[str, Any] | None = None
    connections: list[int] = []
    input_tensors: list[int] = []
    stacking_level: int = 0

    @property
    def stated(self) -> parameters.Params:
        """What the node says of itself; ``capture_nodes`` knows how releases spell it."""
        return self.params or {}

    def text(self, key: str) -> str:
        """A parameter as text."""
        return parameters.text(self.stated, key)

    def number(self, key: str) -> int:
        """A parameter as a number."""
        return parameters.number(self.stated, key)

    def flag(self, key: str) -> bool:
        """A parameter as yes or no."""
        return parameters.flag(self.stated, key)


class PythonCall(msgspec.Struct):
    """What the Python layer wrote down about one call (the ``.python_io.json`` beside a report)."""

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
