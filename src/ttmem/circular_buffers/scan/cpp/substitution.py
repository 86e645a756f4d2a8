# SPDX-License-Identifier: Apache-2.0
"""Replace leaves by expressions: what a kernel calls its third argument is something the host computed."""

from __future__ import annotations

from collections.abc import Mapping

from ttmem.circular_buffers.scan.cpp.expressions import Binary, Call, Choice, Expression, Named, Symbol, Unary


def substituted(expression: Expression, by_text: Mapping[str, Expression]) -> Expression | None:
    """The expression with every leaf replaced; None when some leaf is not among those that can be."""
    if isinstance(expression, Symbol):
        return by_text.get(expression.text)
    if isinstance(expression, Named):
        inner = substituted(expression.value, by_text)
        return Named(expression.name, inner) if inner is not None else None
    if isinstance(expression, Unary):
        inner = substituted(expression.operand, by_text)
        return Unary(expression.operator, inner) if inner is not None else None
    if isinstance(expression, Binary):
        left, right = substituted(expression.left, by_text), substituted(expression.right, by_text)
        return Binary(expression.operator, left, right) if left is not None and right is not None else None
    if isinstance(expression, Choice):
        parts = [substituted(part, by_text) for part in (expression.condition, expression.yes, expression.no)]
        condition, yes, no = parts
        if condition is None or yes is None or no is None:
            return None
        return Choice(condition, yes, no)
    if isinstance(expression, Call):
        arguments = [substituted(argument, by_text) for argument in expression.arguments]
        known = [argument for argument in arguments if argument is not None]
        return Call(expression.function, tuple(known)) if len(known) == len(arguments) else None
    return expression
