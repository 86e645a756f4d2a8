# SPDX-License-Identifier: Apache-2.0
"""Follow a tensor through the source: may it be freed or overwritten after a statement?

A captured run shows the reads of one run. A line in the source affects all runs, so every branch, every turn of a
loop, every alias and everything that keeps the tensor counts. If the source does not prove it, the answer is no.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple

from ttmem.tuning.names import (
    ADDS,
    NameReads,
    find_bindings,
    find_parameter,
    find_reaching_assignments,
    has_item_changes,
    has_variable,
    is_in_scope,
    is_parameter,
)
from ttmem.tuning.source import PythonSource
from ttmem.tuning.syntax import FUNCTIONS, BlockPosition, list_targets

_HARMLESS = ("print", "len", "repr", "str", "isinstance", "type", "id", "hasattr", "deallocate")
_KEEPS = ("list", "tuple", "dict", "set", "zip", "enumerate", "reversed", "sorted", "iter", "map", "filter")
_TARGETS = ("output_tensor", "optional_output_tensor", "out")
_AS_OBJECTS = ("__call__", "forward")
_DEEPEST = 4
_MOST_NAMES = 32
_LATER = (*FUNCTIONS, ast.GeneratorExp)
"""Nodes that run at another time than their line."""
_UNKNOWN_NAME = "?"
_ENDS_HERE = (
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.Expr,
    ast.FormattedValue,
    ast.Subscript,
    ast.If,
    ast.While,
    ast.Assert,
)
"""Nodes that read a tensor and keep nothing of it."""
_HANDS_BACK = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
KEPT = "something keeps it for later"
HANDED_ON = "the caller gets it"


class Objection(NamedTuple):
    """The reason why a tensor may not be freed or overwritten."""

    why: str
    is_read: bool = False
    """The source shows a read of it, or that another tensor would be freed; otherwise the source does not prove that
    nothing reads it."""


_AliasKey = tuple[PythonSource, frozenset[int], bool, ast.AST, str, bool]
_Aliases = tuple[list[str], str, frozenset[str]]
"""Aliases of a tensor, or why they are unknown; names of containers that hold it."""


class DataFlow:
    """The uses of a tensor between the statement that makes it and the one after which it is freed."""

    def __init__(
        self,
        source: PythonSource,
        others: Sequence[PythonSource],
        views: frozenset[int],
        *,
        overwrites: bool,
        known_aliases: dict[_AliasKey, _Aliases] | None = None,
    ) -> None:
        """``views``: lines whose operations returned a view; ``overwrites``: a free is a read, too.

        ``known_aliases``: results for other tensors of the same sources.
        """
        self._source, self._others = source, others
        self._views = views
        self._overwrites = overwrites
        self._known_aliases = {} if known_aliases is None else known_aliases
        self._reads = NameReads(source, overwrites=overwrites)
        self._containers = set[str]()
        """Names of containers that may hold the tensor: an item, or a sum with another, may be the tensor, too."""

    def find_objection(self, made: ast.stmt, expression: str, last: ast.stmt) -> Objection | None:
        """Return why it may not be freed; None if nothing reads the tensor any more."""
        block = self._source.find_block(made)
        if block is None:
            return Objection(KEPT)
        spot = self._source.find_block(last)
        if spot is None or spot.block is not block.block:
            return Objection(KEPT)
        end = spot.place
        if block.block.has_loop_exit(block.place, end):
            return Objection("a turn of the loop may end before it")
        if block.block.has_suspension(block.place, end):
            return Objection("other code runs in between (yield, await)")
        names, seen = [expression, *self._find_other_targets(made, expression)], set[str]()
        while names:
            if (name := names.pop()) == _UNKNOWN_NAME:
                return Objection(KEPT)
            if name in seen:
                continue
            seen.add(name)
            if len(seen) > _MOST_NAMES:
                return Objection(KEPT)
            found, why = self._find_aliases(made, name)
            if why:
                return Objection(why)
            if name != expression and is_parameter(self._source.find_function(made), name):
                return Objection(f"the caller may read `{name}`")
            if line := self._reads.find_later_read(made, name, block.block, end, is_alias=name != expression):
                return Objection(f"line {line} may read `{name}` after that", is_read=True)
            names += found
        return self._find_rebinding(block, end, expression)

    def _find_rebinding(self, made: BlockPosition, end: int, expression: str) -> Objection | None:
        """Return an objection if the name may refer to another tensor at the end of the region."""
        first, rest = made.statements[made.place], made.statements[made.place + 1 : end + 1]
        for node in find_bindings(self._source, expression, rest[0], rest[-1]) if rest else ():
            return Objection(f"`{expression}` is rebound on line {getattr(node, 'lineno', 0)}", is_read=True)
        if len(find_bindings(self._source, expression, first, scope=first)) > 1:
            return Objection(f"`{expression}` is rebound on line {first.lineno}", is_read=True)
        container = expression.rpartition("[")[0]
        if container and has_item_changes(self._source, rest, container):
            return Objection(f"the items of `{container}` change in between")
        return None

    def find_objection_to_reuse(self, statement: ast.stmt, expression: str) -> Objection | None:
        """Return why ``x = f(x)`` may not free the old ``x``: another name may refer to it."""
        function = self._source.find_function(statement)
        before = find_reaching_assignments(self._source, statement, expression)
        if function is None or not before:
            return Objection(f"`{expression}` may be a tensor of the caller there")
        names, seen = [other for one in before for other in self._find_other_targets(one, expression)], {expression}
        if _UNKNOWN_NAME in names:
            return Objection(KEPT)
        definitions = self._source.syntax.find_definitions(expression)
        if any(is_in_scope(self._source, one, function, scope=function) for one in definitions):
            return Objection(f"`{expression}` is also another thing")
        todo = [expression]
        while todo:
            found, why = self._find_aliases(statement, todo.pop())
            if why:
                return Objection(why)
            for other in (*found, *names):
                if other == expression:
                    return Objection(f"`{expression}` may be the same tensor afterwards")
                if other in seen:
                    continue
                seen.add(other)
                todo.append(other)
                lines = (
                    node.lineno for node in self._reads.find_reads(function, other) if not self._reads.is_harmless(node)
                )
                if line := next(lines, 0) or self._reads.find_read_elsewhere(statement, other, function):
                    return Objection(f"line {line} may read `{other}` after that", is_read=True)
                if is_parameter(function, other):
                    return Objection(f"the caller may read `{other}`")
            names = []
        return None

    def is_read_elsewhere(self, made: ast.stmt, name: str) -> bool:
        """Return whether other functions may read the name at the same time."""
        function = self._source.find_function(made)
        return function is None or bool(self._reads.find_read_elsewhere(made, name, function))

    # -- other names ------------------------------------------------------------------------------------------------

    def _find_other_targets(self, made: ast.stmt, expression: str) -> list[str]:
        """List other names for the same value: ``x = y = make()``, ``y = (x := make())``."""
        found = []
        if isinstance(made, ast.Assign) and len(made.targets) > 1:
            found = [ast.unparse(one) for one in made.targets if not isinstance(one, (ast.Tuple, ast.List))]
        for node in ast.walk(made):
            if isinstance(node, ast.NamedExpr) and node.target.id == expression:
                more, why = self._follow_read(node, 0)
                found += more if not why else [_UNKNOWN_NAME]
        return [name for name in found if name != expression]

    def _find_aliases(self, made: ast.stmt, name: str) -> tuple[list[str], str]:
        """Return the aliases of a tensor in its function, or why they are unknown."""
        function = self._source.find_function(made)
        assert function is not None
        asked = (self._source, self._views, self._overwrites, function, name, name in self._containers)
        known = self._known_aliases.get(asked)
        if known is None:
            before = set(self._containers)
            found, why = self._search_aliases(function, name)
            known = self._known_aliases[asked] = (found, why, frozenset(self._containers - before))
        self._containers |= known[2]
        return list(known[0]), known[1]

    def _search_aliases(self, function: ast.AST, name: str) -> tuple[list[str], str]:
        files = {self._source, *self._others}
        if any(file.reads_by_text or ("." in name and file.reads_attributes_by_text) for file in files):
            return [], "a file reads variables by their names as text"
        found: list[str] = []
        for node in self._reads.find_reads(function, name):
            if any(isinstance(above, _LATER) for above in self._reads.list_enclosing(node, function)):
                return [], f"a function defined here keeps `{name}`"
            more, why = self._follow_read(node, 0, may_hold=name in self._containers or ast.unparse(node) != name)
            if why:
                return [], why
            found += more
        return found, ""

    def _follow_read(self, node: ast.AST, depth: int, *, may_hold: bool = False) -> tuple[list[str], str]:
        """Follow a read of a tensor: return its new names, or why they are unknown.

        ``may_hold``: it may be a container of the tensor, so an item of it or a sum with another may be, too.
        """
        parent = self._source.parent(node)
        if isinstance(parent, ast.keyword):
            call = self._source.parent(parent)
            if not isinstance(call, ast.Call):
                return [], KEPT
            return (
                self._follow_read(call, 0)
                if parent.arg in _TARGETS
                else self._follow_argument(node, call, parent.arg, depth, may_hold)
            )
        if isinstance(parent, ast.Call):
            return ([], "") if parent.func is node else self._follow_argument(node, parent, None, depth, may_hold)
        if isinstance(parent, ast.Attribute):
            outer = self._source.parent(parent)
            if isinstance(outer, ast.Call) and outer.func is parent:
                return self._follow_read(outer, 0, may_hold=may_hold) if parent.attr not in ADDS else ([], "")
            return self._follow_read(parent, depth, may_hold=True) if may_hold else ([], "")
        if parent is None:
            return [], KEPT
        is_part = isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.ctx, ast.Load)
        if may_hold and (is_part or isinstance(parent, ast.BinOp)):
            return self._follow_read(parent, depth, may_hold=True)
        if isinstance(parent, ast.AugAssign):
            return ([], KEPT) if may_hold and parent.value is node else ([], "")
        if isinstance(parent, _ENDS_HERE):
            return [], ""
        if isinstance(parent, (ast.Assign, ast.AnnAssign)):
            return self._add_names(list_targets(parent), may_hold=may_hold), ""
        if isinstance(parent, (ast.For, ast.AsyncFor)):
            name = parent.target.id if isinstance(parent.target, ast.Name) else ""
            return (self._add_names((name,), may_hold=may_hold), "") if name else ([], KEPT)
        if isinstance(parent, ast.comprehension):
            return self._follow_comprehension(parent, depth)
        if isinstance(parent, (ast.List, ast.Tuple, ast.Set, ast.Starred, ast.IfExp, ast.BoolOp, ast.NamedExpr)):
            holds = may_hold or isinstance(parent, (ast.List, ast.Tuple, ast.Set))
            more, why = self._follow_read(parent, depth, may_hold=holds)
            named = (parent.target.id,) if isinstance(parent, ast.NamedExpr) else ()
            return [*self._add_names(named, may_hold=may_hold), *more], why
        if isinstance(parent, (ast.Return, ast.Yield, ast.YieldFrom)):
            return [], HANDED_ON
        return [], KEPT

    def _add_names(self, names: Sequence[str], *, may_hold: bool) -> list[str]:
        if may_hold:
            self._containers.update(names)
        return list(names)

    def _follow_comprehension(self, loop: ast.comprehension, depth: int) -> tuple[list[str], str]:
        """Follow each item of ``[f(x) for x in kept]``."""
        whole, target = self._source.parent(loop), loop.target
        if not isinstance(target, ast.Name) or whole is None or isinstance(whole, ast.GeneratorExp):
            return [], KEPT
        names: list[str] = []
        for node in ast.walk(whole):
            if isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load):
                is_item = self._source.parent(node) is whole
                more, why = self._follow_read(whole if is_item else node, depth, may_hold=is_item)
                if why:
                    return [], why
                names += more
        return names, ""

    def _follow_argument(
        self, node: ast.AST, call: ast.Call, keyword: str | None, depth: int, may_hold: bool
    ) -> tuple[list[str], str]:
        function = call.func
        word = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        root = function
        while isinstance(root, ast.Attribute):
            root = root.value
        top = root.id if isinstance(root, ast.Name) else ""
        if top and (top == self._source.ttnn or top in self._source.syntax.libraries):
            return self._follow_read(call, 0, may_hold=may_hold) if call.lineno in self._views else ([], "")
        if word in _HARMLESS:
            return [], ""
        if word in ADDS and isinstance(function, ast.Attribute):
            base = ast.unparse(function.value)
            is_plain = isinstance(function.value, (ast.Name, ast.Attribute))
            return (self._add_names((base,), may_hold=True), "") if is_plain else ([], KEPT)
        if word in _KEEPS and isinstance(function, ast.Name):
            return self._follow_read(call, depth, may_hold=True)
        place = call.args.index(node) if keyword is None and node in call.args else None
        return self._follow_call(call, word, place, keyword, depth, may_hold)

    def _follow_call(
        self, call: ast.Call, word: str, place: int | None, keyword: str | None, depth: int, may_hold: bool
    ) -> tuple[list[str], str]:
        """Follow the tensor into all functions of the program with this name."""
        unknown = f"{word or 'what is called'} may keep it"
        if depth >= _DEEPEST:
            return [], unknown
        found = [(file, one) for file in self._others for one in file.syntax.functions.get(word, [])]
        if not found:
            found = [
                (file, one)
                for file in self._others
                for name in _AS_OBJECTS
                for one in file.syntax.functions.get(name, [])
            ]
        found = [(file, one) for file, one in found if find_parameter(one, place, keyword)] if found else []
        if not found:
            return [], unknown
        hands_on = False
        for file, one in found:
            name = find_parameter(one, place, keyword)
            flow = DataFlow(file, self._others, self._views, overwrites=self._overwrites)
            if any(isinstance(node, _HANDS_BACK) for node in ast.walk(one)):
                return [], f"{one.name} may keep it"
            does, why = flow.follow_parameter(one, name, depth + 1, may_hold=may_hold)
            if why:
                return [], why
            hands_on |= does
        return self._follow_read(call, depth, may_hold=True) if hands_on else ([], "")

    def follow_parameter(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, depth: int, *, may_hold: bool
    ) -> tuple[bool, str]:
        """Return whether a function returns a parameter, and why it may keep it."""
        names, seen, hands_on = self._add_names((name,), may_hold=may_hold), set[str](), False
        while names:
            one = names.pop()
            if one in seen:
                continue
            seen.add(one)
            is_own = one == name or (has_variable(function, one) and not is_parameter(function, one))
            if not is_own or len(seen) > _MOST_NAMES:
                return False, f"{function.name} may keep it"
            for node in self._reads.find_reads(function, one):
                if any(isinstance(above, _LATER) for above in self._reads.list_enclosing(node, function)):
                    return False, f"a function inside {function.name} keeps it"
                more, why = self._follow_read(node, depth, may_hold=one in self._containers)
                if why == HANDED_ON:
                    hands_on = True
                elif why:
                    return False, why
                names += more
        return hands_on, ""
