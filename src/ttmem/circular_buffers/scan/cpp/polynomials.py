# SPDX-License-Identifier: Apache-2.0
"""Amounts as sums of products of leaves, so that two of them can be compared without knowing the leaves."""

from __future__ import annotations

from collections.abc import Mapping

from ttmem.circular_buffers.scan.cpp import expressions as cpp

Monomial = tuple[str, ...]
Polynomial = Mapping[Monomial, int]
_MOST_TERMS = 48
OWN = "kernel:"
"""Mark of a leaf that only the kernel knows: it is never equal to a leaf of the host."""


def constant(value: int) -> dict[Monomial, int]:
    return {(): value} if value else {}


def plus(left: Polynomial, right: Polynomial, sign: int = 1) -> dict[Monomial, int]:
    total = dict(left)
    for monomial, factor in right.items():
        total[monomial] = total.get(monomial, 0) + sign * factor
    return {monomial: factor for monomial, factor in total.items() if factor}


def times(left: Polynomial, right: Polynomial) -> dict[Monomial, int] | None:
    """None when the product is too long to compare sensibly."""
    if len(left) * len(right) > _MOST_TERMS:
        return None
    product: dict[Monomial, int] = {}
    for one, factor in left.items():
        moved = {tuple(sorted((*one, *other))): factor * second for other, second in right.items()}
        product = plus(product, moved)
    return product


def as_constant(polynomial: Polynomial | None) -> int | None:
    if polynomial is None or polynomial.keys() - {()}:
        return None
    return polynomial.get((), 0)


def is_certainly_positive(polynomial: Polynomial) -> bool:
    """Counts are never negative: a sum without negative terms, and not empty, is above zero unless all leaves are 0."""
    return bool(polynomial) and all(factor > 0 for factor in polynomial.values())


def uses_own_leaves(polynomial: Polynomial) -> bool:
    """Return True if only the kernel knows some leaf."""
    return any(leaf.startswith(OWN) for monomial in polynomial for leaf in monomial)


class Amounts:
    """Polynomials of expressions under bindings; a kernel's arguments are replaced by what its host passes."""

    def __init__(
        self, bindings: cpp.Bindings = cpp.NO_BINDINGS, passed: Mapping[str, cpp.Expression] | None = None
    ) -> None:
        self._evaluation = cpp.Evaluation(bindings)
        self._bindings = bindings
        self._passed = passed
        self._host: Amounts | None = Amounts(bindings) if passed is not None else None
        self._known: dict[int, tuple[cpp.Expression, Polynomial | None]] = {}

    @property
    def host_amounts(self) -> Amounts:
        """For expressions that the host wrote."""
        return self._host if self._host is not None else self

    def of(self, expression: cpp.Expression | None) -> Polynomial | None:
        """None when the expression cannot be written so."""
        if expression is None:
            return None
        known = self._known.get(id(expression))
        if known is None:
            known = (expression, self._work_out(expression))
            self._known[id(expression)] = known
        return known[1]

    def integer(self, expression: cpp.Expression | None) -> int | None:
        return as_constant(self.of(expression))

    def _work_out(self, expression: cpp.Expression) -> Polynomial | None:
        value = self._evaluation.value(expression)
        if isinstance(value, int):
            return constant(value)
        if isinstance(expression, cpp.NamedValue):
            return self.of(expression.value)
        if isinstance(expression, cpp.Symbol):
            if self._passed is not None and self._host is not None and expression.text in self._passed:
                return self._host.of(self._passed[expression.text])
            return {(self._leaf(expression.text),): 1}
        if isinstance(expression, cpp.Unary) and expression.operator == "-":
            inner = self.of(expression.operand)
            return plus({}, inner, -1) if inner is not None else None
        if isinstance(expression, cpp.Binary) and expression.operator in "+-*":
            left, right = self.of(expression.left), self.of(expression.right)
            if left is None or right is None:
                return None
            if expression.operator == "*":
                return times(left, right)
            return plus(left, right, -1 if expression.operator == "-" else 1)
        # Divisions, choices and calls: numbers if their parts are, one leaf otherwise.
        changed = cpp.substitute(expression, self._passed) if self._passed is not None else None
        if changed is None:
            return {(self._leaf(cpp.render(expression, expand=True)),): 1}
        number = cpp.Evaluation(self._bindings).integer(changed)
        return constant(number) if number is not None else None

    def _leaf(self, text: str) -> str:
        return text if self._passed is None else OWN + text
