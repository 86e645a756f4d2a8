# SPDX-License-Identifier: Apache-2.0
"""The small language of strategy files: whole numbers, comparisons, ``min``, ``max`` and ``a if b else c``.

Python's grammar, but nothing of Python's power: a strategy file may come from anywhere.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from ttmem._errors import BadInputError

_LARGEST = 1 << 62
_LONGEST_TEXT = 1000

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISON: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max}


def evaluate(text: str, names: Mapping[str, int]) -> int:
    """The value of an expression; whatever is not in the language is refused by name."""
    if len(text) > _LONGEST_TEXT:
        raise BadInputError(f"an expression of {len(text)} characters; {_LONGEST_TEXT} is the most")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        return _value(tree.body, names)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise BadInputError(f"cannot be read as an expression: {text!r} ({type(error).__name__})") from error
    except ZeroDivisionError as error:
        raise BadInputError(f"divides by zero: {text!r}") from error


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    result = _raw_value(node, names)
    if abs(result) > _LARGEST:
        raise BadInputError(f"gives a number of more than 62 bits: {ast.unparse(node)}")
    return result


def _raw_value(node: ast.expr, names: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        if node.id in names:
            return names[node.id]
        raise BadInputError(f"unknown name {node.id!r}", hint=f"known: {', '.join(names)}")
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        return _ARITHMETIC[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _value(node.operand, names)
    if isinstance(node, ast.BoolOp):
        decide = all if isinstance(node.op, ast.And) else any
        return decide(_value(value, names) for value in node.values)
    if isinstance(node, ast.Compare):
        return _comparison(node, names)
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, names) else node.orelse, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        if node.keywords or len(node.args) < 2:
            raise BadInputError(f"{node.func.id} takes two or more values: {ast.unparse(node)}")
        return _FUNCTIONS[node.func.id](*(_value(argument, names) for argument in node.args))
    raise BadInputError(
        f"not part of the language of strategies: {ast.unparse(node)!r}",
        hint="use whole numbers, names, + - * // %, comparisons, and, or, not, min(), max() and 'a if b else c'",
    )


def _comparison(node: ast.Compare, names: Mapping[str, int]) -> bool:
    left = _value(node.left, names)
    for comparison, right_node in zip(node.ops, node.comparators, strict=True):
        if type(comparison) not in _COMPARISON:
            raise BadInputError(f"not part of the language of strategies: {ast.unparse(node)!r}")
        right = _value(right_node, names)
        if not _COMPARISON[type(comparison)](left, right):
            return False
        left = right
    return True
