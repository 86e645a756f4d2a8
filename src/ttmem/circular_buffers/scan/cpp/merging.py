# SPDX-License-Identifier: Apache-2.0
"""Where ways meet: variables after an `if`, and before and after a loop."""

from __future__ import annotations

from itertools import takewhile

from ttmem.circular_buffers.scan.cpp import expressions as cpp
from ttmem.circular_buffers.scan.cpp.functions import declared_name
from ttmem.circular_buffers.scan.cpp.syntax import Node, Source, walk
from ttmem.circular_buffers.scan.cpp.values import draft_in

LISTS = ("vector", "std::vector", "array", "auto", "map", "unordered", "set", "SmallVector", "Group")


def trips(start: cpp.Expression, end: cpp.Expression, step: cpp.Expression, *, inclusive: bool) -> cpp.Expression:
    span = end if isinstance(start, cpp.Integer) and start.value == 0 else _span(start, end)
    if inclusive:
        span = cpp.fold(cpp.Binary("+", span, cpp.Integer(1)))
    if isinstance(step, cpp.Integer) and step.value == 1:
        return span
    return cpp.fold(cpp.Call("div_up", (span, step)))


def _span(start: cpp.Expression, end: cpp.Expression) -> cpp.Expression:
    """`for (i = first; i < first + n; ...)` runs n times whatever `first` is."""
    total = cpp.plain(end)
    if isinstance(total, cpp.Binary) and total.operator == "+":
        if cpp.plain(total.left) is start:
            return total.right
        if cpp.plain(total.right) is start:
            return total.left
    return cpp.fold(cpp.Binary("-", end, start))


def merged(
    condition: cpp.Expression, yes: dict[str, cpp.Expression], no: dict[str, cpp.Expression]
) -> dict[str, cpp.Expression]:
    """One environment from two: a variable that differs becomes a choice."""
    both = {}
    for name, value in yes.items():
        other = no.get(name)
        if other is None or other is value or draft_in(value) is not None:
            both[name] = value
        elif isinstance(one := cpp.plain(value), cpp.Items) and isinstance(two := cpp.plain(other), cpp.Items):
            pairs = takewhile(lambda pair: pair[0] is pair[1], zip(one.items, two.items, strict=False))
            shared = tuple(item for item, _ in pairs)
            complete = one.complete and two.complete and len(one.items) == len(two.items) == len(shared)
            both[name] = cpp.Named(name, cpp.Items(shared, complete))
        else:
            both[name] = cpp.Named(name, cpp.Choice(condition, cpp.unwrapped(value, name), cpp.unwrapped(other, name)))
    return {**no, **both}


def declared_in(source: Source, block: Node) -> list[str]:
    """Names that a block, or one declaration, introduces."""
    found = [child for child in (block, *block.named_children) if child.type == "declaration"]
    return [declared_name(source, name) for child in found for name in child.children_by_field_name("declarator")]


def assigned_in(source: Source, loop: Node) -> set[str]:
    """What a loop assigns to or counts up."""
    targets = {"assignment_expression": "left", "update_expression": "argument"}
    return {source.of(node.child_by_field_name(targets[node.type])) for node in walk(loop) if node.type in targets}
