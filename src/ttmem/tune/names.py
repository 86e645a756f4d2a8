# SPDX-License-Identifier: Apache-2.0
"""Names in the user's source: whose a variable is, where it gets another value, what a function calls an argument."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ttmem.tune.source import Source, targets_of

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
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


def bindings(node: ast.AST, expression: str) -> list[ast.AST]:
    """Where something inside a node gives an expression, or a name in it, another value or removes it."""
    wanted = ast.parse(expression, mode="eval").body
    roots = {one.id for one in ast.walk(wanted) if isinstance(one, ast.Name)}
    found: list[ast.AST] = []
    for one in _own_nodes(node):
        if isinstance(one, (ast.Name, ast.Attribute, ast.Subscript)) and not isinstance(one.ctx, ast.Load):
            if (isinstance(one, ast.Name) and one.id in roots) or same(one, wanted):
                found.append(one)
        elif _defined(one) in roots or (isinstance(one, (ast.Global, ast.Nonlocal)) and roots & set(one.names)):
            found.append(one)
    return found


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Without variables of functions and comprehensions inside; what they declare global or nonlocal is seen."""
    todo = [(node, False)]
    while todo:
        one, is_inside = todo.pop()
        if not is_inside or isinstance(one, (ast.Global, ast.Nonlocal)):
            yield one
        is_inside |= isinstance(one, FUNCTIONS) and one is not node
        own = {id(one.target)} if isinstance(one, ast.comprehension) else set[int]()
        todo += [(child, is_inside) for child in ast.iter_child_nodes(one) if id(child) not in own]


def _defined(node: ast.AST) -> str | None:
    """The name that a node binds without an expression of its own."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)):
        return node.name
    if isinstance(node, ast.alias):
        return (node.asname or node.name).partition(".")[0]
    if isinstance(node, (ast.MatchAs, ast.MatchStar)):
        return node.name
    return node.rest if isinstance(node, ast.MatchMapping) else None


def changes_items(region: Sequence[ast.AST], container: str) -> bool:
    """Whether something may put other items into a container, or in other places."""
    for node in (node for one in region for node in ast.walk(one)):
        if isinstance(node, ast.Attribute) and node.attr in _CHANGES and ast.unparse(node.value) == container:
            return True
        is_item = isinstance(node, ast.Subscript) and ast.unparse(node.value) == container
        if is_item and not isinstance(getattr(node, "ctx", None), ast.Load):
            return True
    return False


def reaching(source: Source, statement: ast.stmt, name: str) -> list[ast.stmt] | None:
    """The statements that may have given a variable the value that it has before a statement.

    None where the value may come from elsewhere: an argument, another function, a loop's own variable.
    """
    function, block = source.function_of(statement), source.block_of(statement)
    if function is None or block is None:
        return None
    nearest = None
    for index in range(block.place - 1, -1, -1):
        one = block.statements[index]
        if isinstance(one, (ast.Assign, ast.AnnAssign)) and name in targets_of(one):
            nearest = index
            break
    if nearest is None and (is_parameter(function, name) or not _is_own(source, function, name)):
        return None
    region = block.statements[nearest : block.place] if nearest is not None else [function]
    found: list[ast.stmt] = []
    for node in (node for one in region for node in bindings(one, name)):
        if source.function_of(node) is not function:
            continue  # a variable of another function: those that mean this one are refused above
        above = next((one for one in (node, *source.ancestors(node)) if isinstance(one, ast.stmt)), None)
        if not isinstance(above, (ast.Assign, ast.AnnAssign)) or name not in targets_of(above):
            return None
        found.append(above)
    return list(dict.fromkeys(found))


def _is_own(source: Source, function: ast.AST, name: str) -> bool:
    """Whether no other function gives the variable a value."""
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names:
            return False
    return isinstance(function, ast.Module) or binds(function, name)


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
