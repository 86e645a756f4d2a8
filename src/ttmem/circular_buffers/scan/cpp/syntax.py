# SPDX-License-Identifier: Apache-2.0
"""Parsed C++ files, and values that exist only while a function is followed."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ttmem.base.errors import MissingPartError
from ttmem.base.extras import install_command
from ttmem.circular_buffers.scan.cpp.expressions import Condition, Expression, Local, plain
from ttmem.circular_buffers.scan.cpp.functions import Function

Node = Any
"""A tree-sitter node; its package is optional, so that its types are not used here."""

_BLANKED = re.compile(
    rb"\b(?:tt_l1_ptr|tt_reg_ptr|FORCE_INLINE|ALWI|inline__|TT_KERNEL|TT_ALWAYS_INLINE|KERNEL_MAIN|__attribute__"
    rb"\s*\(\([^()]*(?:\([^()]*\))?[^()]*\)\)|"
    rb"ALWAYS_INLINE|NOINLINE|__restrict__|__restrict|TTNN_API|noinline|__always_inline)\b(?!\s*[:;=])"
)
_OLD_MAIN = re.compile(rb"\bvoid\s+MAIN(\s*)\{")
_CONDITIONAL = re.compile(rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b.*(?:\\\n.*)*$", re.MULTILINE)
_NEWLINES = re.compile(rb"[^\n]")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A parsed file."""

    path: str
    text: bytes
    root: Node
    broken: bool
    """Some of it could not be understood: rules that need the whole of a kernel stay silent."""

    def of(self, node: Node) -> str:
        """A node's own words, on one line."""
        return " ".join(self.text[node.start_byte : node.end_byte].decode("utf-8", "replace").split())


@cache
def parser() -> Any:
    """Also to fail early, with the command that installs what is missing (exit 3)."""
    try:
        import tree_sitter
        import tree_sitter_cpp
    except ImportError:
        raise MissingPartError(
            "reading C++ needs tree-sitter and its C++ grammar", hint=install_command("cpp")
        ) from None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language()))


def parse(path: str, text: bytes) -> SourceFile:
    """The tree of a file; where a preprocessor condition splits a statement, the tree of its first alternatives."""
    text = _OLD_MAIN.sub(lambda found: b"void MAIN()" + found[1].replace(b" ", b"", 2) + b"{", text)
    text = _BLANKED.sub(lambda found: b" " * len(found[0]), text)
    root = parser().parse(text).root_node
    if root.has_error and b"#" in text and (first := _first_alternatives(text)) != text:
        other = parser().parse(first).root_node
        if _error_bytes(other) < _error_bytes(root):
            return SourceFile(path, first, other, broken=True)
    return SourceFile(path, text, root, broken=bool(root.has_error))


def _first_alternatives(text: bytes) -> bytes:
    """Keep each `#if` branch; blank each `#else` branch and the directives."""
    pieces: list[bytes] = []
    at = 0
    taken: list[bool] = []
    for found in _CONDITIONAL.finditer(text):
        piece = text[at : found.start()]
        pieces.append(piece if all(taken) else _NEWLINES.sub(b" ", piece))
        pieces.append(_NEWLINES.sub(b" ", found[0]))
        at = found.end()
        word = found[1]
        if word in (b"if", b"ifdef", b"ifndef"):
            taken.append(True)
        elif taken and word == b"endif":
            taken.pop()
        elif taken:
            taken[-1] = False
    pieces.append(text[at:])
    return b"".join(pieces)


def _error_bytes(root: Node) -> int:
    total = 0
    pending = [root]
    while pending:
        node = pending.pop()
        if node.type == "ERROR":
            total += node.end_byte - node.start_byte
        elif node.has_error:
            pending.extend(node.children)
    return total


def walk(node: Node) -> Iterator[Node]:
    """Yield the named nodes below, in source order."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.named_children))


def list_items(node: Node, field: str, *, comments: bool = False) -> list[Node]:
    """Return the items of a part of a node: arguments, parameters, cases."""
    part = node.child_by_field_name(field)
    return [child for child in part.named_children if comments or child.type != "comment"] if part is not None else []


def line_of(node: Node) -> int:
    """1-based."""
    return int(node.start_point[0]) + 1


class Lambda(Local, frozen=True):
    """A lambda and the variables it sees."""

    function: Function
    seen: dict[str, Expression]

    def __str__(self) -> str:
        return "lambda"


@dataclass(slots=True, eq=False)
class ObjectDraft:
    """An object that later statements still change: a buffer declaration, a kernel, a buffer object of a kernel."""

    kind: str
    file: str
    line: int
    column: int = 0
    fields: dict[str, Expression] = field(default_factory=dict)
    guards: tuple[Condition, ...] = ()
    trail: tuple[tuple[str, int], ...] = ()
    """Calls through which it was reached: (function, line of the call)."""
    repeats: Expression | None = None
    order: int = 0
    field_guards: dict[str, tuple[Condition, ...]] = field(default_factory=dict)


class DraftValue(Local, frozen=True):
    """A reference to a draft, as variables hold it."""

    draft: ObjectDraft

    def __str__(self) -> str:
        return f"{self.draft.kind} of line {self.draft.line}"


class FollowerListener:
    """Receives the events of a function that is followed: host declarations, or a kernel's buffer operations.

    An answer of None leaves the value to whoever follows the function.
    """

    doubts_calls = True
    """Whether a function that was not read may have changed the variables it was given."""

    def call(
        self, name: str, receiver: Expression | None, arguments: Sequence[Expression], node: Node
    ) -> Expression | None:
        """A function, or a method of the receiver."""

    def construct(self, type_name: str, value: Expression | None, node: Node) -> Expression | None:
        """An object of some type."""

    def assign_field(self, receiver: Expression, field: str, value: Expression, node: Node) -> Expression | None:
        """`receiver.field = value`."""

    def enter_loop(self, trips: Expression, node: Node) -> None:
        """The next events repeat this number of times, until `exit_loop`."""

    def exit_loop(self) -> None:
        """The loop is over."""

    def enter_branch(self, condition: Expression) -> None:
        """The next events are conditional: the true side until `leave_side`, then the false side until `leave_side`."""

    def leave_side(self, holds: bool) -> None:
        """End a side of the branch: first the true one, then the other."""


def draft_in(expression: Expression | None) -> ObjectDraft | None:
    """The draft that a value refers to."""
    value = plain(expression) if expression is not None else None
    return value.draft if isinstance(value, DraftValue) else None
