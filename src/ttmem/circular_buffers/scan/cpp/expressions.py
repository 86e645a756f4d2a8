# SPDX-License-Identifier: Apache-2.0
"""C++ expressions for sizes: a small tree that keeps its unknowns, so that it can be evaluated later.

Nodes are shared (a variable used ten times is one node), so everything that walks them remembers what it has seen.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ttmem.circular_buffers.scan.cpp.arithmetic import BINARY, PURE, UNARY, Value

PARAMETER, MEMBER, NAME, BINDING = "parameter", "member", "name", "binding"
CALL, LOOP, OPAQUE = "call", "loop", "opaque"
"""Kinds of leaves: known by name (parameters, members and getters, names from elsewhere, named bindings of a kernel),
the result of a function that is not in the file, a variable that a loop changes, and what could not be read."""
_LONGEST_TEXT = 400
MOST_NODES = 4000
"""An expression larger than this says nothing to a person and costs much to carry: it becomes a leaf."""
DEEPEST = 120
"""Everything that walks expressions later calls itself once or twice per level."""


class Expression(msgspec.Struct, frozen=True, eq=False):
    """Base of all nodes; a node equals itself alone."""


class Local(Expression, frozen=True):
    """A value that exists only while its file is followed: a lambda, a draft. Elsewhere only its text remains."""


class Integer(Expression, frozen=True):
    """A number, or a boolean as 0 or 1."""

    value: int


class Text(Expression, frozen=True):
    """A string literal."""

    value: str


class Enumerator(Expression, frozen=True):
    """A value of one of the library's enumerations that matters here: data formats and data types."""

    name: str


class Symbol(Expression, frozen=True):
    """A leaf: something that the file does not say."""

    text: str
    kind: str


class NamedValue(Expression, frozen=True):
    """A variable and its definition: `--bind` may replace the definition by the name."""

    name: str
    value: Expression


class Unary(Expression, frozen=True):
    operator: str
    operand: Expression


class Binary(Expression, frozen=True):
    operator: str
    left: Expression
    right: Expression


class FunctionCall(Expression, frozen=True):
    """A call of a pure function that the scan knows (`arithmetic.PURE`)."""

    function: str
    arguments: tuple[Expression, ...]


class Conditional(Expression, frozen=True):
    """A ternary, or a variable that an `if` may have changed."""

    condition: Expression
    yes: Expression
    no: Expression


class Items(Expression, frozen=True):
    """A braced list; `complete` is False once something unknown was appended."""

    items: tuple[Expression, ...]
    complete: bool = True


class Record(Expression, frozen=True):
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
    """The definition of a variable."""
    while isinstance(expression, NamedValue):
        expression = expression.value
    return expression


_OPERANDS: Mapping[type[Expression], Callable[[Any], tuple[Expression, ...]]] = {
    NamedValue: lambda node: (node.value,),
    Unary: lambda node: (node.operand,),
    Binary: lambda node: (node.left, node.right),
    FunctionCall: lambda node: node.arguments,
    Conditional: lambda node: (node.condition, node.yes, node.no),
    Items: lambda node: node.items,
    Record: lambda node: tuple(value for _, value in node.fields),
}
_REBUILT: Mapping[type[Expression], Callable[[Any, Sequence[Expression]], Expression]] = {
    NamedValue: lambda node, new: NamedValue(node.name, *new),
    Unary: lambda node, new: Unary(node.operator, *new),
    Binary: lambda node, new: Binary(node.operator, *new),
    FunctionCall: lambda node, new: FunctionCall(node.function, tuple(new)),
    Conditional: lambda node, new: Conditional(*new),
    Items: lambda node, new: Items(tuple(new), node.complete),
    Record: lambda node, new: Record(node.type_name, tuple(zip((name for name, _ in node.fields), new, strict=True))),
}


def operands(expression: Expression) -> tuple[Expression, ...]:
    """The nodes directly below."""
    below = _OPERANDS.get(type(expression))
    return below(expression) if below else ()


def rebuild(expression: Expression, parts: Sequence[Expression]) -> Expression:
    """The same node on other operands, in the order of `operands`; a leaf is itself."""
    again = _REBUILT.get(type(expression))
    return again(expression, parts) if again else expression


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
        rule = _VALUES.get(type(expression))
        return rule(self, expression) if rule else None

    def evaluate_named(self, node: NamedValue) -> Value | None:
        bound = self.bound(node.name) if node.name.endswith(")") else self._bindings.get(node.name)
        return self.value(node.value) if bound is None else bound

    def unary(self, node: Unary) -> Value | None:
        operand = self.value(node.operand)
        return UNARY[node.operator](operand) if isinstance(operand, int) else None

    def bound(self, text: str) -> Value | None:
        return next((self._bindings[name] for name in names_of(text) if name in self._bindings), None)

    def choice(self, expression: Conditional) -> Value | None:
        condition = self.value(expression.condition)
        if isinstance(condition, int):
            return self.value(expression.yes if condition else expression.no)
        yes = self.value(expression.yes)
        return yes if yes is not None and yes == self.value(expression.no) else None

    def binary(self, expression: Binary) -> Value | None:
        left, right = self.value(expression.left), self.value(expression.right)
        if expression.operator in ("&&", "||"):
            decisive = expression.operator == "||"
            if any(isinstance(side, int) and bool(side) is decisive for side in (left, right)):
                return int(decisive)
            return int(not decisive) if isinstance(left, int) and isinstance(right, int) else None
        if left is None or right is None:
            return None
        return BINARY[expression.operator](left, right)


_VALUES: Mapping[type[Expression], Callable[[Evaluation, Any], Value | None]] = {
    Integer: lambda self, node: node.value,
    Enumerator: lambda self, node: node.name,
    Symbol: lambda self, node: self.bound(node.text),
    NamedValue: Evaluation.evaluate_named,
    Unary: Evaluation.unary,
    Binary: Evaluation.binary,
    Conditional: Evaluation.choice,
    FunctionCall: lambda self, node: PURE[node.function]([self.value(argument) for argument in node.arguments]),
    Items: lambda self, node: self.value(node.items[0]) if len(node.items) == 1 else None,
}


def names_of(text: str) -> Iterator[str]:
    """Return the names of a leaf in `--bind`: in full, without its last call, or the last part of that."""
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
    """Yield each node once; nodes below one for which `stop` is true are skipped."""
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
    """Return the names to bind with `--bind` before the expression has a value."""
    return tuple(dict.fromkeys(node.text for node in every_node(expression) if isinstance(node, Symbol)))


def render(expression: Expression | None, *, expand: bool = False) -> str:
    """C++-like text; variables by name, or `expand`ed to their definitions where that stays readable."""
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
            return "..." if not isinstance(node, NamedValue) else node.name
        if isinstance(node, NamedValue):
            return self.text(node.value, nested=nested) if self._expand else node.name
        if rule := _TEXTS.get(type(node)):
            return rule(self, node)
        parts = [self.text(part, nested=True) for part in operands(node)]
        joined = _JOINED.get(type(node), "?").format(*parts, operator=getattr(node, "operator", ""))
        return f"({joined})" if nested else joined

    def join_texts(self, nodes: Sequence[Expression]) -> str:
        return ", ".join(self.text(node) for node in nodes)


_TEXTS: Mapping[type[Expression], Callable[[_Renderer, Any], str]] = {
    Integer: lambda self, node: str(node.value),
    Text: lambda self, node: f'"{node.value}"',
    Enumerator: lambda self, node: node.name,
    Symbol: lambda self, node: node.text,
    FunctionCall: lambda self, node: f"{node.function}({self.join_texts(node.arguments)})",
    Items: lambda self, node: f"{{{self.join_texts(node.items)}}}",
    Record: lambda self, node: f"{node.type_name}{{...}}",
}
_JOINED = {Unary: "{operator}{}", Binary: "{} {operator} {}", Conditional: "{} ? {} : {}"}


def argument_leaf(name: str, arguments: Sequence[Expression], text: str) -> Symbol:
    """Return the canonical spelling of reading an argument: `get_arg_val(1)`, `get_compile_time_arg_val(0)`."""
    first = plain(arguments[0]) if arguments else None
    position = evaluate(first)
    if position is not None:
        return Symbol(f"{name}({position})", PARAMETER)
    if isinstance(first, Text):
        return Symbol(f"args::{first.value}", BINDING)
    if isinstance(first, Symbol) and first.kind == BINDING:
        return first
    return Symbol(text, PARAMETER)


def unwrap(value: Expression, name: str = "") -> Expression:
    """A variable assigned to itself does not nest."""
    return value.value if isinstance(value, NamedValue) and value.name == name else value


def fold(expression: Expression) -> Expression:
    """Arithmetic on numbers is done at once; everything else stays as it is."""
    if not all(isinstance(part, Integer) for part in operands(expression)):
        return expression
    value = evaluate(expression)
    return expression if value is None else Integer(value)


def substitute(expression: Expression, by_text: Mapping[str, Expression]) -> Expression | None:
    """The expression with every leaf replaced; None when some leaf is not among those that can be.

    What a kernel calls its third argument is something the host computed.
    """
    if isinstance(expression, Symbol):
        return by_text.get(expression.text)
    if isinstance(expression, (Items, Record)):
        return expression
    parts = [substitute(part, by_text) for part in operands(expression)]
    known = [part for part in parts if part is not None]
    return rebuild(expression, known) if len(known) == len(parts) else None


class Portable:
    """Rewrites expressions so that they can leave their process: what is local becomes a leaf.

    Shared nodes stay shared.
    """

    def __init__(self) -> None:
        self._done: dict[int, tuple[Expression, Expression]] = {}
        self._left = MOST_NODES
        self._depth = 0

    def __call__(self, expression: Expression) -> Expression:
        self._left = MOST_NODES
        return self._rewrite(expression)

    def rewrite_optional(self, expression: Expression | None) -> Expression | None:
        """The same for what may be missing."""
        return None if expression is None else self(expression)

    def _rewrite(self, node: Expression) -> Expression:
        done = self._done.get(id(node))
        if done is not None:
            return done[1]
        self._left -= 1
        self._depth += 1
        if self._left <= 0 or self._depth >= DEEPEST:
            made: Expression = Symbol("too large", OPAQUE)
        elif isinstance(node, Local):
            made = Symbol(str(node), OPAQUE)
        else:
            made = rebuild(node, [self._rewrite(part) for part in operands(node)])
        self._depth -= 1
        self._done[id(node)] = (node, made)
        return made
