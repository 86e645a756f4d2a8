# SPDX-License-Identifier: Apache-2.0
"""The nodes of a ttnn graph capture, decoded: parameters, static buffers and programs, in the spelling of any release.

The standard library alone: the worker loads this file in an interpreter that need not have ttmem.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

Node = Mapping[str, Any]
Params = Mapping[str, Any]

LARGEST_NUMBER = 1 << 48
"""Larger numbers are damage: no machine has that many bytes, and sums would not fit a column."""

HOST = "HOST"
BUFFER_TYPES = {0: "DRAM", 1: "L1", 2: HOST, 3: "L1_SMALL", 4: "TRACE"}


def read_text(params: Params, key: str) -> str:
    """Return a parameter as text; empty when missing."""
    value = params.get(key)
    return "" if value is None else str(value)


def read_number(params: Params, key: str) -> int:
    """Return a parameter as a number; 0 when missing or damaged."""
    return parse_number(params.get(key))


def parse_number(value: object) -> int:
    """Return a number that a capture or database stores as number or text; 0 for anything else."""
    try:
        found = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return 0
    return found if -LARGEST_NUMBER < found < LARGEST_NUMBER else 0


def read_flag(params: Params, key: str) -> bool:
    """Return a parameter as a flag: ``1``, ``"1"``, ``true``, ``"true"`` and ``"True"`` all mean yes."""
    return read_text(params, key).strip().lower() in ("1", "true")


def parse_memory(value: object) -> str:
    """Return ``DRAM`` ... ``TRACE`` or ``HOST`` for a buffer type, a number or (newer) its name; empty if unknown."""
    if isinstance(value, str):
        name = value.rpartition(":")[2].rpartition(".")[2].upper()
        if name == "SYSTEM_MEMORY":
            return HOST
        if name != HOST and name in BUFFER_TYPES.values():
            return name
        if not name.isdecimal() or len(name) > 2:
            return ""
        value = int(name)
    return BUFFER_TYPES.get(value, "") if isinstance(value, int) else ""


def read_memory(params: Params) -> str:
    """Return the memory of a buffer's node, under whichever key the release writes it."""
    return parse_memory(params.get("buffer_type", params.get("type")))


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
"""Cores in one direction; more is a damaged text."""


class CoreRectangle(NamedTuple):
    """A rectangle of cores; both corners belong to it."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def cores(self) -> int:
        return (self.right - self.left + 1) * (self.bottom - self.top + 1)


@lru_cache(maxsize=1024)
def parse_core_rectangles(ranges: str) -> tuple[CoreRectangle, ...]:
    """Parse ``{[0-0 - 7-3]}`` and the older ``{[(x=0,y=0) - (x=7,y=3)]}``; leave out impossible cores."""
    found = (CoreRectangle(*map(int, corners)) for corners in _RECTANGLE.findall(ranges))
    return tuple(one for one in found if one.left <= one.right < _WIDEST_GRID and one.top <= one.bottom < _WIDEST_GRID)


@lru_cache(maxsize=256)
def list_cores(rectangles: tuple[CoreRectangle, ...]) -> frozenset[tuple[int, int]]:
    """Return the cores of some rectangles, each once."""
    return frozenset(
        (x, y)
        for left, top, right, bottom in rectangles
        for x in range(left, right + 1)
        for y in range(top, bottom + 1)
    )


class CapturedStaticBuffer(NamedTuple):
    """L1 that belongs to a program, not to a tensor."""

    kind: str
    bytes_per_core: int
    ranges: tuple[CoreRectangle, ...]
    """Empty when the node does not say: any core."""
    borrowed: bool
    """Placed in a tensor's memory: takes none of its own."""
    address: int
    """0 in a capture without dispatch."""
    device: int


def read_static_buffer(node_type: str, params: Params) -> CapturedStaticBuffer | None:
    """Return the static buffer that a node creates; None for other nodes."""
    kind = _KINDS.get(node_type)
    if kind is None:
        return None
    return CapturedStaticBuffer(
        kind,
        max(0, read_number(params, "size")),
        parse_core_rectangles(read_text(params, "core_range_set")),
        read_flag(params, "globally_allocated") or read_flag(params, "borrows_memory"),
        read_number(params, "address"),
        read_number(params, "device_id"),
    )


def sum_worst_core(buffers: Iterable[CapturedStaticBuffer]) -> tuple[int, int, int]:
    """Return the bytes of circular buffers, dataflow buffers and scratchpads on the core with the largest sum.

    Most programs put all buffers on the same cores, so buffers are summed by core ranges first.
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
            for x, y in list_cores(ranges):
                held = per_core.setdefault((device, x, y), [0, 0, 0])
                for column, size in enumerate(bytes_):
                    held[column] += size
        worst = max(per_core.items(), key=lambda item: (sum(item[1]), [-place for place in item[0]]))[1]
    return worst[0] + anywhere[0], worst[1] + anywhere[1], worst[2] + anywhere[2]


@dataclass(frozen=True, slots=True)
class CapturedProgram:
    operation: str
    """The outermost function that built it."""
    factory: str
    """The device operation and program factory that built it; empty where the capture does not say."""
    is_announced: bool
    """The library cleared all circular buffers before it built the program; otherwise only the buffers are known."""
    buffers: tuple[CapturedStaticBuffer, ...]
    lowest_tensor_address: int | None
    """Lowest L1 address of a live tensor; None when there is none or the capture has no addresses."""

    @property
    def bytes_per_core(self) -> int:
        """Bytes on the core that has most."""
        return sum(sum_worst_core(self.buffers))

    @property
    def end_address(self) -> int | None:
        """End of the highest buffer; None without addresses."""
        ends = [
            buffer.address + buffer.bytes_per_core for buffer in self.buffers if buffer.address and not buffer.borrowed
        ]
        return max(ends, default=None)

    @property
    def margin_bytes(self) -> int | None:
        """Bytes between the end of the buffers and the lowest tensor; below 0 the library refuses to launch."""
        if self.end_address is None or self.lowest_tensor_address is None:
            return None
        return self.lowest_tensor_address - self.end_address


def find_nodes(document: Any) -> list[Any] | None:
    """Return the nodes of a capture, a bare list or the ``graph`` of a report; None for any other JSON."""
    nodes = document.get("graph") if isinstance(document, dict) else document
    if not isinstance(nodes, list) or not nodes:
        return None
    return nodes if any(isinstance(node, dict) and "node_type" in node for node in nodes[:_NODES_LOOKED_AT]) else None


def read_programs(nodes: Iterable[Any]) -> tuple[CapturedProgram, ...]:
    """Return the programs in order. The library records ``circular_buffer_deallocate_all`` before it builds each of
    them."""
    found: list[CapturedProgram] = []
    functions: list[tuple[str, str]] = []
    """Open functions: name, and device program if it is one."""
    tensors: Counter[tuple[int, int]] = Counter()
    """Number of allocations of L1 buffers, by device and address."""
    building: list[CapturedStaticBuffer] | None = None
    begun = ("", "", False)

    def begin(*, announced: bool) -> list[CapturedStaticBuffer]:
        nonlocal begun
        begun = (functions[0][0] if functions else "", find_innermost(functions), announced)
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
            functions.append((read_text(params, "name"), name_device_program(params)))
        elif kind == "function_end":
            del functions[-1:]
            if not functions:
                close()
        elif kind == "circular_buffer_deallocate_all":
            close()
            building = begin(announced=True)
        elif kind in ("buffer_allocate", "buffer_deallocate") and read_memory(params) == "L1":
            place = (read_number(params, "device_id"), read_number(params, "address"))
            tensors[place] += 1 if kind == "buffer_allocate" else -1
        elif isinstance(kind, str) and (buffer := read_static_buffer(kind, params)) is not None:
            if building is None:
                building = begin(announced=False)
            building.append(buffer)
    close()
    return tuple(found)


def name_device_program(params: Params) -> str:
    """Return ``Operation/Factory`` of a function that is a device operation, empty for others.

    A device operation has a factory; older releases name only the operation.
    """
    factory = params.get("program_factory_type")
    name = read_text(params, "name")
    if factory is None and "program_cache_hit" not in params and not name.endswith("Operation"):
        return ""
    return f"{name}/{str(factory or '').rpartition('::')[2]}"


def find_innermost(functions: Sequence[tuple[str, str]]) -> str:
    """Return the device program of the innermost open function that is one: (name, device program)."""
    return next((program for _, program in reversed(functions) if program), "")


def compute_program_keys(nodes: Iterable[Node], *, hits: bool = False) -> list[str]:
    """Return a key for each device operation that had to make a program (with ``hits``: that found one).

    Keys are equal for equal factories and equally described arguments; the description omits program configs.
    """
    keys = []
    for node in nodes:
        params = node["params"] or {}
        if node["node_type"] != "function_start" or params.get("program_cache_hit") is None:
            continue
        if read_flag(params, "program_cache_hit") == hits:
            called = (params.get("name"), params.get("program_factory_type"), node.get("arguments"))
            keys.append(hashlib.blake2b(_POINTER.sub("", repr(called)).encode(), digest_size=16).hexdigest())
    return keys


class ProgramNeeds(NamedTuple):
    """The L1 needs of a program in bytes, on the core that needs most."""

    program: str
    circular_buffers: int
    dataflow_buffers: int
    scratchpads: int


def read_program_needs(nodes: Iterable[Node]) -> list[ProgramNeeds]:
    """Return the needs of the programs of a NO_DISPATCH capture, in order."""
    return [
        ProgramNeeds(program.factory, *sum_worst_core(program.buffers))
        for program in read_programs(nodes)
        if program.is_announced
    ]


def read_new_program_needs(nodes: Iterable[Node], name: str) -> dict[str, ProgramNeeds]:
    """Return the needs of the programs with this name in a NORMAL capture. It lists circular buffers of new programs
    only, so some must be listed; a program without any then has all of its buffers in tensors."""
    found = read_programs(nodes)
    if not any(program.buffers for program in found):
        return {}
    mine = [program for program in found if program.is_announced and program.factory.startswith(name)]
    return {program.factory: ProgramNeeds(program.factory, *sum_worst_core(program.buffers)) for program in mine}
