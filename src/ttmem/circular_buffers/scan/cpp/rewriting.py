# SPDX-License-Identifier: Apache-2.0
"""Expressions made from others: numbers folded, leaves replaced, nothing kept that an open file alone can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ttmem.circular_buffers.scan.cpp.expressions import (
    BINDING,
    OPAQUE,
    PARAMETER,
    Expression,
    Integer,
    Items,
    Named,
    Record,
    Symbol,
    Text,
    evaluate,
    operands,
    plain,
    rebuilt,
)
from ttmem.circular_buffers.scan.cpp.values import DraftValue, Lambda

MOST_NODES = 4000
"""An expression larger than this says nothing to a person and costs much to carry: it becomes a leaf."""
DEEPEST = 120
"""Everything that walks expressions later calls itself once or twice per level."""


def argument_leaf(name: str, arguments: Sequence[Expression], text: str) -> Symbol:
    """One spelling for each way to read an argument: `get_arg_val(1)`, `get_compile_time_arg_val(0)`, `args::n`."""
    first = plain(arguments[0]) if arguments else None
    position = evaluate(first)
    if position is not None:
        return Symbol(f"{name}({position})", PARAMETER)
    if isinstance(first, Text):
        return Symbol(f"args::{first.value}", BINDING)
    if isinstance(first, Symbol) and first.kind == BINDING:
        return first
    return Symbol(text, PARAMETER)


def unwrapped(value: Expression, name: str = "") -> Expression:
    """A variable assigned to itself does not nest."""
    return value.value if isinstance(value, Named) and value.name == name else value


def fold(expression: Expression) -> Expression:
    """Arithmetic on numbers is done at once; everything else stays as it is."""
    if not all(isinstance(part, Integer) for part in operands(expression)):
        return expression
    value = evaluate(expression)
    return expression if value is None else Integer(value)


def substituted(expression: Expression, by_text: Mapping[str, Expression]) -> Expression | None:
    """The expression with every leaf replaced; None when some leaf is not among those that can be.

    What a kernel calls its third argument is something the host computed.
    """
    if isinstance(expression, Symbol):
        return by_text.get(expression.text)
    if isinstance(expression, (Items, Record)):
        return expression
    parts = [substituted(part, by_text) for part in operands(expression)]
    known = [part for part in parts if part is not None]
    return rebuilt(expression, known) if len(known) == len(parts) else None


class Portable:
    """Rewrites expressions so that they can leave their process: lambdas and drafts become leaves.

    Shared nodes stay shared.
    """

    def __init__(self) -> None:
        self._done: dict[int, tuple[Expression, Expression]] = {}
        self._left = MOST_NODES
        self._depth = 0

    def __call__(self, expression: Expression) -> Expression:
        self._left = MOST_NODES
        return self._rewritten(expression)

    def known(self, expression: Expression | None) -> Expression | None:
        """The same for what may be missing."""
        return None if expression is None else self(expression)

    def _rewritten(self, node: Expression) -> Expression:
        done = self._done.get(id(node))
        if done is not None:
            return done[1]
        self._left -= 1
        self._depth += 1
        fits = self._left > 0 and self._depth < DEEPEST
        made = self._rewrite(node) if fits else Symbol("too large", OPAQUE)
        self._depth -= 1
        self._done[id(node)] = (node, made)
        return made

    def _rewrite(self, node: Expression) -> Expression:
        if isinstance(node, Lambda):
            return Symbol("lambda", OPAQUE)
        if isinstance(node, DraftValue):
            return Symbol(f"{node.draft.kind} of line {node.draft.line}", OPAQUE)
        return rebuilt(node, [self._rewritten(part) for part in operands(node)])
