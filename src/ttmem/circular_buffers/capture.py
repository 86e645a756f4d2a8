# SPDX-License-Identifier: Apache-2.0
"""Circular buffers in a graph capture: exact bytes per program and core, and the room left below the lowest tensor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ttmem.tensors import CoreRange

CIRCULAR, DATAFLOW, SCRATCHPAD = "circular", "dataflow", "scratchpad"

_KINDS = {
    "circular_buffer_allocate": CIRCULAR,
    "dataflow_buffer_allocate": DATAFLOW,
    "scratchpad_allocate": SCRATCHPAD,
}
_RANGE = re.compile(r"\(?(?:x=)?(\d+)[-,](?:y=)?(\d+)\)?\s*-\s*\(?(?:x=)?(\d+)[-,](?:y=)?(\d+)\)?")
_MOST_CORES = 4096


@dataclass(frozen=True, slots=True)
class CapturedBuffer:
    """One static buffer as the library created it."""

    kind: str
    bytes_per_core: int
    ranges: tuple[CoreRange, ...]
    borrowed: bool
    """Lies in a tensor: takes nothing of its own."""
    address: int
    """0 in a capture that did not dispatch."""


@dataclass(frozen=True, slots=True)
class CapturedProgram:
    """The static buffers of one program."""

    operation: str
    buffers: tuple[CapturedBuffer, ...]
    lowest_tensor_address: int | None
    """Of the L1 tensors that the capture saw alive; None when it saw none or has no addresses."""

    @property
    def bytes_per_core(self) -> int:
        """On the core that has most."""
        totals: dict[tuple[int, int], int] = {}
        anywhere = 0
        for buffer in self.buffers:
            if buffer.borrowed:
                continue
            if not buffer.ranges:
                anywhere += buffer.bytes_per_core
            for core in {core for core_range in buffer.ranges for core in _cores(core_range)}:
                totals[core] = totals.get(core, 0) + buffer.bytes_per_core
        return max(totals.values(), default=0) + anywhere

    @property
    def end_address(self) -> int | None:
        """Where the highest buffer ends; None without addresses."""
        ends = [
            buffer.address + buffer.bytes_per_core for buffer in self.buffers if buffer.address and not buffer.borrowed
        ]
        return max(ends, default=None)

    @property
    def margin_bytes(self) -> int | None:
        """Between the buffers' end and the lowest tensor; below 0 the library refuses to launch."""
        if self.end_address is None or self.lowest_tensor_address is None:
            return None
        return self.lowest_tensor_address - self.end_address


def nodes_of(document: Any) -> list[Any] | None:
    """The nodes of a capture: a bare list, or the ``graph`` of a report; None for any other JSON."""
    nodes = document.get("graph") if isinstance(document, dict) else document
    if not isinstance(nodes, list) or not nodes:
        return None
    return nodes if any(isinstance(node, dict) and "node_type" in node for node in nodes[:50]) else None


@dataclass(slots=True)
class _Walk:
    names: list[str] = field(default_factory=list)
    pending: list[CapturedBuffer] = field(default_factory=list)
    operation: str = ""
    tensors: dict[tuple[Any, int], int] = field(default_factory=dict)
    programs: list[CapturedProgram] = field(default_factory=list)

    def close(self) -> None:
        if self.pending:
            addresses = [address for (_, address), alive in self.tensors.items() if alive > 0 and address]
            lowest = min(addresses, default=None)
            self.programs.append(CapturedProgram(self.operation, tuple(self.pending), lowest))
            self.pending = []


def programs_of(nodes: Sequence[Any]) -> tuple[CapturedProgram, ...]:
    """Programs in order. The library says ``circular_buffer_deallocate_all`` before it builds each of them."""
    walk = _Walk()
    for node in nodes:
        if isinstance(node, dict):
            _step(walk, str(node.get("node_type")), node.get("params") or {})
    walk.close()
    return tuple(walk.programs)


def _step(walk: _Walk, kind: str, params: Mapping[str, Any]) -> None:
    if not isinstance(params, dict):
        return
    if kind == "function_start":
        walk.names.append(str(params.get("name", "")))
    elif kind == "function_end":
        if len(walk.names) <= 1:
            walk.close()
        if walk.names:
            walk.names.pop()
    elif kind == "circular_buffer_deallocate_all":
        walk.close()
    elif kind in ("buffer_allocate", "buffer_deallocate") and params.get("type") == "L1":
        key = (params.get("device_id"), _integer(params.get("address")))
        walk.tensors[key] = walk.tensors.get(key, 0) + (1 if kind == "buffer_allocate" else -1)
    elif kind in _KINDS:
        if not walk.pending:
            walk.operation = walk.names[0] if walk.names else ""
        walk.pending.append(
            CapturedBuffer(
                kind=_KINDS[kind],
                bytes_per_core=_integer(params.get("size")),
                ranges=tuple(_ranges(str(params.get("core_range_set", "")))),
                borrowed=str(params.get("globally_allocated", params.get("borrows_memory", "0"))) not in ("0", "False"),
                address=_integer(params.get("address")),
            )
        )


def _ranges(text: str) -> Iterable[CoreRange]:
    """Both spellings of the library: ``{[0-0 - 7-3]}`` and ``[(x=0,y=0) - (x=7,y=3)]``."""
    for match in _RANGE.finditer(text):
        x, y, end_x, end_y = map(int, match.groups())
        if x <= end_x and y <= end_y and (end_x - x + 1) * (end_y - y + 1) <= _MOST_CORES:
            yield CoreRange(x, y, end_x, end_y)


def _cores(core_range: CoreRange) -> Iterable[tuple[int, int]]:
    for x in range(core_range.start_x, core_range.end_x + 1):
        for y in range(core_range.start_y, core_range.end_y + 1):
            yield x, y


def _integer(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0
