# SPDX-License-Identifier: Apache-2.0
"""Read a kernel: its operations on buffers, from its source."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ttmem.circular_buffers.scan.cpp import expressions as cpp
from ttmem.circular_buffers.scan.cpp.functions import (
    DraftValue,
    FileIndex,
    FollowerListener,
    Function,
    ObjectDraft,
    draft_in,
)
from ttmem.circular_buffers.scan.cpp.interpreter import LOOPS, FunctionFollower
from ttmem.circular_buffers.scan.cpp.syntax import Node, line_of, walk
from ttmem.circular_buffers.scan.model import (
    BARRIER,
    OPERATIONS,
    PASSED,
    READ,
    WRITE,
    Branch,
    Kernel,
    KernelFigures,
    KernelOperation,
    Loop,
    Trace,
    TraceItem,
    buffers_of,
)

BUFFER_TYPES = frozenset({"CircularBuffer", "DataflowBuffer", "LocalCircularBuffer", "DFB"})
ENTRY = re.compile(rb"\bvoid\s+kernel_main\s*\(|\bvoid\s+MAIN\b|\bTT_KERNEL\b")
_ENTRY_NAME = re.compile(rb"\bTT_KERNEL\s+void\s+(\w+)|\bvoid\s+(kernel_main|MAIN)\b")
_FREE = {f"cb_{operation}": operation for operation in OPERATIONS}
_BARRIER = re.compile(r"barrier|flush|wait_min|noc_semaphore_wait")
_READ_CALL = re.compile(r"^(?:noc_)?async_read(?!\w*barrier)")
_WRITE_CALL = re.compile(r"^(?:noc_)?async_write(?!\w*(?:barrier|flush))")
_POINTERS = frozenset({"get_write_ptr", "get_read_ptr"})
_PRIMITIVE = re.compile(
    r"init|tiles?(?:_|$)|_block$|reconfig|hw_startup|^pack|^get_|^set_|^noc_|^unpack|^llk|^copy|print|^matmul|^tilize_|"
    r"^untilize_|^transpose_wh|^sub_|^mul_|^add_|^reduce_|size$|_format|^tensix|^experimental"
)
"""Functions of the compute API name their buffers but never push or pop them."""
_POINTED = "pointer"
_BRANCHES = frozenset({"if_statement", "switch_statement", "conditional_expression"})


class KernelListener(FollowerListener):
    """Builds the trace while the kernel's entry function is followed."""

    doubts_calls = False
    """Kernel functions take numbers and addresses by value."""

    def __init__(self, index: FileIndex) -> None:
        self.interpreter = FunctionFollower(index, self)
        self._stack: list[list[TraceItem]] = [[]]
        self._open: list[tuple[cpp.Expression, Trace]] = []
        """Loops and branches around: trips or condition, and the side that is done."""
        self._portable = cpp.Portable()

    def follow(self, function: Function) -> Trace:
        self.interpreter.run([function.body], function)
        return tuple(self._stack[0])

    def construct(self, type_name: str, value: cpp.Expression | None, node: Node) -> cpp.Expression | None:
        if type_name not in BUFFER_TYPES or not isinstance(value, cpp.Items) or not value.items:
            return None
        return self._object("buffer", node, value.items[0])

    def call(
        self, name: str, receiver: cpp.Expression | None, arguments: Sequence[cpp.Expression], node: Node
    ) -> cpp.Expression | None:
        if receiver is None and name in _FREE and len(arguments) >= 1:
            self._operate(_FREE[name], arguments[0], arguments[1:], node)
            return cpp.Integer(0)
        if receiver is None and name in BUFFER_TYPES and arguments:
            return self.construct(name, cpp.Items(tuple(arguments)), node)
        buffer = draft_in(receiver)
        if buffer is not None and buffer.kind == "buffer":
            return self._method(name, buffer, arguments, node)
        if _BARRIER.search(name):
            self._note(BARRIER, node)
        elif _READ_CALL.match(name):
            self._transfer(READ, arguments, node)
        elif _WRITE_CALL.match(name):
            self._transfer(WRITE, arguments, node)
        elif receiver is None and name in _POINTERS and arguments:
            return self._object(_POINTED, node, arguments[0], name)
        elif not _PRIMITIVE.search(name):
            self._pass_on([*arguments, *self.interpreter.template_arguments], node)
        return None

    def enter_loop(self, trips: cpp.Expression, node: Node) -> None:
        self._open.append((self._portable(trips), ()))
        self._stack.append([])

    def exit_loop(self) -> None:
        trips, _ = self._open.pop()
        body = tuple(self._stack.pop())
        if body:
            self._add(Loop(trips, body))

    def enter_branch(self, condition: cpp.Expression) -> None:
        self._open.append((self._portable(condition), ()))
        self._stack.append([])

    def leave_side(self, holds: bool) -> None:
        condition, yes = self._open.pop()
        body = tuple(self._stack.pop())
        if holds:
            self._open.append((condition, body))
            self._stack.append([])
        elif yes or body:
            self._add(Branch(condition, yes, body))

    def _object(self, kind: str, node: Node, identity: cpp.Expression, via: str = "") -> cpp.Expression:
        """A buffer object, or a pointer into one and the call that said where."""
        fields = {"identity": identity, via: identity}
        return DraftValue(ObjectDraft(kind, self.interpreter.source.path, line_of(node), fields=fields))

    def _add(self, step: TraceItem) -> None:
        self._stack[-1].append(step)

    def _note(self, kind: str, node: Node, identity: cpp.Expression | None = None) -> None:
        """A step that moves no pages."""
        self._add(
            KernelOperation(kind, identity_text(identity) if identity is not None else "", None, None, line_of(node))
        )

    def _method(
        self, name: str, buffer: ObjectDraft, arguments: Sequence[cpp.Expression], node: Node
    ) -> cpp.Expression | None:
        identity = buffer.fields["identity"]
        if name in OPERATIONS:
            self._operate(name, identity, arguments, node)
            return cpp.Integer(0)
        if name.endswith("_ptr"):
            return self._object(_POINTED, node, identity, name)
        if _BARRIER.search(name):
            self._note(BARRIER, node)
        return None

    def _operate(self, kind: str, identity: cpp.Expression, counts: Sequence[cpp.Expression], node: Node) -> None:
        buffer = draft_in(identity)
        if buffer is not None:
            identity = buffer.fields.get("identity", identity)
        known = self._portable(identity)
        count = self._portable(counts[0]) if counts else cpp.Integer(1)
        self._add(KernelOperation(kind, identity_text(identity), known, count, line_of(node)))

    def _transfer(self, kind: str, arguments: Sequence[cpp.Expression], node: Node) -> None:
        """Return the buffer that a transfer fills or empties, where an argument is one or points into one."""
        for argument in arguments:
            draft = _touched(argument)
            if draft is not None and not (kind == READ and "get_read_ptr" in draft.fields):
                self._note(kind, node, draft.fields["identity"])

    def _pass_on(self, arguments: Sequence[cpp.Expression], node: Node) -> None:
        """A function that was not followed may hold the other half of a pair."""
        for argument in arguments:
            draft = draft_in(argument)
            if draft is not None and draft.kind == "buffer":
                self._note(PASSED, node, draft.fields["identity"])
            elif _may_be_an_index(argument):
                self._note(PASSED, node, argument)


def _touched(argument: cpp.Expression) -> ObjectDraft | None:
    """The buffer that an address expression points into (`write_ptr + offset`)."""
    pending = [argument]
    for _ in range(32):
        if not pending:
            return None
        inner = cpp.plain(pending.pop())
        if isinstance(inner, DraftValue):
            return inner.draft
        if isinstance(inner, cpp.Binary):
            pending += (inner.left, inner.right)
    return None


def _may_be_an_index(argument: cpp.Expression) -> bool:
    """Only variables: a literal 0 among a call's arguments is rarely a buffer."""
    if isinstance(argument, cpp.NamedValue):
        return any(word in argument.name.lower() for word in ("cb", "dfb", "buf"))
    return isinstance(argument, cpp.Symbol) and argument.text.startswith("dfb::")


def identity_text(identity: cpp.Expression) -> str:
    """Return the identity of a buffer: a number, a binding, or its expression."""
    number = cpp.evaluate(cpp.plain(identity))
    return str(number) if number is not None else cpp.render(cpp.plain(identity), expand=True)


def kernel_of(index: FileIndex, text: bytes) -> Kernel | None:
    """The kernel in a file: followed from its entry function."""
    names = [(one or other).decode() for one, other in _ENTRY_NAME.findall(text)]
    entry = next((index.functions[name][-1] for name in names if name in index.functions), None)
    name = names[0] if names else ""
    trace: Trace = KernelListener(index).follow(entry) if entry is not None else ()
    return Kernel(_figures(index, name, text, trace, broken=index.source.broken or entry is None), trace)


def _figures(index: FileIndex, entry: str, text: bytes, trace: Trace, *, broken: bool) -> KernelFigures:
    counts = dict.fromkeys(("buffer_operations", "loops", "branches", "noc_calls", "barriers", ""), 0)
    deepest = 0
    commented: set[int] = set()
    for node in walk(index.source.root):
        kind = node.type
        if kind in LOOPS:
            counts["loops"] += 1
            deepest = max(deepest, 1 + _enclosing_loops(node))
        elif kind in _BRANCHES:
            counts["branches"] += 1
        elif kind == "comment":
            commented.update(range(line_of(node), int(node.end_point[0]) + 2))
        elif kind == "call_expression":
            called = _kind_of_call(index.source.of(node.child_by_field_name("function")))
            counts[called] += 1
    return KernelFigures(
        file=index.source.path,
        entry=entry,
        source_bytes=len(text),
        lines=text.count(b"\n") + (not text.endswith(b"\n") and bool(text)),
        code_lines=_code_lines(text, commented),
        buffers=len(buffers_of(trace)),
        deepest_loop=deepest,
        partly_understood=broken,
        **{name: count for name, count in counts.items() if name},
    )


def _kind_of_call(called: str) -> str:
    last = re.split(r"\.|->|::", called.split("<")[0])[-1]
    if last in OPERATIONS or last in _FREE:
        return "buffer_operations"
    if "barrier" in last or "flush" in last:
        return "barriers"
    return "noc_calls" if last.startswith(("noc_async", "async_read", "async_write", "noc_semaphore")) else ""


def _code_lines(text: bytes, commented: set[int]) -> int:
    """Lines that hold more than a comment."""
    lines = [(number, line.strip()) for number, line in enumerate(text.split(b"\n"), start=1)]
    return sum(
        1
        for number, line in lines
        if line
        and not line.startswith((b"//", b"/*"))
        and (number not in commented or any(mark in line for mark in (b"//", b"/*", b"*/")))
    )


def _enclosing_loops(node: Node) -> int:
    depth = 0
    while (node := node.parent) is not None:
        depth += node.type in LOOPS
    return depth
