# SPDX-License-Identifier: Apache-2.0
"""Names in the user's source: scopes, bindings, parameters and reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ttmem.tuning.source import PythonSource
from ttmem.tuning.syntax import FUNCTIONS, LOOPS, StatementBlock, list_targets, list_variables

_CHANGES = (
    *("append", "appendleft", "insert", "extend", "pop", "popleft", "popitem"),
    *("remove", "clear", "sort", "reverse", "update", "setdefault", "rotate"),
)


def is_same_expression(node: ast.AST, wanted: ast.expr) -> bool:
    if isinstance(node, ast.Name) and isinstance(wanted, ast.Name):
        return node.id == wanted.id
    return ast.unparse(node) == ast.unparse(wanted)


def walk_statements(region: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for one in region:
        for node in ast.walk(one):
            if isinstance(node, ast.stmt):
                yield node


def find_bindings(
    source: PythonSource, expression: str, first: ast.AST, last: ast.AST | None = None, *, scope: ast.AST | None = None
) -> list[ast.AST]:
    """Find nodes between two others that rebind or delete an expression or a name in it.

    Own variables of nested functions (except ``scope``) and comprehensions do not count.
    """
    wanted = ast.parse(expression, mode="eval").body
    roots = {one.id for one in ast.walk(wanted) if isinstance(one, ast.Name)}
    last = first if last is None else last
    return [
        one
        for one in source.syntax.find_bindings(first, last, {*roots, ast.unparse(wanted)})
        if isinstance(one, (ast.Global, ast.Nonlocal)) or is_in_scope(source, one, first, last, scope=scope)
    ]


def is_in_scope(
    source: PythonSource, node: ast.AST, first: ast.AST, last: ast.AST | None = None, *, scope: ast.AST | None = None
) -> bool:
    """Return whether a node is between two others and not local to a nested function or comprehension."""
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


def has_item_changes(source: PythonSource, region: Sequence[ast.AST], container: str) -> bool:
    """Return whether the items of a container may change."""
    wanted = ast.parse(container, mode="eval").body
    for node in source.syntax.find_mentions(wanted, region[0], region[-1]) if region else ():
        item = source.parent(node)
        if ast.unparse(node) != container:
            continue
        if isinstance(item, ast.Attribute) and item.attr in _CHANGES:
            return True
        if isinstance(item, ast.Subscript) and item.value is node and not isinstance(item.ctx, ast.Load):
            return True
    return False


def find_reaching_assignments(source: PythonSource, statement: ast.stmt, name: str) -> list[ast.stmt] | None:
    """Find the assignments that may reach a statement.

    None if the value may come from elsewhere: an argument, another function, a loop variable.
    """
    function, block = source.find_function(statement), source.find_block(statement)
    if function is None or block is None:
        return None
    nearest = block.block.find_assignment_before(block.place, name)
    if nearest is None and (is_parameter(function, name) or not _is_own_variable(source, function, name)):
        return None
    if nearest is None:
        given = find_bindings(source, name, function, scope=function)
    else:
        given = find_bindings(source, name, block.statements[nearest], block.statements[block.place - 1])
    found: list[ast.stmt] = []
    for node in given:
        if source.find_function(node) is not function:
            continue  # a variable of another function
        above = next((one for one in (node, *source.ancestors(node)) if isinstance(one, ast.stmt)), None)
        if not isinstance(above, (ast.Assign, ast.AnnAssign)) or name not in list_targets(above):
            return None
        found.append(above)
    return list(dict.fromkeys(found))


def _is_own_variable(source: PythonSource, function: ast.AST, name: str) -> bool:
    """Return whether no other function assigns the variable."""
    return name not in source.syntax.declared and (isinstance(function, ast.Module) or has_variable(function, name))


def find_parameter(function: ast.FunctionDef | ast.AsyncFunctionDef, place: int | None, keyword: str | None) -> str:
    """Return the name of the parameter for an argument; empty if unknown."""
    words = function.args
    if keyword is not None:
        known = {one.arg for one in (*words.posonlyargs, *words.args, *words.kwonlyargs)}
        return keyword if keyword in known else ""
    named = [one.arg for one in (*words.posonlyargs, *words.args)]
    named = named[1:] if named[:1] in (["self"], ["cls"]) else named
    return named[place] if place is not None and place < len(named) else ""


def has_loop_variable(loop: ast.comprehension, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(loop.target))


def is_parameter(function: ast.AST | None, name: str) -> bool:
    if not isinstance(function, FUNCTIONS):
        return False
    words = function.args
    return any(one.arg == name for one in (*words.posonlyargs, *words.args, *words.kwonlyargs))


def is_global(function: ast.AST, root: ast.Name) -> bool:
    return not has_variable(function, root.id)


def has_variable(function: ast.AST | None, name: str) -> bool:
    return function is not None and name in list_variables(function)


_METADATA = ("shape", "dtype", "layout", "padded_shape", "logical_shape", "spec")
"""Attributes that a freed tensor still has."""
ADDS = ("append", "appendleft", "add", "insert", "extend", "setdefault", "put")
"""Methods that add to a container."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class NameReads:
    """Finds the reads of names in a file."""

    def __init__(self, source: PythonSource, *, overwrites: bool) -> None:
        """``overwrites``: a free of the tensor counts as a read."""
        self._source, self._overwrites = source, overwrites

    def find_reads(self, scope: ast.AST, name: str) -> Iterator[ast.expr]:
        """Yield reads of a name, except of attributes that need no memory.

        A read of the whole container, or of an unknown item, counts as a read of each item.
        """
        wanted = ast.parse(name, mode="eval").body
        return self._filter_reads(scope, name, wanted, self._source.syntax.find_mentions(wanted, scope))

    def _filter_reads(
        self, scope: ast.AST, name: str, wanted: ast.expr, mentions: Sequence[ast.expr]
    ) -> Iterator[ast.expr]:
        for node in mentions:
            if not self._is_loaded(node):
                continue
            is_match = type(node) is type(wanted) and is_same_expression(node, wanted)
            if not is_match and not (isinstance(wanted, ast.Subscript) and self._may_mean(node, wanted)):
                continue
            if self._is_another(node, scope, name):
                continue
            parent = self._source.parent(node)
            if isinstance(parent, ast.Attribute) and parent.attr in _METADATA:
                continue
            yield node

    def _is_loaded(self, node: ast.expr) -> bool:
        """Return whether a node is read; ``x += 1`` reads ``x``."""
        parent = self._source.parent(node)
        if isinstance(parent, ast.AugAssign) and parent.target is node:
            return True
        return isinstance(getattr(node, "ctx", None), ast.Load)

    def _may_mean(self, node: ast.expr, wanted: ast.Subscript) -> bool:
        """Return whether a container is used as a whole, or an item of it that may be the wanted one."""
        if type(node) is not type(wanted.value) or not is_same_expression(node, wanted.value):
            return False
        item = self._source.parent(node)
        if not isinstance(item, ast.Subscript) or item.value is not node:
            return True
        if not self._is_loaded(item) or is_same_expression(item, wanted):
            return False  # the item is found by its own name
        return not (isinstance(item.slice, ast.Constant) and isinstance(wanted.slice, ast.Constant))

    def _is_another(self, node: ast.AST, scope: ast.AST, name: str) -> bool:
        """Return whether a nested function or comprehension has its own variable of that name."""
        for above in self.list_enclosing(node, scope):
            if isinstance(above, FUNCTIONS) and has_variable(above, name):
                return True
            if isinstance(above, _COMPREHENSIONS) and any(has_loop_variable(one, name) for one in above.generators):
                return True
        return False

    def list_enclosing(self, node: ast.AST, function: ast.AST) -> Iterator[ast.AST]:
        for above in self._source.ancestors(node):
            if above is function:
                return
            yield above

    def find_later_read(self, made: ast.stmt, name: str, block: StatementBlock, end: int, *, is_alias: bool) -> int:
        """Return the line of a read that may follow the end of the region; 0 if there is none."""
        source, syntax = self._source, self._source.syntax
        function = source.find_function(made)
        assert function is not None
        wanted, last = ast.parse(name, mode="eval").body, block.statements[end]
        loops = [one for one in source.ancestors(made) if isinstance(one, LOOPS)]
        loops = loops[: next((n for n, one in enumerate(loops) if source.find_function(one) is not function), None)]
        until = block.find_rebinding(end, name)
        if until:
            mentions = syntax.find_mentions(wanted, block.statements[end + 1], block.statements[until])
        else:
            in_loops = syntax.find_mentions(wanted, loops[-1]) if loops else ()
            mentions = [*in_loops, *syntax.find_mentions_after(wanted, last, function)]
        for node in self._filter_reads(function, name, wanted, mentions):
            is_own = bool(loops) and not is_alias and syntax.is_inside(node, made)
            if not self.is_harmless(node) and (is_own or not syntax.is_inside(node, made, last)):
                return node.lineno
        return self.find_read_elsewhere(made, name, function)

    def is_harmless(self, node: ast.AST) -> bool:
        """Return whether a read is harmless: ``ttnn.deallocate(x)`` of a freed tensor, or ``kept.append(...)``."""
        parent = self._source.parent(node)
        if isinstance(parent, ast.Attribute) and parent.attr in ADDS:
            return True
        is_free = isinstance(parent, ast.Call) and ast.unparse(parent.func).endswith("deallocate")
        return is_free and not self._overwrites

    def find_read_elsewhere(self, made: ast.stmt, name: str, function: ast.AST) -> int:
        """Return the line of a read in another function, of a module variable or an attribute; 0 if there is none."""
        wanted = ast.parse(name, mode="eval").body
        while isinstance(wanted, ast.Subscript):
            wanted = wanted.value
        root = wanted
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        is_local = isinstance(function, FUNCTIONS) and not (isinstance(root, ast.Name) and is_global(function, root))
        if isinstance(wanted, ast.Name) and is_local:
            return 0
        asked = (ast.unparse(wanted), name if name.isidentifier() else "", function, self._overwrites)
        if asked not in self._source.read_elsewhere:
            self._source.read_elsewhere[asked] = self._search_elsewhere(name, wanted, root, function)
        return self._source.read_elsewhere[asked]

    def _search_elsewhere(self, name: str, wanted: ast.expr, root: ast.expr, function: ast.AST) -> int:
        for node in self._source.syntax.find_mentions(
            wanted if isinstance(wanted, ast.Attribute) else root, self._source.tree
        ):
            is_read = type(node) is (ast.Attribute if isinstance(wanted, ast.Attribute) else ast.Name)
            if not is_read or not isinstance(getattr(node, "ctx", None), ast.Load):
                continue
            home = self._source.find_function(node)
            is_match = home is function and ast.unparse(node) == ast.unparse(wanted)
            if is_match or self.is_harmless(node) or has_variable(home, name):
                continue
            parent = self._source.parent(node)
            if not (isinstance(parent, ast.Attribute) and parent.attr in _METADATA):
                return getattr(node, "lineno", 0)
        return 0
