# SPDX-License-Identifier: Apache-2.0
"""The programs of a capture and their static buffers: circular buffers, dataflow buffers and scratchpads."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from .parameters import Params, flag, memory_of, number, text

Node = Mapping[str, Any]

CIRCULAR, DATAFLOW, SCRATCHPAD = "circular", "dataflow", "scratchpad"
_KINDS = {
    "circular_buffer_allocate": CIRCULAR,
    "dataflow_buffer_allocate": DATAFLOW,
    "scratchpad_allocate": SCRATCHPAD,
}
_COLUMNS = {CIRCULAR: 0, DATAFLOW: 1, SCRATCHPAD: 2}
_POINTER = re.compile(r"0x[0-9a-f]+")
_NODES_LOOKED_AT = 50
_RECTANGLE = re.compile(
    r"\(?(?:x=)?(\d{1,9})\s?[-,]\s?(?:y=)?(\d{1,9})\)?\s*-\s*\(?(?:x=)?(\d{1,9})\s?[-,]\s?(?:y=)?(\d{1,9})\)?"
)
_WIDEST_GRID = 256
"""Cores in one direction; more is a damaged text, not a chip."""


class CoreRectangle(NamedTuple):
    """Both corners belong to it."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def cores(self) -> int:
        """How many there are."""
        return (self.right - self.left + 1) * (self.bottom - self.top + 1)


@lru_cache(maxsize=1024)
def core_rectangles(text: str) -> tuple[CoreRectangle, ...]:
    """``{[0-0 - 7-3]}`` and the older ``{[(x=0,y=0) - (x=7,y=3)]}``; what cannot be a chip's cores is left out."""
    found = (CoreRectangle(*map(int, corners)) for corners in _RECTANGLE.findall(text))
    return tuple(one for one in found if one.left <= one.right < _WIDEST_GRID and one.top <= one.bottom < _WIDEST_GRID)


@lru_cache(maxsize=256)
def cores_in(rectangles: tuple[CoreRectangle, ...]) -> frozenset[tuple[int, int]]:
    """Every core of some rectangles, each once."""
    return frozenset(
        (x, y)
        for left, top, right, bottom in rectangles
        for x in range(left, right + 1)
        for y in range(top, bottom + 1)
    )


class StaticBuffer(NamedTuple):
    """L1 that belongs to a program and not to a tensor, as the library created it."""

    kind: str
    bytes_per_core: int
    ranges: tuple[CoreRectangle, ...]
    """Empty: the node does not tell, so it may be any core."""
    borrowed: bool
    """Lies in a tensor: takes nothing of its own."""
    address: int
    """0 in a capture that did not dispatch."""
    device: int


def static_buffer(node_type: str, params: Params) -> StaticBuffer | None:
    """The static buffer that a node creates; None for every other node."""
    kind = _KINDS.get(node_type)
    if kind is None:
        return None
    return StaticBuffer(
        kind,
        max(0, number(params, "size")),
        core_rectangles(text(params, "core_range_set")),
        flag(params, "globally_allocated") or flag(params, "borrows_memory"),
        number(params, "address"),
        number(params, "device_id"),
    )


def worst_core(buffers: Iterable[StaticBuffer]) -> tuple[int, int, int]:
    """Bytes of circular buffers, dataflow buffers and scratchpads on the core that has most of them together.

    Most programs put all buffers on the same cores, so buffers are summed by their cores before cores are looked at.
    """
    sums: dict[tuple[int, tuple[CoreRectangle, ...]], list[int]] = {}
    anywhere = [0, 0, 0]
    for buffer in buffers:
        if not buffer.borrowed:
            held = sums.setdefault((buffer.device, buffer.ranges), [0, 0, 0]) if buffer.ranges else anywhere
            held[_COLUMNS[buffer.kind]] += buffer.bytes_per_core
    worst = next(iter(sums.values()), [0, 0, 0])
    if len(sums) > 1:
        per_core: dict[tuple[int, int, int], list[int]] = {}
        for (device, ranges), bytes_ in sums.items():
            for x, y in cores_in(ranges):
                held = per_core.setdefault((device, x, y), [0, 0, 0])
                for column, size in enumerate(bytes_):
                    held[column] += size
        worst = max(per_core.items(), key=lambda item: (sum(item[1]), [-place for place in item[0]]))[1]
    return worst[0] + anywhere[0], worst[1] + anywhere[1], worst[2] + anywhere[2]


@dataclass(frozen=True, slots=True)
class CapturedProgram:
    """One program of a capture."""

    operation: str
    """The outermost function that it was built in."""
    factory: str
    """The device operation and program factory that built it, empty where the capture does not say."""
    is_announced: bool
    """The library clears all circular buffers before it builds a program; without that, buffers are all there is."""
    buffers: tuple[StaticBuffer, ...]
    lowest_tensor_address: int | None
    """Of the L1 tensors that the capture saw alive; None when it saw none or has no addresses."""

    @property
    def bytes_per_core(self) -> int:
        """On the core that has most."""
        return sum(worst_core(self.buffers))

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
    return nodes if any(isinstance(node, dict) and "node_type" in node for node in nodes[:_NODES_LOOKED_AT]) else None


def programs_of(nodes: Iterable[Any]) -> tuple[CapturedProgram, ...]:
    """Programs in order. The library says ``circular_buffer_deallocate_all`` before it builds each of them."""
    found: list[CapturedProgram] = []
    functions: list[tuple[str, str]] = []
    """Those that are open: name, and device program if it is one."""
    tensors: Counter[tuple[int, int]] = Counter()
    """Device and address of L1 buffers: how often they are allocated."""
    building: list[StaticBuffer] | None = None
    begun = ("", "", False)

    def begin(*, announced: bool) -> list[StaticBuffer]:
        nonlocal begun
        begun = (functions[0][0] if functions else "", innermost(functions), announced)
        return []

    def close() -> None:
        nonlocal building
        if building is not None:
            lowest = min((address for (_, address), times in tensors.items() if times > 0 and address), default=None)
            found.append(CapturedProgram(*begun, tuple(building), lowest))
        building = None

    for node in nodes:
        kind, params = (node.get("node_type"), node.get("params") or {}) if isinstance(node, dict) else ("", {})
        if not isinstance(params, dict):
            continue
        if kind == "function_start":
            functions.append((text(params, "name"), device_program(params)))
        elif kind == "function_end":
            del functions[-1:]
            if not functions:
                close()
        elif kind == "circular_buffer_deallocate_all":
            close()
            building = begin(announced=True)
        elif kind in ("buffer_allocate", "buffer_deallocate") and memory_of(params) == "L1":
            place = (number(params, "device_id"), number(params, "address"))
            tensors[place] += 1 if kind == "buffer_allocate" else -1
        elif isinstance(kind, str) and (buffer := static_buffer(kind, params)) is not None:
            if building is None:
                building = begin(announced=False)
            building.append(buffer)
    close()
    return tuple(found)


def device_program(params: Params) -> str:
    """``Operation/Factory`` of a function that is a device operation, empty for others.

    A device operation is known by its factory; older releases name only the operation.
    """
    factory = params.get("program_factory_type")
    name = text(params, "name")
    if factory is None and "program_cache_hit" not in params and not name.endswith("Operation"):
        return ""
    return f"{name}/{str(factory or '').rpartition('::')[2]}"


def innermost(functions: Sequence[tuple[str, str]]) -> str:
    """The device program that is being made, of the functions that are open: (name, device program)."""
    return next((program for _, program in reversed(functions) if program), "")


def made_programs(nodes: Iterable[Node], *, hits: bool = False) -> list[str]:
    """The device operations that had to make a program (with ``hits``: that found one), each as a key.

    Equal for equal factories and equally described arguments; a program config does not show in the description.
    """
    keys = []
    for node in nodes:
        params = node["params"] or {}
        if node["node_type"] != "function_start" or params.get("program_cache_hit") is None:
            continue
        if flag(params, "program_cache_hit") == hits:
            called = (params.get("name"), params.get("program_factory_type"), node.get("arguments"))
            keys.append(hashlib.blake2b(_POINTER.sub("", repr(called)).encode(), digest_size=16).hexdigest())
    return keys
