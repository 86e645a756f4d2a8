# SPDX-License-Identifier: Apache-2.0
"""Arithmetic and conditions in TOML files: a small language, never Python's own ``eval``.

Numbers, names, ``+ - * // %``, comparisons, ``and``, ``or``, ``not`` and a few functions; a ``Language`` adds what its
files need beyond that. A file may come from anywhere, so the length of a text and the size of a number are bounded.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

_LARGEST = 1 << 62
_LONGEST_TEXT = 1000
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, group: item in group,
    ast.NotIn: lambda item, group: item not in group,
}


class ExpressionError(ValueError):
    """An expression outside of its language, or without a value; ``hint`` lists what exists."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class NoValueError(ExpressionError):
    """An expression that is well formed and has no value under these names."""


class UnknownNameError(NoValueError):
    """An expression with an unknown name."""


@dataclass(frozen=True)
class Language:
    """The expressions that one kind of file may use."""

    constants: tuple[type, ...] = (int,)
    choices: bool = False
    """``a if b else c`` and ``-a``."""
    groups: bool = False
    """``a in (b, c)``."""
    partial: bool = False
    """Names may be unknown: ``a or b`` is true when one of them is, whatever the other is; ``known(a)`` asks."""
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=lambda: {"min": min, "max": max})
    hint: str = ""

    def evaluate(self, text: str, names: Mapping[str, Any]) -> Any:
        """Return the value of an expression; raises ExpressionError where there is none."""
        try:
            return self._value(parse_expression(text), names)
        except ZeroDivisionError:
            raise NoValueError(f"divides by zero: {text!r}") from None
        except RecursionError:
            raise ExpressionError(f"cannot be read as an expression: {text[:80]!r} (nested too deeply)") from None

    def _value(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        result = self._raw_value(node, names)
        if isinstance(result, int) and abs(result) > _LARGEST:
            raise NoValueError(f"gives a number of more than 62 bits: {ast.unparse(node)}")
        return result

    def _raw_value(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, self.constants):
            return node.value
        if isinstance(node, ast.Name):
            if node.id not in names:
                raise UnknownNameError(f"unknown name {node.id!r}", hint=f"known: {', '.join(names)}")
            return names[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return _ARITHMETIC[type(node.op)](self._value(node.left, names), self._value(node.right, names))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not self._value(node.operand, names)
        if isinstance(node, ast.BoolOp):
            return self._evaluate_and_or(node, names)
        if isinstance(node, ast.Compare):
            return self._compare(node, names)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._call(node, node.func.id, names)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and self.choices:
            return -self._value(node.operand, names)
        if isinstance(node, ast.IfExp) and self.choices:
            return self._value(node.body if self._value(node.test, names) else node.orelse, names)
        if isinstance(node, ast.Tuple) and self.groups:
            return tuple(self._value(item, names) for item in node.elts)
        raise self._foreign(node)

    def _foreign(self, node: ast.expr) -> ExpressionError:
        return ExpressionError(f"not part of the language: {ast.unparse(node)!r}", self.hint)

    def _evaluate_and_or(self, node: ast.BoolOp, names: Mapping[str, Any]) -> bool:
        decisive = isinstance(node.op, ast.Or)
        unknown: UnknownNameError | None = None
        for part in node.values:
            try:
                if bool(self._value(part, names)) is decisive:
                    return decisive
            except UnknownNameError as error:
                if not self.partial:
                    raise
                unknown = error
        if unknown is not None:
            raise unknown
        return not decisive

    def _compare(self, node: ast.Compare, names: Mapping[str, Any]) -> bool:
        left = self._value(node.left, names)
        for kind, right_node in zip(node.ops, node.comparators, strict=True):
            if type(kind) not in _COMPARISONS or (isinstance(kind, (ast.In, ast.NotIn)) and not self.groups):
                raise self._foreign(node)
            right = self._value(right_node, names)
            if not _COMPARISONS[type(kind)](left, right):
                return False
            left = right
        return True

    def _call(self, node: ast.Call, name: str, names: Mapping[str, Any]) -> Any:
        if name == "known" and self.partial:
            return all(isinstance(argument, ast.Name) and argument.id in names for argument in node.args)
        if name not in self.functions:
            raise self._foreign(node)
        if len(node.args) < 2:
            raise ExpressionError(f"{name} takes two or more values: {ast.unparse(node)}")
        return self.functions[name](*(self._value(argument, names) for argument in node.args))


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> ast.expr:
    """Parse an expression."""
    if len(text) > _LONGEST_TEXT:
        raise ExpressionError(f"an expression of {len(text)} characters; {_LONGEST_TEXT} is the most")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(f"cannot be read as an expression: {text!r} ({type(error).__name__})") from None


def find_names(text: str) -> set[str]:
    """Return the names in an expression, without its functions."""
    tree = parse_expression(text)
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node not in called}
