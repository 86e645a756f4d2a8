# SPDX-License-Identifier: Apache-2.0
"""Expressions without anything that lives only while a file is open: lambdas and drafts become leaves."""

from __future__ import annotations

from ttmem.circular_buffers.scan.cpp.expressions import (
    OPAQUE,
    Binary,
    Call,
    Choice,
    Expression,
    Items,
    Named,
    Record,
    Symbol,
    Unary,
)
from ttmem.circular_buffers.scan.cpp.values import Draft, DraftValue, Lambda

MOST_NODES = 4000
"""An expression larger than this says nothing to a person and costs much to carry: it becomes a leaf."""
DEEPEST = 120
"""Everything that walks expressions later calls itself once or twice per level."""


class Portable:
    """Rewrites expressions; shared nodes stay shared."""

    def __init__(self) -> None:
        self._done: dict[int, tuple[Expression, Expression]] = {}
        self._left = MOST_NODES
        self._depth = 0

    def __call__(self, expression: Expression | None) -> Expression | None:
        if expression is None:
            return None
        self._left = MOST_NODES
        return self.rewritten(expression)

    def rewritten(self, node: Expression) -> Expression:
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
            return Symbol(_draft_text(node.draft), OPAQUE)
        if isinstance(node, Named):
            return Named(node.name, self.rewritten(node.value))
        if isinstance(node, Unary):
            return Unary(node.operator, self.rewritten(node.operand))
        if isinstance(node, Binary):
            return Binary(node.operator, self.rewritten(node.left), self.rewritten(node.right))
        if isinstance(node, Call):
            return Call(node.function, tuple(map(self.rewritten, node.arguments)))
        if isinstance(node, Choice):
            return Choice(self.rewritten(node.condition), self.rewritten(node.yes), self.rewritten(node.no))
        if isinstance(node, Items):
            return Items(tuple(map(self.rewritten, node.items)), node.complete)
        if isinstance(node, Record):
            return Record(node.type_name, tuple((name, self.rewritten(value)) for name, value in node.fields))
        return node


def _draft_text(draft: Draft) -> str:
    return f"{draft.kind} of line {draft.line}"
