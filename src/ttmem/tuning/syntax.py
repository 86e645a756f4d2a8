# SPDX-License-Identifier: Apache-2.0
"""Indexes of a syntax tree: nesting, mentions and bindings of names.

Each query is made once per tensor, so none may walk the file: a generated program names thousands.
"""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import NamedTuple, TypeVar

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
_BLOCKS = ("body", "orelse", "finalbody")
_LEAVES = (ast.Break, ast.Continue, ast.Return)
_HANDS_BACK = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)


_Node = TypeVar("_Node", bound=ast.AST)


def last_word(node: ast.AST) -> str | None:
    """Return the last name of an expression: ``x`` for ``x``, ``x[0]`` and ``self.x``; None if it has none."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def _find_container(node: ast.AST) -> ast.expr | None:
    """Return the container of an item with a constant index: ``k`` of ``k['a']``."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.value if isinstance(node.value, (ast.Name, ast.Attribute)) else None
    return None


class StatementBlock:
    """A block: statements that run in sequence."""

    def __init__(self, statements: list[ast.stmt]) -> None:
        self.statements = statements

    @cached_property
    def _leaving(self) -> list[int]:
        """Positions of statements that may leave a loop or the function."""
        return [n for n, one in enumerate(self.statements) if any(isinstance(node, _LEAVES) for node in ast.walk(one))]

    @cached_property
    def _assigning(self) -> dict[str, list[int]]:
        """Name -> positions of statements that always rebind or delete it."""
        found: dict[str, list[int]] = {}
        for place, one in enumerate(self.statements):
            for name in list_targets(one) if isinstance(one, (ast.Assign, ast.AnnAssign, ast.Delete)) else ():
                found.setdefault(name, []).append(place)
        return found

    @cached_property
    def _loop_leavers(self) -> list[int]:
        """Number of statements before a position that may leave a loop around the block."""
        return list(accumulate(map(_leaves_loop, self.statements), initial=0))

    @cached_property
    def _handing_back(self) -> list[int]:
        """Number of statements before a position that let other code run."""
        each = (any(isinstance(node, _HANDS_BACK) for node in ast.walk(one)) for one in self.statements)
        return list(accumulate(each, initial=0))

    def find_rebinding(self, end: int, name: str) -> int:
        """Return the position of the next statement that always rebinds the name; 0 if there is none."""
        places = self._assigning.get(name, [])
        behind = bisect_right(places, end)
        if behind == len(places):
            return 0
        leaver = bisect_right(self._leaving, end)
        leaves_first = leaver < len(self._leaving) and self._leaving[leaver] < places[behind]
        return 0 if leaves_first else places[behind]

    def find_assignment_before(self, place: int, name: str) -> int | None:
        """Return the position of the nearest plain assignment before a statement."""
        places = self._assigning.get(name, [])
        for nearest in reversed(places[: bisect_right(places, place - 1)]):
            if not isinstance(self.statements[nearest], ast.Delete):
                return nearest
        return None

    def has_loop_exit(self, first: int, last: int) -> bool:
        """Return whether these statements have a ``break`` or ``continue`` of a loop around them."""
        return bool(self._loop_leavers[last + 1] - self._loop_leavers[first])

    def has_suspension(self, first: int, last: int) -> bool:
        """Return whether other code may run between these statements (``yield``, ``await``)."""
        return bool(self._handing_back[last + 1] - self._handing_back[first])


class BlockPosition(NamedTuple):
    """A position in a block."""

    block: StatementBlock
    place: int

    @property
    def statements(self) -> list[ast.stmt]:
        return self.block.statements


class Syntax:
    """Indexes of one file."""

    def __init__(self, tree: ast.Module) -> None:
        self._enter: dict[ast.AST, int] = {}
        self._leave: dict[ast.AST, int] = {}
        self._spots: dict[ast.stmt, BlockPosition] = {}
        """Positions of statements."""
        self._mentions: dict[str | None, list[ast.expr]] = {}
        self._items: dict[str, list[ast.expr]] = {}
        """Items with a constant index by their text: ``k['a']``."""
        self._others: dict[str | None, list[ast.expr]] = {}
        """Mentions of each name that are neither such items nor their containers."""
        self._has_clear_item: set[ast.AST] = set()
        self._bound: dict[str, list[ast.AST]] = {}
        self.functions: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        """Functions and methods by name."""
        self.declared: set[str] = set()
        """Names in ``global`` and ``nonlocal``."""
        self.libraries: set[str] = set()
        """Modules that are imported by name."""
        self._number(tree)
        for node in sorted(self._enter, key=self._enter.__getitem__):
            self._add(node)

    def _number(self, tree: ast.AST) -> None:
        count = 0
        todo: list[tuple[ast.AST, bool]] = [(tree, False)]
        while todo:
            node, is_done = todo.pop()
            if is_done:
                self._leave[node] = count
                continue
            count += 1
            self._enter[node] = count
            todo.append((node, True))
            todo += [(child, False) for child in reversed(list(ast.iter_child_nodes(node)))]

    def _add(self, node: ast.AST) -> None:
        for name in _BLOCKS:
            each = getattr(node, name, None)
            if isinstance(each, list):
                block = StatementBlock(each)
                self._spots.update((one, BlockPosition(block, place)) for place, one in enumerate(each))
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            word = last_word(node)
            self._mentions.setdefault(word, []).append(node)
            self._add_mention(node, word)
            if not isinstance(node.ctx, ast.Load):
                self._bound.setdefault(ast.unparse(node), []).append(node)
        elif isinstance(node, ast.expr):
            self._mentions.setdefault(None, []).append(node)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.declared |= set(node.names)
            for name in node.names:
                self._bound.setdefault(name, []).append(node)
        elif (defined := _find_defined_name(node)) is not None:
            self._bound.setdefault(defined, []).append(node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.functions.setdefault(node.name, []).append(node)
        if isinstance(node, ast.Import):
            self.libraries |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}

    def _add_mention(self, node: ast.Name | ast.Attribute | ast.Subscript, word: str | None) -> None:
        """Add a mention; parents are added before their children."""
        if (container := _find_container(node)) is not None:
            self._items.setdefault(ast.unparse(node), []).append(node)
            self._has_clear_item.add(container)
        elif node not in self._has_clear_item:
            self._others.setdefault(word, []).append(node)

    def find_position(self, statement: ast.AST) -> BlockPosition | None:
        return self._spots.get(statement) if isinstance(statement, ast.stmt) else None

    def is_inside(self, node: ast.AST, first: ast.AST, last: ast.AST | None = None) -> bool:
        """Return whether a node is in another one, or in those from ``first`` to ``last`` of a block."""
        return self._enter[first] <= self._enter[node] <= self._leave[first if last is None else last]

    def find_mentions(self, wanted: ast.expr, first: ast.AST, last: ast.AST | None = None) -> Sequence[ast.expr]:
        """Return expressions between two nodes that may be the wanted one, or its container.

        In the order of the source.
        """
        return self._find_mentions(wanted, self._enter[first], first if last is None else last)

    def find_mentions_after(self, wanted: ast.expr, node: ast.AST, scope: ast.AST) -> Sequence[ast.expr]:
        """Return the same from after a node to the end of its scope."""
        return self._find_mentions(wanted, self._leave[node] + 1, scope)

    def _find_mentions(self, wanted: ast.expr, start: int, last: ast.AST) -> Sequence[ast.expr]:
        word = last_word(wanted)
        if _find_container(wanted) is None:
            return self._slice(self._mentions.get(word, []), start, last)
        found = self._slice(self._items.get(ast.unparse(wanted), []), start, last)
        found += self._slice(self._others.get(word, []), start, last)
        return sorted(found, key=self._enter.__getitem__)

    def find_bindings(self, first: ast.AST, last: ast.AST, words: set[str]) -> list[ast.AST]:
        """Return nodes that rebind one of these names or items, between two nodes, in order."""
        start = self._enter[first]
        found = {node for word in words for node in self._slice(self._bound.get(word, []), start, last)}
        return sorted(found, key=self._enter.__getitem__)

    def find_definitions(self, name: str) -> list[ast.AST]:
        return [one for one in self._bound.get(name, []) if isinstance(one, (ast.FunctionDef, ast.ClassDef, ast.alias))]

    def _slice(self, nodes: list[_Node], start: int, last: ast.AST) -> list[_Node]:
        begin = bisect_left(nodes, start, key=self._enter.__getitem__)
        return nodes[begin : bisect_right(nodes, self._leave[last], begin, key=self._enter.__getitem__)]


@lru_cache(maxsize=4096)
def list_variables(function: ast.AST) -> frozenset[str]:
    """Return the local variables of a function, including parameters."""
    if not isinstance(function, FUNCTIONS):
        return frozenset()
    arguments = function.args
    each = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    parameters = {one.arg for one in each if one is not None}
    stored, declared = set[str](), set[str]()
    for node in ast.walk(function):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            declared |= set(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored.add(node.id)
    return frozenset(parameters | (stored - declared))


def list_targets(statement: ast.stmt) -> tuple[str, ...]:
    """Return the targets of a statement as text."""
    if isinstance(statement, ast.Assign):
        targets: Sequence[ast.expr] = statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
        targets = [statement.target]
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        targets = [item.optional_vars for item in statement.items if item.optional_vars is not None]
    elif isinstance(statement, ast.Delete):
        targets = statement.targets
    else:
        return ()
    each = [part for one in targets for part in (one.elts if isinstance(one, (ast.Tuple, ast.List)) else [one])]
    return tuple(map(ast.unparse, each))


def _leaves_loop(statement: ast.stmt) -> bool:
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Break, ast.Continue)):
            return True
        if isinstance(node, LOOPS):
            todo += node.orelse
        elif not isinstance(node, FUNCTIONS):
            todo += ast.iter_child_nodes(node)
    return False


def _find_defined_name(node: ast.AST) -> str | None:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)):
        return node.name
    if isinstance(node, ast.alias):
        return (node.asname or node.name).partition(".")[0]
    if isinstance(node, (ast.MatchAs, ast.MatchStar)):
        return node.name
    return node.rest if isinstance(node, ast.MatchMapping) else None
