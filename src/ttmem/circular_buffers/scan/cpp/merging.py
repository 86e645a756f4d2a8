# SPDX-License-Identifier: Apache-2.0
"""Where ways meet: variables after an `if`, and before and after a loop."""

from __future__ import annotations

from itertools import takewhile

from ttmem.circular_buffers.scan.cpp.expressions import (
    Binary,
    Call,
    Choice,
    Expression,
    Integer,
    Items,
    Named,
    fold,
    plain,
    unwrapped,
)
from ttmem.circular_buffers.scan.cpp.functions import declared_name
from ttmem.circular_buffers.scan.cpp.syntax import Node, Source, walk
from ttmem.circular_buffers.scan.cpp.values import draft_in

LISTS = ("vector", "std::vector", "array", "auto", "map", "unordered", "set", "SmallVector", "Group")


def trips(start: Expression, end: Expression, step: Expression, *, inclusive: bool) -> Expression:
    span = end if isinstance(start, Integer) and start.value == 0 else _span(start, end)
    if inclusive:
        span = fold(Binary("+", span, Integer(1)))
    if isinstance(step, Integer) and step.value == 1:
        return span
    return fold(Call("div_up", (span, step)))


def _span(start: Expression, end: Expression) -> Expression:
    """`for (i = first; i < first + n; ...)` runs n times whatever `first` is."""
    total = plain(end)
    if isinstance(total, Binary) and total.operator == "+":
        if plain(total.left) is start:
            return total.right
        if plain(total.right) is start:
            return total.left
    return fold(Binary("-", end, start))


def merged(condition: Expression, yes: dict[str, Expression], no: dict[str, Expression]) -> dict[str, Expression]:
    """One environment from two: a variable that differs becomes a choice."""
    both = {}
    for name, value in yes.items():
        other = no.get(name)
        if other is None or other is value or draft_in(value) is not None:
            both[name] = value
        elif isinstance(one := plain(value), Items) and isinstance(two := plain(other), Items):
            pairs = takewhile(lambda pair: pair[0] is pair[1], zip(one.items, two.items, strict=False))
            shared = tuple(item for item, _ in pairs)
            complete = one.complete and two.complete and len(one.items) == len(two.items) == len(shared)
            both[name] = Named(name, Items(shared, complete))
        else:
            both[name] = Named(name, Choice(condition, unwrapped(value, name), unwrapped(other, name)))
    return {**no, **both}


def declared_in(source: Source, block: Node) -> list[str]:
    """Names that a block, or one declaration, introduces."""
    found = [child for child in (block, *block.named_children) if child.type == "declaration"]
    return [declared_name(source, name) for child in found for name in child.children_by_field_name("declarator")]


def assigned_in(source: Source, loop: Node) -> set[str]:
    """What a loop assigns to or counts up."""
    targets = {"assignment_expression": "left", "update_expression": "argument"}
    return {source.of(node.child_by_field_name(targets[node.type])) for node in walk(loop) if node.type in targets}
