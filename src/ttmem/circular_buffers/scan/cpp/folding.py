# SPDX-License-Identifier: Apache-2.0
"""Small rewrites of expressions: arithmetic on numbers is done at once, names do not nest, an argument has one name."""

from __future__ import annotations

from collections.abc import Sequence

from ttmem.circular_buffers.scan.cpp.arithmetic import BINARY, PURE, UNARY
from ttmem.circular_buffers.scan.cpp.expressions import (
    BINDING,
    PARAMETER,
    Binary,
    Call,
    Expression,
    Integer,
    Named,
    Symbol,
    Text,
    Unary,
    evaluate,
    plain,
)


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


def fold(expression: Binary | Unary | Call) -> Expression:
    """Arithmetic on numbers is done at once; everything else stays as it is."""
    if isinstance(expression, Call):
        parts: tuple[Expression, ...] = expression.arguments
    else:
        parts = (expression.left, expression.right) if isinstance(expression, Binary) else (expression.operand,)
    if not all(isinstance(part, Integer) for part in parts):
        return expression
    numbers = [part.value for part in parts if isinstance(part, Integer)]
    if isinstance(expression, Call):
        value = PURE[expression.function](numbers)
    elif isinstance(expression, Binary):
        value = BINARY[expression.operator](numbers[0], numbers[1])
    else:
        value = UNARY[expression.operator](numbers[0])
    return Integer(value) if isinstance(value, int) else expression
