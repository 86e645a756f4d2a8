# SPDX-License-Identifier: Apache-2.0
"""Names in the user's source: whose a variable is, where it gets another value, what a function calls an argument."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ttmem.tuning.source import Source
from ttmem.tuning.syntax import FUNCTIONS, targets_of, variables

_CHANGES = (
    "append",
    "appendleft",
    "insert",
    "extend",
    "pop",
    "popleft",
    "popitem",
    "remove",
    "clear",
    "sort",
    "reverse",
    "update",
    "setdefault",
    "rotate",
)


def same(node: ast.AST, wanted: ast.expr) -> bool:
    """Whether two expressions say the same."""
    if isinstance(node, ast.Name) and isinstance(wanted, ast.Name):
        return node.id == wanted.id
    return ast.unparse(node) == ast.unparse(wanted)


def statements(region: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """All, those inside others too."""
    for one in region:
        for node in ast.walk(one):
            if isinstance(node, ast.stmt):
                yield node


def bindings(
    source: Source, expression: str, first: ast.AST, last: ast.AST | None = None, *, scope: ast.AST | None = None
) -> list[ast.AST]:
    """Where something from one node to another gives an expression, or a name in it, another value or removes it.

    Variables of functions (but of ``scope``) and of comprehensions inside do not count.
    """
    wanted = ast.parse(expression, mode="eval").body
    roots = {one.id for one in ast.walk(wanted) if isinstance(one, ast.Name)}
    last = first if last is None else last
    return [
        one
        for one in source.syntax.bindings(first, last, {*roots, ast.unparse(wanted)})
        if isinstance(one, (ast.Global, ast.Nonlocal)) or is_of_outside(source, one, first, last, scope=scope)
    ]


def is_of_outside(
    source: Source, node: ast.AST, first: ast.AST, last: ast.AST | None = None, *, scope: ast.AST | None = None
) -> bool:
    """Whether a node stands between two others, and no function or comprehension in between has it for itself."""
    last, below = first if last is None else last, node
    if not source.syntax.is_inside(node, first, last):
        return False
    for above in source.ancestors(node):
        if above is scope or not source.syntax.is_inside(above, first, last):
            return True
        if isinstance(above, FUNCTIONS) or (isinstance(above, ast.comprehension) and above.target is below):
            return False
        below = above
    return True


def changes_items(source: Source, region: Sequence[ast.AST], container: str) -> bool:
    """Whether something may put other items into a container, or in other places."""
    wanted = ast.parse(container, mode="eval").body
    for node in source.syntax.mentions(wanted, region[0], region[-1]) if region else ():
        item = source.parent(node)
        if ast.unparse(node) != container:
            continue
        if isinstance(item, ast.Attribute) and item.attr in _CHANGES:
            return True
        if isinstance(item, ast.Subscript) and item.value is node and not isinstance(item.ctx, ast.Load):
            return True
    return False


def reaching(source: Source, statement: ast.stmt, name: str) -> list[ast.stmt] | None:
    """The statements that may have given a variable the value that it has before a statement.

    None where the value may come from elsewhere: an argument, another function, a loop's own variable.
    """
    function, block = source.function_of(statement), source.block_of(statement)
    if function is None or block is None:
        return None
    nearest = block.block.assigned_before(block.place, name)
    if nearest is None and (is_parameter(function, name) or not _is_own(source, function, name)):
        return None
    if nearest is None:
        given = bindings(source, name, function, scope=function)
    else:
        given = bindings(source, name, block.statements[nearest], block.statements[block.place - 1])
    found: list[ast.stmt] = []
    for node in given:
        if source.function_of(node) is not function:
            continue  # a variable of another function: those that mean this one are refused above
        above = next((one for one in (node, *source.ancestors(node)) if isinstance(one, ast.stmt)), None)
        if not isinstance(above, (ast.Assign, ast.AnnAssign)) or name not in targets_of(above):
            return None
        found.append(above)
    return list(dict.fromkeys(found))


def _is_own(source: Source, function: ast.AST, name: str) -> bool:
    """Whether no other function gives the variable a value."""
    return name not in source.syntax.declared and (isinstance(function, ast.Module) or binds(function, name))


def parameter(function: ast.FunctionDef | ast.AsyncFunctionDef, place: int | None, keyword: str | None) -> str:
    """Under which name a function gets an argument; empty when it does not say."""
    words = function.args
    if keyword is not None:
        known = {one.arg for one in (*words.posonlyargs, *words.args, *words.kwonlyargs)}
        return keyword if keyword in known else ""
    named = [one.arg for one in (*words.posonlyargs, *words.args)]
    named = named[1:] if named[:1] in (["self"], ["cls"]) else named
    return named[place] if place is not None and place < len(named) else ""


def draws(loop: ast.comprehension, name: str) -> bool:
    """Whether a comprehension's loop has a variable of this name."""
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(loop.target))


def is_parameter(function: ast.AST | None, name: str) -> bool:
    """Whether a function was given it by its caller."""
    if not isinstance(function, FUNCTIONS):
        return False
    words = function.args
    return any(one.arg == name for one in (*words.posonlyargs, *words.args, *words.kwonlyargs))


def is_global(function: ast.AST, root: ast.Name) -> bool:
    """Whether a function means a variable of its module."""
    return not binds(function, root.id)


def binds(function: ast.AST | None, name: str) -> bool:
    """Whether a function has a variable of its own of this name."""
    return function is not None and name in variables(function)
