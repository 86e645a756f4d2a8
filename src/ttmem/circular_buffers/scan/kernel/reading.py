# SPDX-License-Identifier: Apache-2.0
"""Kernels: what they do to which buffer, in order, and how large and complex they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ttmem.circular_buffers.scan.cpp.expressions import (
    Expression,
    Integer,
    Items,
    Named,
    Portable,
    Symbol,
    evaluate,
    plain,
    render,
)
from ttmem.circular_buffers.scan.cpp.functions import FileIndex, Function
from ttmem.circular_buffers.scan.cpp.interpreter import LOOPS, Interpreter
from ttmem.circular_buffers.scan.cpp.syntax import Node, line_of, walk
from ttmem.circular_buffers.scan.cpp.values import Draft, DraftValue, Listener, draft_in
from ttmem.circular_buffers.scan.kernel.trace import (
    BARRIER,
    OPERATIONS,
    PASSED,
    READ,
    WRITE,
    Branch,
    Loop,
    Operation,
    Step,
    Trace,
    buffers_of,
)
from ttmem.circular_buffers.scan.model import Kernel, KernelFigures

BUFFER_TYPES = frozenset({"CircularBuffer", "DataflowBuffer", "LocalCircularBuffer", "DFB"})
_ENTRY = re.compile(rb"\bvoid\s+kernel_main\s*\(|\bvoid\s+MAIN\b|\bTT_KERNEL\b")
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
_BRANCHES = frozenset({"if_statement", "switch_statement", "conditional_expression"})
_POINTED = "pointer"


def looks_like_a_kernel(text: bytes) -> bool:
    """Whether a file has an entry point of a kernel."""
    return bool(_ENTRY.search(text))


class KernelListener(Listener):
    """Builds the trace while the kernel's entry function is followed."""

    doubts_calls = False
    """Kernel functions take numbers and addresses by value."""

    def __init__(self, index: FileIndex) -> None:
        self.interpreter = Interpreter(index, self)
        self._stack: list[list[Step]] = [[]]
        self._open: list[tuple[Expression, str, Trace]] = []
        """Loops and branches around: trips or condition, its text, and the side that is done."""
        self._portable = Portable()

    def follow(self, function: Function) -> Trace:
        self.interpreter.run([function.body], function)
        return tuple(self._stack[0])

    # --- what is heard -----------------------------------------------------------------------------------------------

    def construct(self, type_name: str, value: Expression | None, node: Node) -> Expression | None:
        if type_name not in BUFFER_TYPES or not isinstance(value, Items) or not value.items:
            return None
        return self._object("buffer", node, identity=value.items[0])

    def call(
        self, name: str, receiver: Expression | None, arguments: Sequence[Expression], node: Node
    ) -> Expression | None:
        if receiver is None and name in _FREE and len(arguments) >= 1:
            self._operate(_FREE[name], arguments[0], arguments[1:], node)
            return Integer(0)
        if receiver is None and name in BUFFER_TYPES and arguments:
            return self.construct(name, Items(tuple(arguments)), node)
        buffer = draft_in(receiver)
        if buffer is not None and buffer.kind == "buffer":
            return self._method(name, buffer, arguments, node)
        if _BARRIER.search(name):
            self._add(Operation(BARRIER, "", None, None, line_of(node)))
        elif _READ_CALL.match(name):
            self._transfer(READ, arguments, node)
        elif _WRITE_CALL.match(name):
            self._transfer(WRITE, arguments, node)
        elif receiver is None and name in _POINTERS and arguments:
            return self._object(_POINTED, node, identity=arguments[0], what=Symbol(name, "name"))
        elif not _PRIMITIVE.search(name):
            self._pass_on([*arguments, *self.interpreter.template_arguments], node)
        return None

    def enter_loop(self, trips: Expression, node: Node) -> None:
        self._open.append((self._portable(trips), "", ()))
        self._stack.append([])

    def exit_loop(self) -> None:
        trips, _, _ = self._open.pop()
        body = tuple(self._stack.pop())
        if body:
            self._add(Loop(trips, body))

    def enter_branch(self, condition: Expression, text: str) -> None:
        self._open.append((self._portable(condition), text, ()))
        self._stack.append([])

    def leave_side(self, holds: bool) -> None:
        condition, text, yes = self._open.pop()
        body = tuple(self._stack.pop())
        if holds:
            self._open.append((condition, text, body))
            self._stack.append([])
        elif yes or body:
            self._add(Branch(condition, text, yes, body))

    # --- steps --------------------------------------------------------------------------------------------------

    def _object(self, kind: str, node: Node, **fields: Expression) -> Expression:
        return DraftValue(Draft(kind, self.interpreter.source.path, line_of(node), fields=fields))

    def _add(self, step: Step) -> None:
        self._stack[-1].append(step)

    def _method(self, name: str, buffer: Draft, arguments: Sequence[Expression], node: Node) -> Expression | None:
        identity = buffer.fields["identity"]
        if name in OPERATIONS:
            self._operate(name, identity, arguments, node)
            return Integer(0)
        if name.endswith("_ptr"):
            return self._object(_POINTED, node, identity=identity, what=Symbol(name, "name"))
        if _BARRIER.search(name):
            self._add(Operation(BARRIER, "", None, None, line_of(node)))
        return None

    def _operate(self, kind: str, identity: Expression, counts: Sequence[Expression], node: Node) -> None:
        buffer = draft_in(identity)
        if buffer is not None:
            identity = buffer.fields.get("identity", identity)
        known = self._portable(identity)
        count = self._portable(counts[0]) if counts else Integer(1)
        self._add(Operation(kind, identity_text(identity), known, count, line_of(node)))

    def _transfer(self, kind: str, arguments: Sequence[Expression], node: Node) -> None:
        """Which buffer a transfer fills or empties, where an argument is one or points into one."""
        for argument in arguments:
            draft = _touched(argument)
            if draft is None:
                continue
            what = plain(draft.fields.get("what", Symbol("", "name")))
            reading = isinstance(what, Symbol) and what.text == "get_read_ptr"
            if kind == READ and reading:
                continue
            identity = draft.fields["identity"]
            self._add(Operation(kind, identity_text(identity), None, None, line_of(node)))

    def _pass_on(self, arguments: Sequence[Expression], node: Node) -> None:
        """A function that was not followed may hold the other half of a pair."""
        for argument in arguments:
            draft = draft_in(argument)
            if draft is not None and draft.kind == "buffer":
                self._add(Operation(PASSED, identity_text(draft.fields["identity"]), None, None, line_of(node)))
            elif _may_be_an_index(argument):
                self._add(Operation(PASSED, identity_text(argument), None, None, line_of(node)))


def _touched(argument: Expression) -> Draft | None:
    """The buffer that an address expression points into (`write_ptr + offset`)."""
    pending = [argument]
    for _ in range(32):
        if not pending:
            return None
        node = pending.pop()
        draft = draft_in(node)
        if draft is not None and draft.kind in ("buffer", _POINTED):
            return draft
        inner = plain(node)
        pending.extend(getattr(inner, side) for side in ("left", "right") if hasattr(inner, side))
    return None


def _may_be_an_index(argument: Expression) -> bool:
    """Only variables: a literal 0 among a call's arguments is rarely a buffer."""
    if not isinstance(argument, Named):
        inner = argument
        return isinstance(inner, Symbol) and inner.text.startswith("dfb::")
    lowered = argument.name.lower()
    return "cb" in lowered or "dfb" in lowered or "buf" in lowered


def identity_text(identity: Expression) -> str:
    """One text per buffer: a number, a binding, or the expression it comes from."""
    value = plain(identity)
    number = evaluate(value)
    if number is not None:
        return str(number)
    if isinstance(value, Symbol):
        return value.text
    return render(value, expand=True)


def kernel_of(index: FileIndex, text: bytes) -> Kernel | None:
    """The kernel in a file: followed from its entry function."""
    names = [(one or other).decode() for one, other in _ENTRY_NAME.findall(text)]
    entry = next((index.functions[name][-1] for name in names if name in index.functions), None)
    name = names[0] if names else ""
    trace: Trace = KernelListener(index).follow(entry) if entry is not None else ()
    return Kernel(_figures(index, name, text, trace, broken=index.source.broken or entry is None), trace)


def _figures(index: FileIndex, entry: str, text: bytes, trace: Trace, *, broken: bool) -> KernelFigures:
    counts: Counter[str] = Counter()
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
            counts[_kind_of_call(index.source.of(node.child_by_field_name("function")))] += 1
    return KernelFigures(
        file=index.source.path,
        entry=entry,
        source_bytes=len(text),
        lines=text.count(b"\n") + (not text.endswith(b"\n") and bool(text)),
        code_lines=_code_lines(text, commented),
        buffer_operations=counts["buffer operations"],
        loops=counts["loops"],
        deepest_loop=deepest,
        branches=counts["branches"],
        noc_calls=counts["NoC calls"],
        barriers=counts["barriers"],
        buffers=len(buffers_of(trace)),
        broken=broken,
    )


def _kind_of_call(called: str) -> str:
    last = re.split(r"\.|->|::", called.split("<")[0])[-1]
    if last in OPERATIONS or last in _FREE:
        return "buffer operations"
    if "barrier" in last or "flush" in last:
        return "barriers"
    return "NoC calls" if last.startswith(("noc_async", "async_read", "async_write", "noc_semaphore")) else "others"


def _code_lines(text: bytes, commented: set[int]) -> int:
    count = 0
    for number, line in enumerate(text.split(b"\n"), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith((b"//", b"/*")):
            continue
        if number in commented and b"//" not in stripped and b"/*" not in stripped and b"*/" not in stripped:
            continue
        count += 1
    return count


def _enclosing_loops(node: Node) -> int:
    depth = 0
    while (node := node.parent) is not None:
        depth += node.type in LOOPS
    return depth
