# SPDX-License-Identifier: Apache-2.0
"""Operations of a capture with their events, built from the nodes of its graph.

Functions nest; the outermost one is the operation. Functions of the tensor layer (moving, viewing, freeing) are not
operations: their events belong to the operation that calls them, or between operations. A function that throws may
never end, and then everything recorded later looks as if it were nested in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ttmem.engines.worker.graph_nodes import (
    LARGEST_NUMBER,
    CapturedStaticBuffer,
    parse_memory,
    read_memory,
    read_static_buffer,
)
from ttmem.profile.tensor_type import HOST, TensorType
from ttmem.readers.capture.device import InterleavedSample
from ttmem.readers.capture.nodes import (
    BufferRow,
    Node,
    PythonCall,
    find_innermost_frame,
    normalize_operation,
    parse_tensor_spec,
)


@dataclass(frozen=True, slots=True)
class CapturedBuffer:
    """A buffer as a node or a snapshot describes it."""

    key: Hashable
    """What tells it from every other buffer alive at the same time."""
    memory: str
    address: int
    stored_bytes_per_bank: int
    """Before rounding to the allocator's quantum; -1 when it must be worked out from the tensor."""
    total_bytes: int
    tensor: TensorType | None = None
    tensor_name: str = ""


@dataclass(frozen=True, slots=True)
class Allocated:
    """A buffer came to be."""

    buffer: CapturedBuffer


@dataclass(frozen=True, slots=True)
class Freed:
    """A buffer went; it is described too, because it may be older than the capture."""

    buffer: CapturedBuffer


@dataclass(frozen=True, slots=True)
class Used:
    """A buffer was read as an argument; it is described too, because it may be older than the capture."""

    buffer: CapturedBuffer


@dataclass(frozen=True, slots=True)
class ProgramStarted:
    """A program is set up: L1 no longer holds the buffers of earlier ones."""


Event = Allocated | Freed | Used | ProgramStarted | CapturedStaticBuffer
"""A static buffer belongs to the program that is being set up."""


@dataclass(slots=True)
class CapturedOperation:
    """A top-level operation, or (without a name) the events between two of them."""

    name: str
    number: int = 0
    """Its place in the source: a node's number or the database's operation id."""
    location: str = ""
    events: list[Event] = field(default_factory=list)
    snapshot: list[CapturedBuffer] | None = None
    """Everything alive after it, when the source says so."""
    failure: str = ""
    programs_known: bool = True
    """False: it ran programs whose L1 the capture does not (fully) show."""

    @property
    def is_outside(self) -> bool:
        """True for a pause between operations."""
        return not self.name


_TENSOR_LAYER = ("Tensor::", "tt::tt_metal::", "ttnn::convert_python_tensor_to_tt_tensor")
_LEAF = "tt::tt_metal::create_device_tensor"
"""Calls nothing else: whatever is recorded inside it after it failed is something new."""
BUFFER_NODES = ("buffer_allocate", "buffer_deallocate")
_DID_NOT_COMPLETE = "did not complete: it raised an error that the capture does not hold"


def collect_interleaved_samples(nodes: Iterable[Node]) -> list[InterleavedSample]:
    """Interleaved buffers with their share per bank, each distinct one once: a long capture repeats them."""
    return list(
        dict.fromkeys(
            InterleavedSample(
                parse_memory(node.stated.get("buffer_type")),
                node.number("size"),
                node.number("page_size"),
                node.number("max_size_per_bank"),
            )
            for node in nodes
            if node.node_type in BUFFER_NODES and node.text("layout").upper().endswith("INTERLEAVED")
        )
    )


@dataclass(frozen=True, slots=True)
class FunctionCalls:
    """The functions that ended or failed, and the caller of each, according to the recorder's stack."""

    parent: Mapping[int, int]
    failed: frozenset[int]
    """Starts whose end is missing or marked as aborted."""
    orphans: frozenset[int]
    """Starts whose end is missing."""

    @classmethod
    def collect(cls, nodes: Sequence[Node]) -> FunctionCalls:
        parent: dict[int, int] = {}
        failed: set[int] = set()
        stack: list[int] = []
        for number, node in enumerate(nodes):
            if node.node_type == "function_start":
                parent[number] = stack[-1] if stack else -1
                stack.append(number)
            elif node.node_type == "function_end" and stack:
                start = stack.pop()
                if node.flag("aborted"):
                    failed.add(start)
        return cls(parent, frozenset({*failed, *stack}), frozenset(stack))


@dataclass(slots=True)
class GraphWalk:
    """A pass over the nodes of one device."""

    nodes: Sequence[Node]
    device: int
    dispatched: bool
    """Whether programs really ran: then addresses are real, and programs show only part of their L1."""
    circular_buffers_are_complete: bool = False
    """The release has no dataflow buffers, so a program that is built for the first time shows all it needs."""
    snapshots: Mapping[str, Sequence[BufferRow]] = field(default_factory=dict)
    python_calls: Iterable[PythonCall] = ()
    operations: list[CapturedOperation] = field(default_factory=list)
    _open: list[int] = field(default_factory=list)
    """Functions that have started and not yet ended."""
    _current: CapturedOperation | None = None
    _root: int = -1
    """The function that is the current operation."""
    _aborted: bool = False
    _program_is_silent: bool = False
    """A program was started that has not (fully) shown what it needs in L1."""
    _owner: dict[int, int] = field(default_factory=dict)
    """Tensor node -> buffer node."""
    _tensor_of: dict[int, int] = field(default_factory=dict)
    """Buffer node -> the first tensor node that describes it."""

    def run(self) -> list[CapturedOperation]:
        """The operations in order, with what happened between them."""
        calls = FunctionCalls.collect(self.nodes)
        queues: dict[str, deque[PythonCall]] = {}
        for call in self.python_calls:
            queues.setdefault(call.name, deque()).append(call)
        for number, node in enumerate(self.nodes):
            if node.node_type == "buffer":
                for tensor in node.connections:
                    self._owner[tensor] = number
                    self._tensor_of.setdefault(number, tensor)
        for number, node in enumerate(self.nodes):
            if node.node_type == "function_start":
                queue = queues.get(node.text("name"))
                self._start(number, node, calls, queue.popleft() if queue else None)
            elif node.node_type == "function_end":
                self._finish(node)
            else:
                self._other(node)
        self._close_operation(failed=True)
        return self.operations

    # --- functions ------------------------------------------------------------------------------------------------

    def _start(self, number: int, node: Node, calls: FunctionCalls, call: PythonCall | None) -> None:
        name = node.text("name")
        if self._is_something_new(number, calls):
            self._close_operation(failed=True)
            self._open.clear()
        self._open.append(number)
        if self._current is None and not name.startswith(_TENSOR_LAYER):
            self._current = CapturedOperation(normalize_operation(name) or "unknown", number)
            self._root = number
            self.operations.append(self._current)
        if self._current is not None and call is not None:
            self._current.location = self._current.location or find_innermost_frame(call.stack_trace)
            self._current.failure = self._current.failure or call.error_text
        for tensor in node.input_tensors:
            self._use(tensor)

    def _is_something_new(self, number: int, calls: FunctionCalls) -> bool:
        """True when all open functions have failed already, so that this one cannot be called by them."""
        if not self._open or not calls.orphans.issuperset(self._open):
            return False
        innermost = self._open[-1]
        if self._aborted or self.nodes[innermost].text("name") == _LEAF:
            return True
        # The failure is still to come if a failing function is called from here, now or later.
        return not any(start >= number and calls.parent[start] == innermost for start in calls.failed)

    def _finish(self, node: Node) -> None:
        start = self._open.pop() if self._open else -1
        aborted = node.flag("aborted")
        self._aborted = self._aborted or aborted
        if self._current is not None and start == self._root:
            self._close_operation(failed=aborted)
        elif self._current is None and aborted:
            self._open_pause().failure = f"RuntimeError: {normalize_operation(node.text('name'))} {_DID_NOT_COMPLETE}"

    def _close_operation(self, *, failed: bool) -> None:
        self._aborted = False
        self._program_ended()
        if self._current is None:
            return
        if failed and not self._current.failure:
            self._current.failure = f"RuntimeError: {self._current.name} {_DID_NOT_COMPLETE}"
        rows = self.snapshots.get(str(self._root))
        if rows is not None:
            self._current.snapshot = [row for row in map(self._snapshot_row, rows) if row]
        self._current = None

    def _open_pause(self) -> CapturedOperation:
        if not self.operations or not self.operations[-1].is_outside:
            self.operations.append(CapturedOperation(""))
        return self.operations[-1]

    # --- everything else ------------------------------------------------------------------------------------------

    def _other(self, node: Node) -> None:
        kind = node.node_type
        if kind == "buffer_allocate" or kind == "buffer_deallocate":
            buffer = self._buffer(node)
            if buffer is not None:
                self._add(Allocated(buffer) if kind == "buffer_allocate" else Freed(buffer))
        elif (static := read_static_buffer(kind, node.stated)) is not None:
            if self.circular_buffers_are_complete:
                self._program_is_silent = False
            self._add(static)
        elif kind == "circular_buffer_deallocate_all":
            self._program_ended()
            self._add(ProgramStarted())
            self._program_is_silent = self.dispatched
        elif kind == "error":
            self._error(node)

    def _add(self, event: Event) -> None:
        (self._current or self._open_pause()).events.append(event)

    def _program_ended(self) -> None:
        """A program that listed nothing was in the cache, or needs nothing: the capture does not tell which."""
        if self._program_is_silent and self._current is not None:
            self._current.programs_known = False
        self._program_is_silent = False

    def _error(self, node: Node) -> None:
        kind, message = node.text("error_type"), node.text("error_message")
        text = f"{kind}: {message}" if kind else message
        operation = self._current or (self.operations[-1] if self.operations else self._open_pause())
        operation.failure = text or operation.failure

    def _use(self, tensor: int) -> None:
        node = self._tensor(tensor)
        if node is None or self._current is None:
            return
        type_ = self._type(node)
        memory = parse_memory(node.stated.get("buffer_type")) or (type_.memory if type_ else "")
        buffer = self._describe_buffer(memory, node, self._owner.get(tensor, -1), tensor, stored_bytes_per_bank=-1)
        if buffer is not None and (buffer.address or not self.dispatched):
            # A tensor's own size leaves out the exponents of block floats.
            self._current.events.append(Used(replace(buffer, total_bytes=type_.padded_bytes) if type_ else buffer))

    def _buffer(self, node: Node) -> CapturedBuffer | None:
        number = node.connections[0] if node.connections else -1
        tensor, stored = self._tensor_of.get(number, -1), node.number("max_size_per_bank")
        return self._describe_buffer(read_memory(node.stated), node, number, tensor, stored_bytes_per_bank=stored)

    def _describe_buffer(
        self, memory: str, node: Node, buffer_node: int, tensor: int, *, stored_bytes_per_bank: int
    ) -> CapturedBuffer | None:
        if memory in ("", HOST) or node.number("device_id") != self.device:
            return None
        address = node.number("address")
        described = self._tensor(tensor)
        return CapturedBuffer(
            key=(memory, address) if self.dispatched else buffer_node,
            memory=memory,
            address=address,
            stored_bytes_per_bank=stored_bytes_per_bank,
            total_bytes=node.number("size"),
            tensor=self._type(described) if described else None,
            tensor_name=f"tensor {described.text('tensor_id')}" if described else "",
        )

    def _snapshot_row(self, row: BufferRow) -> CapturedBuffer | None:
        memory = parse_memory(row.buffer_type)
        damaged = not (0 <= row.max_size_per_bank < LARGEST_NUMBER and 0 <= row.address < LARGEST_NUMBER)
        if damaged or memory in ("", HOST) or row.device_id != self.device:
            return None
        return CapturedBuffer((memory, row.address), memory, row.address, row.max_size_per_bank, 0)

    def _tensor(self, number: int) -> Node | None:
        node = self.nodes[number] if 0 <= number < len(self.nodes) else None
        return node if node is not None and node.node_type == "tensor" else None

    def _type(self, node: Node) -> TensorType | None:
        buffer_type = node.stated.get("buffer_type")
        texts = (node.text(key) for key in ("shape", "dtype", "layout", "memory_config"))
        return parse_tensor_spec(*texts, buffer_type if isinstance(buffer_type, int | str) else None)
