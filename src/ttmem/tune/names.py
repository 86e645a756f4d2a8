# SPDX-License-Identifier: Apache-2.0
"""Names in the user's source: whose a variable is, where it gets another value, what a function calls an argument."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ttmem.tune.source import Source, targets_of

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


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


def leaves_loop(region: Sequence[ast.stmt]) -> bool:
    """Whether a ``break`` or ``continue`` of a loop around them stands among the statements."""
    todo: list[ast.AST] = list(region)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Break, ast.Continue)):
            return True
        if isinstance(node, LOOPS):
            todo += node.orelse
        elif not isinstance(node, FUNCTIONS):
            todo += ast.iter_child_nodes(node)
    return False


def rebound(statements: Sequence[ast.stmt], end: int, name: str) -> int:
    """The statement behind the region that gives the name another value whatever happens; 0 when there is none."""
    for index in range(end + 1, len(statements)):
        one = statements[index]
        if isinstance(one, (ast.Assign, ast.AnnAssign, ast.Delete)) and name in targets_of(one):
            return index
        if any(isinstance(node, (ast.Break, ast.Continue, ast.Return)) for node in ast.walk(one)):
            return 0
    return 0


def functions(source: Source, name: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All of this name, methods too."""
    return [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name
    ]


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
    if not isinstance(function, FUNCTIONS) or not name.isidentifier():
        return False
    arguments = function.args
    each = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    if any(one is not None and one.arg == name for one in each):
        return True
    if any(isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names for node in ast.walk(function)):
        return False
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in ast.walk(function)
    )
