# SPDX-License-Identifier: Apache-2.0
"""Values that exist only while a function is followed: lambdas, and objects that are still being filled in."""

from __future__ import annotations

from dataclasses import dataclass, field

from ttmem.circular_buffers.scan.cpp.expressions import Expression, Named, Symbol
from ttmem.circular_buffers.scan.cpp.functions import Function


@dataclass(frozen=True, slots=True, eq=False)
class Lambda(Expression):
    """A lambda and the variables it sees."""

    function: Function
    seen: dict[str, Expression]


@dataclass(slots=True, eq=False)
class Draft:
    """An object that later statements still change: a buffer declaration, a kernel, a buffer object of a kernel."""

    kind: str
    line: int
    column: int
    fields: dict[str, Expression] = field(default_factory=dict)
    guards: tuple[Guard, ...] = ()
    trail: tuple[tuple[str, int], ...] = ()
    """Calls through which it was reached: (function, line of the call)."""
    repeats: Expression | None = None
    order: int = 0
    field_guards: dict[str, tuple[Guard, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """A condition under which a statement runs."""

    condition: Expression
    holds: bool
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class DraftValue(Expression):
    """A reference to a draft, as variables hold it."""

    draft: Draft


def draft_in(expression: Expression | None) -> Draft | None:
    """The draft that a value refers to."""
    while isinstance(expression, Named):
        expression = expression.value
    return expression.draft if isinstance(expression, DraftValue) else None


def without_drafts(expression: Expression, text: str) -> Expression:
    """A value that may be kept after the function ended."""
    inner = expression
    while isinstance(inner, Named):
        inner = inner.value
    return Symbol(text, "opaque") if isinstance(inner, (DraftValue, Lambda)) else expression
