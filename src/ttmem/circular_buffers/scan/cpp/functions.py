# SPDX-License-Identifier: Apache-2.0
"""Definitions of a file: functions, constants and enumerators, found once and looked up by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from ttmem.circular_buffers.scan.cpp.arithmetic import LIBRARY
from ttmem.circular_buffers.scan.cpp.expressions import Condition, Expression, Local, plain
from ttmem.circular_buffers.scan.cpp.syntax import Node, SourceFile, list_items

_MACRO = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+([^\n\\]{1,200})$", re.MULTILINE)
_TRANSPARENT, _STATEMENTS = frozenset(LIBRARY["scopes"]), frozenset(LIBRARY["statements"])


@dataclass(frozen=True, slots=True, eq=False)
class CppParameter:
    """A parameter of a function, lambda or template."""

    name: str
    default: Node | None
    by_reference: bool = False
    """Non-const: what the function assigns to it is the caller's."""


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function or lambda whose body can be followed."""

    name: str
    parameters: tuple[CppParameter, ...]
    body: Node
    source: SourceFile
    template_parameters: tuple[str, ...] = ()
    title: str = ""
    """With its class and, for test macros, their arguments."""
    home: FileIndex | None = None
    """The names of its file."""

    def accepts(self, arguments: int) -> bool:
        """Return True if it accepts this number of arguments."""
        needed = sum(1 for parameter in self.parameters if parameter.default is None)
        return needed <= arguments <= len(self.parameters)


Helpers = dict[str, list[Function]]
"""Functions of other files that may be followed, by name."""


@dataclass(slots=True)
class FileIndex:
    """The names of one file."""

    source: SourceFile
    functions: dict[str, list[Function]] = field(default_factory=dict)
    constants: dict[str, Node] = field(default_factory=dict)
    """Name -> initialiser, for constants at namespace or class scope."""
    enumerators: dict[str, tuple[int, Node | None]] = field(default_factory=dict)
    """`Type::NAME` and `NAME` -> (position after the last explicit value, that value)."""
    known: dict[str, Expression] = field(default_factory=dict)
    """Constants that were looked up before."""
    macros: dict[str, str] = field(default_factory=dict)
    """`#define NAME value`, where the file defines the name once."""
    loose: list[Node] = field(default_factory=list)
    """Statements outside of any function, in source order."""

    def all_functions(self) -> Iterator[Function]:
        """In source order."""
        return chain.from_iterable(self.functions.values())

    def find(self, name: str, arguments: int) -> Function | None:
        """Return the only function of that name that accepts this number of arguments."""
        return next((function for function in self.functions.get(name, ()) if function.accepts(arguments)), None)


def index_of(source: SourceFile) -> FileIndex:
    """Everything at namespace and class scope."""
    index = FileIndex(source, macros=_macros(source.text))
    pending: list[tuple[Node, tuple[str, ...]]] = [(source.root, ())]
    while pending:
        node, template = pending.pop()
        kind = node.type
        if kind == "function_definition":
            _add_function(index, node, template)
        elif kind == "enum_specifier":
            _add_enumerators(index, node)
        elif kind in ("declaration", "field_declaration"):
            _add_constants(index, node)
            index.loose.append(node)
            pending.extend((child, ()) for child in node.named_children if child.type in _TRANSPARENT)
            pending.extend((child, ()) for child in node.named_children if child.type == "enum_specifier")
        elif kind in _STATEMENTS:
            index.loose.append(node)
        elif kind in _TRANSPARENT:
            template = _template_parameters(source, node) if kind == "template_declaration" else ()
            pending.extend((child, template) for child in reversed(node.named_children))
    return index


def _macros(text: bytes) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for name, value in _MACRO.findall(text):
        words = value.decode("utf-8", "replace").split("//")[0].split("/*")[0].strip()
        found.setdefault(name.decode(), set()).add(words)
    return {name: next(iter(values)) for name, values in found.items() if len(values) == 1 and "" not in values}


def _add_function(index: FileIndex, node: Node, template: tuple[str, ...]) -> None:
    declarator, body = node.child_by_field_name("declarator"), node.child_by_field_name("body")
    while declarator is not None and declarator.type in ("pointer_declarator", "reference_declarator"):
        declarator = declarator.named_children[-1] if declarator.named_children else None
    if declarator is None or body is None or declarator.type != "function_declarator":
        return
    name = last_name(index.source, declarator.child_by_field_name("declarator"))
    full = declarator.child_by_field_name("declarator")
    title = index.source.of(declarator if name.isupper() and name != "MAIN" else full).removeprefix("::")
    parameters = parameters_of(index.source, declarator)
    function = Function(name, parameters, body, index.source, template, title, index)
    index.functions.setdefault(name, []).append(function)


def parameters_of(source: SourceFile, declarator: Node | None) -> tuple[CppParameter, ...]:
    """Return the parameters of a function or lambda declarator."""
    given = list_items(declarator, "parameters") if declarator is not None else []
    found = []
    for node in given:
        if node.type in ("parameter_declaration", "optional_parameter_declaration"):
            declared = node.child_by_field_name("declarator")
            changeable = declared is not None and declared.type == "reference_declarator"
            constant = any(child.type == "type_qualifier" for child in node.named_children)
            default = node.child_by_field_name("default_value")
            found.append(CppParameter(find_declared_name(source, declared), default, changeable and not constant))
    return tuple(found)


def _template_parameters(source: SourceFile, node: Node) -> tuple[str, ...]:
    found = list_items(node, "parameters", comments=True)
    return tuple(find_declared_name(source, one.child_by_field_name("declarator") or one) for one in found)


def find_declared_name(source: SourceFile, declarator: Node | None) -> str:
    """The identifier inside references, pointers, arrays and initialisers."""
    while declarator is not None:
        if declarator.type in ("identifier", "field_identifier", "type_identifier"):
            return source.of(declarator)
        inner = declarator.child_by_field_name("declarator")
        if inner is None:
            names = [child for child in declarator.named_children if child.type.endswith(("identifier", "declarator"))]
            inner = names[-1] if names else None
        declarator = inner
    return ""


def last_name(source: SourceFile, node: Node | None) -> str:
    """`tt::detail::TileSize` -> `TileSize`, `Factory::create<int>` -> `create`."""
    while node is not None:
        if node.type in ("qualified_identifier", "template_function", "template_method", "dependent_name"):
            node = node.child_by_field_name("name") or (node.named_children[-1] if node.named_children else None)
        else:
            return source.of(node)
    return ""


def _add_constants(index: FileIndex, node: Node) -> None:
    for child in node.named_children:
        value = None
        if child.type == "init_declarator":
            value, name = child.child_by_field_name("value"), find_declared_name(index.source, child)
        elif child.type == "field_identifier":
            value, name = node.child_by_field_name("default_value"), index.source.of(child)
        if value is not None:
            index.constants.setdefault(name, value)


def _add_enumerators(index: FileIndex, node: Node) -> None:
    body, name = node.child_by_field_name("body"), node.child_by_field_name("name")
    if body is None:
        return
    type_name = index.source.of(name) if name is not None else ""
    explicit: Node | None = None
    position = 0
    for child in body.named_children:
        if child.type != "enumerator":
            continue
        value = child.child_by_field_name("value")
        if value is not None:
            explicit, position = value, 0
        text = index.source.of(child.child_by_field_name("name"))
        for spelled in (text, f"{type_name}::{text}"):
            index.enumerators.setdefault(spelled, (position, explicit))
        position += 1


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
