# SPDX-License-Identifier: Apache-2.0
"""Arithmetic and conditions written in ``knowledge/``: ``bytes_per_bank - largest_free``, ``memory == 'L1'``.

Names are what is known of a failure. A message may lack any of its figures, so an expression has three outcomes: a
value, or nothing because a name in it is unknown; ``a or b`` is true when one of them is, whatever the other is.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

Value = int | float | str | bool
Names = Mapping[str, Value]


class ExpressionError(ValueError):
    """A fault of the knowledge, found by its tests: the expression uses what the language does not have."""


class _UnknownNameError(Exception):
    pass


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, group: item in group,
    ast.NotIn: lambda item, group: item not in group,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ceil_div": lambda value, by: -(-value // by),
    "round_up": lambda value, to: -(-value // to) * to,
    "percent": lambda part, whole: 100 * part / whole,
    "min": min,
    "max": max,
}


def evaluate(expression: str, names: Names) -> Value | None:
    """The value, or None when it depends on a name that is not known (or on a division by nothing)."""
    try:
        value: Value = _value(_parsed(expression), names)
    except (_UnknownNameError, ZeroDivisionError):
        return None
    return value


def holds(condition: str, names: Names) -> bool:
    """Whether a condition is known to be true; no condition always holds."""
    return not condition or evaluate(condition, names) is True


def names_in(expression: str) -> set[str]:
    """The names that an expression looks at; for the tests of the knowledge."""
    tree = _parsed(expression)
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node not in called}


@cache
def _parsed(expression: str) -> ast.expr:
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except SyntaxError as error:
        raise ExpressionError(f"{expression!r}: {error.msg}") from None


def _value(node: ast.expr, names: Names) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise _UnknownNameError
        return names[node.id]
    if isinstance(node, ast.Tuple):
        return tuple(_value(item, names) for item in node.elts)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _value(node.operand, names)
    if isinstance(node, ast.BoolOp):
        return _either_or_both(node, names)
    if isinstance(node, ast.Compare):
        return _compared(node, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _called(node.func.id, node.args, names)
    raise ExpressionError(f"{ast.unparse(node)!r} is not part of the language")


def _either_or_both(node: ast.BoolOp, names: Names) -> bool:
    decisive = isinstance(node.op, ast.Or)
    unknown = False
    for operand in node.values:
        try:
            if bool(_value(operand, names)) is decisive:
                return decisive
        except _UnknownNameError:
            unknown = True
    if unknown:
        raise _UnknownNameError
    return not decisive


def _compared(node: ast.Compare, names: Names) -> bool:
    left = _value(node.left, names)
    for kind, right_node in zip(node.ops, node.comparators, strict=True):
        if type(kind) not in _COMPARISONS:
            raise ExpressionError(f"{ast.unparse(node)!r} compares in a way that the language does not have")
        right = _value(right_node, names)
        if not _COMPARISONS[type(kind)](left, right):
            return False
        left = right
    return True


def _called(name: str, arguments: list[ast.expr], names: Names) -> Any:
    if name == "known":
        return all(isinstance(argument, ast.Name) and argument.id in names for argument in arguments)
    if name not in _FUNCTIONS:
        raise ExpressionError(f"no function {name!r}; known: known, {', '.join(_FUNCTIONS)}")
    return _FUNCTIONS[name](*(_value(argument, names) for argument in arguments))
