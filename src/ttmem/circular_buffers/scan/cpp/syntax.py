# SPDX-License-Identifier: Apache-2.0
"""Parsed C++ files: trees, their text, and lists of nodes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from ttmem.base.errors import MissingPartError
from ttmem.base.extras import install_command

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
