# SPDX-License-Identifier: Apache-2.0
"""What a C++ expression means for a size: a small tree that keeps its unknowns, so that it can be evaluated later.

Nodes are shared (a variable used ten times is one node), so everything that walks them remembers what it has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ttmem.circular_buffers.scan.cpp.arithmetic import BINARY, PURE, UNARY, Value

PARAMETER, MEMBER, NAME, BINDING = "parameter", "member", "name", "binding"
CALL, LOOP, OPAQUE = "call", "loop", "opaque"
"""Kinds of leaves: known by name (parameters, members and getters, names from elsewhere, named bindings of a kernel),
the result of a function that is not in the file, a variable that a loop changes, and what could not be read."""
STRICT_LEAVES = frozenset({PARAMETER, MEMBER, NAME, BINDING})
_LONGEST_TEXT = 400


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """Base of all nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class Integer(Expression):
    """A number, or a boolean as 0 or 1."""

    value: int


@dataclass(frozen=True, slots=True, eq=False)
class Text(Expression):
    """A string literal."""

    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Enumerator(Expression):
    """A value of one of the library's enumerations that matters here: data formats and data types."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Symbol(Expression):
    """A leaf: something that the file does not say."""

    text: str
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Named(Expression):
    """A variable and its definition: `--bind` may replace the definition by the name."""

    name: str
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Expression):
    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expression):
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expression):
    """One of the pure functions that the scan knows (`arithmetic.PURE`)."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Choice(Expression):
    """A ternary, or a variable that an `if` may have changed."""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Items(Expression):
    """A braced list; `complete` is False once something unknown was appended."""

    items: tuple[Expression, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Record(Expression):
    """A braced initialiser with named fields."""

    type_name: str
    fields: tuple[tuple[str, Expression], ...]

    def get(self, field: str) -> Expression | None:
        for name, value in self.fields:
            if name == field:
                return value
        return None


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition under which a statement runs or a declaration is made."""

    text: str
    holds: bool
    expression: Expression

    def __str__(self) -> str:
        return self.text if self.holds else f"!({self.text})"


Bindings = Mapping[str, Value]
NO_BINDINGS: Bindings = {}


def plain(expression: Expression) -> Expression:
    """What a variable stands for."""
    while isinstance(expression, Named):
        expression = expression.value
    return expression


def operands(expression: Expression) -> tuple[Expression, ...]:
    """The nodes directly below."""
    if isinstance(expression, Named):
        return (expression.value,)
    if isinstance(expression, Unary):
        return (expression.operand,)
    if isinstance(expression, Binary):
        return (expression.left, expression.right)
    if isinstance(expression, Call):
        return expression.arguments
    if isinstance(expression, Choice):
        return (expression.condition, expression.yes, expression.no)
    if isinstance(expression, Items):
        return expression.items
    if isinstance(expression, Record):
        return tuple(value for _, value in expression.fields)
    return ()


def rebuilt(expression: Expression, parts: Sequence[Expression]) -> Expression:
    """The same node on other operands, in the order of `operands`; a leaf is itself."""
    if isinstance(expression, Named):
        return Named(expression.name, parts[0])
    if isinstance(expression, Unary):
        return Unary(expression.operator, parts[0])
    if isinstance(expression, Binary):
        return Binary(expression.operator, parts[0], parts[1])
    if isinstance(expression, Call):
        return Call(expression.function, tuple(parts))
    if isinstance(expression, Choice):
        return Choice(parts[0], parts[1], parts[2])
    if isinstance(expression, Items):
        return Items(tuple(parts), expression.complete)
    if isinstance(expression, Record):
        return Record(
            expression.type_name, tuple((name, part) for (name, _), part in zip(expression.fields, parts, strict=True))
        )
    return expression


class Evaluation:
    """Values of expressions under some bindings; one object remembers the nodes it has seen."""

    def __init__(self, bindings: Bindings = NO_BINDINGS) -> None:
        self._bindings = bindings
        self._known: dict[int, tuple[Expression, Value | None]] = {}

    def value(self, expression: Expression) -> Value | None:
        """A number or the name of an enumerator; None while something is unknown."""
        known = self._known.get(id(expression))
        if known is None:
            known = (expression, self._work_out(expression))
            self._known[id(expression)] = known
        return known[1]

    def integer(self, expression: Expression | None) -> int | None:
        """A number, or None."""
        value = self.value(expression) if expression is not None else None
        return value if isinstance(value, int) else None

    def _work_out(self, expression: Expression) -> Value | None:
        if isinstance(expression, Integer):
            return expression.value
        if isinstance(expression, Named):
            name = expression.name
            bound = self._bound(name) if name.endswith(")") else self._bindings.get(name)
            return self.value(expression.value) if bound is None else bound
        if isinstance(expression, Symbol):
            return self._bound(expression.text)
        if isinstance(expression, Enumerator):
            return expression.name
        if isinstance(expression, Choice):
            return self._choose(expression)
        if isinstance(expression, Binary):
            return self._binary(expression)
        if isinstance(expression, Unary):
            operand = self.value(expression.operand)
            return UNARY[expression.operator](operand) if isinstance(operand, int) else None
        if isinstance(expression, Call):
            arguments = [self.value(argument) for argument in expression.arguments]
            return PURE[expression.function](arguments)
        if isinstance(expression, Items) and len(expression.items) == 1:
            return self.value(expression.items[0])
        return None

    def _bound(self, text: str) -> Value | None:
        for name in names_of(text):
            if name in self._bindings:
                return self._bindings[name]
        return None

    def _choose(self, expression: Choice) -> Value | None:
        condition = self.value(expression.condition)
        if isinstance(condition, int):
            return self.value(expression.yes if condition else expression.no)
        yes = self.value(expression.yes)
        return yes if yes is not None and yes == self.value(expression.no) else None

    def _binary(self, expression: Binary) -> Value | None:
        left, right = self.value(expression.left), self.value(expression.right)
        if expression.operator in ("&&", "||"):
            decisive = expression.operator == "||"
            if any(isinstance(side, int) and bool(side) is decisive for side in (left, right)):
                return int(decisive)
            return int(not decisive) if isinstance(left, int) and isinstance(right, int) else None
        if left is None or right is None:
            return None
        return BINARY[expression.operator](left, right)


def names_of(text: str) -> Iterator[str]:
    """How a leaf may be called in `--bind`: in full, without its last call, or by the last part of that."""
    yield text
    short = text
    if text.endswith(")"):
        depth = 0
        for position in range(len(text) - 1, -1, -1):
            depth += {")": 1, "(": -1}.get(text[position], 0)
            if depth == 0:
                short = text[:position]
                break
        yield short
    for separator in ("->", ".", "::"):
        short = short.rsplit(separator, 1)[-1]
    yield short


def evaluate(expression: Expression | None, bindings: Bindings = NO_BINDINGS) -> int | None:
    """The number that an expression is, as far as it can be known."""
    return Evaluation(bindings).integer(expression)


def every_node(expression: Expression, *, stop: Callable[[Expression], bool] | None = None) -> Iterator[Expression]:
    """Every node once; below a node for which `stop` holds nothing is visited."""
    seen: set[int] = set()
    pending = [expression]
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if stop is None or not stop(node):
            pending.extend(reversed(operands(node)))


def leaves(expression: Expression) -> tuple[str, ...]:
    """What must be bound before the expression has a value, as `--bind` can name it."""
    return tuple(dict.fromkeys(node.text for node in every_node(expression) if isinstance(node, Symbol)))


def render(expression: Expression | None, *, expand: bool = False) -> str:
    """C++-like text; variables by name, or `expand`ed to what they stand for as long as that stays readable."""
    if expression is None:
        return ""
    text = _Renderer(expand).text(expression)
    return text if len(text) <= _LONGEST_TEXT or not expand else render(expression)


class _Renderer:
    def __init__(self, expand: bool) -> None:
        self._expand = expand
        self._budget = 2 * _LONGEST_TEXT

    def text(self, node: Expression, *, nested: bool = False) -> str:
        self._budget -= 1
        if self._budget < 0:
            return "..." if not isinstance(node, Named) else node.name
        if isinstance(node, Integer):
            return str(node.value)
        if isinstance(node, Text):
            return f'"{node.value}"'
        if isinstance(node, Enumerator):
            return node.name
        if isinstance(node, Symbol):
            return node.text
        if isinstance(node, Named):
            return self.text(node.value, nested=nested) if self._expand else node.name
        if isinstance(node, Call):
            return f"{node.function}({', '.join(self.text(argument) for argument in node.arguments)})"
        if isinstance(node, Items):
            return "{" + ", ".join(self.text(item) for item in node.items) + "}"
        if isinstance(node, Record):
            return f"{node.type_name}{{...}}"
        joined = self._joined(node)
        return f"({joined})" if nested else joined

    def _joined(self, node: Expression) -> str:
        if isinstance(node, Unary):
            return f"{node.operator}{self.text(node.operand, nested=True)}"
        if isinstance(node, Binary):
            return f"{self.text(node.left, nested=True)} {node.operator} {self.text(node.right, nested=True)}"
        if isinstance(node, Choice):
            condition, yes, no = (self.text(part, nested=True) for part in operands(node))
            return f"{condition} ? {yes} : {no}"
        return "?"
