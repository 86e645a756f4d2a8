# SPDX-License-Identifier: Apache-2.0
"""Where a source reads what a name means: in its function, after a statement, in other functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ttmem.tuning import names as known
from ttmem.tuning.source import Source
from ttmem.tuning.syntax import FUNCTIONS, LOOPS, Block

_METADATA = ("shape", "dtype", "layout", "padded_shape", "logical_shape", "spec")
"""Of a tensor whose memory is gone, these can still be asked."""
ADDS = ("append", "appendleft", "add", "insert", "extend", "setdefault", "put")
"""Methods that put something into a container."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Reads:
    """The reads of one file."""

    def __init__(self, source: Source, *, overwrites: bool) -> None:
        """``overwrites``: a free of the tensor is a read of it, too."""
        self._source, self._overwrites = source, overwrites

    def of(self, scope: ast.AST, name: str) -> Iterator[ast.expr]:
        """Where a name is read, but for what can be asked of a tensor without its memory.

        An item of a container is read with the whole of it, too, and where it is not clear which item is meant.
        """
        wanted = ast.parse(name, mode="eval").body
        return self._reading(scope, name, wanted, self._source.syntax.mentions(wanted, scope))

    def _reading(self, scope: ast.AST, name: str, wanted: ast.expr, mentions: Sequence[ast.expr]) -> Iterator[ast.expr]:
        for node in mentions:
            if not self._is_loaded(node):
                continue
            is_same = type(node) is type(wanted) and known.same(node, wanted)
            if not is_same and not (isinstance(wanted, ast.Subscript) and self._may_mean(node, wanted)):
                continue
            if self._is_another(node, scope, name):
                continue
            parent = self._source.parent(node)
            if isinstance(parent, ast.Attribute) and parent.attr in _METADATA:
                continue
            yield node

    def _is_loaded(self, node: ast.expr) -> bool:
        """``x += 1`` reads ``x``, too."""
        parent = self._source.parent(node)
        if isinstance(parent, ast.AugAssign) and parent.target is node:
            return True
        return isinstance(getattr(node, "ctx", None), ast.Load)

    def _may_mean(self, node: ast.expr, wanted: ast.Subscript) -> bool:
        """Whether a container is used as a whole, or an item of it that may be the wanted one."""
        if type(node) is not type(wanted.value) or not known.same(node, wanted.value):
            return False
        item = self._source.parent(node)
        if not isinstance(item, ast.Subscript) or item.value is not node:
            return True
        if not self._is_loaded(item) or known.same(item, wanted):
            return False  # the item itself is found by its own name
        return not (isinstance(item.slice, ast.Constant) and isinstance(wanted.slice, ast.Constant))

    def _is_another(self, node: ast.AST, scope: ast.AST, name: str) -> bool:
        """Whether a function or a comprehension in between has its own variable of that name."""
        for above in self.between(node, scope):
            if isinstance(above, FUNCTIONS) and known.binds(above, name):
                return True
            if isinstance(above, _COMPREHENSIONS) and any(known.draws(one, name) for one in above.generators):
                return True
        return False

    def between(self, node: ast.AST, function: ast.AST) -> Iterator[ast.AST]:
        for above in self._source.ancestors(node):
            if above is function:
                return
            yield above

    def later(self, made: ast.stmt, name: str, block: Block, end: int, *, is_alias: bool) -> int:
        """The line of a read that may come after the end of the region; 0 when there is none."""
        source, syntax = self._source, self._source.syntax
        function = source.function_of(made)
        assert function is not None
        wanted, last = ast.parse(name, mode="eval").body, block.statements[end]
        loops = [one for one in source.ancestors(made) if isinstance(one, LOOPS)]
        loops = loops[: next((n for n, one in enumerate(loops) if source.function_of(one) is not function), None)]
        until = block.rebound(end, name)
        if until:
            mentions = syntax.mentions(wanted, block.statements[end + 1], block.statements[until])
        else:
            in_loops = syntax.mentions(wanted, loops[-1]) if loops else ()
            mentions = [*in_loops, *syntax.mentions_after(wanted, last, function)]
        for node in self._reading(function, name, wanted, mentions):
            is_own = bool(loops) and not is_alias and syntax.is_inside(node, made)
            if not self.is_harmless(node) and (is_own or not syntax.is_inside(node, made, last)):
                return node.lineno
        return self.elsewhere(made, name, function)

    def is_harmless(self, node: ast.AST) -> bool:
        """``ttnn.deallocate(x)`` of what is freed already does nothing; nor does ``kept.append(...)`` read."""
        parent = self._source.parent(node)
        if isinstance(parent, ast.Attribute) and parent.attr in ADDS:
            return True
        is_free = isinstance(parent, ast.Call) and ast.unparse(parent.func).endswith("deallocate")
        return is_free and not self._overwrites

    def elsewhere(self, made: ast.stmt, name: str, function: ast.AST) -> int:
        """Names that other functions see: variables of the module, and attributes."""
        wanted = ast.parse(name, mode="eval").body
        while isinstance(wanted, ast.Subscript):
            wanted = wanted.value
        root = wanted
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        is_local = isinstance(function, FUNCTIONS) and not (
            isinstance(root, ast.Name) and known.is_global(function, root)
        )
        if isinstance(wanted, ast.Name) and is_local:
            return 0
        asked = (ast.unparse(wanted), name if name.isidentifier() else "", function, self._overwrites)
        if asked not in self._source.read_elsewhere:
            self._source.read_elsewhere[asked] = self._found_elsewhere(name, wanted, root, function)
        return self._source.read_elsewhere[asked]

    def _found_elsewhere(self, name: str, wanted: ast.expr, root: ast.expr, function: ast.AST) -> int:
        for node in self._source.syntax.mentions(
            wanted if isinstance(wanted, ast.Attribute) else root, self._source.tree
        ):
            is_read = type(node) is (ast.Attribute if isinstance(wanted, ast.Attribute) else ast.Name)
            if not is_read or not isinstance(getattr(node, "ctx", None), ast.Load):
                continue
            home = self._source.function_of(node)
            is_same = home is function and ast.unparse(node) == ast.unparse(wanted)
            if is_same or self.is_harmless(node) or known.binds(home, name):
                continue
            parent = self._source.parent(node)
            if not (isinstance(parent, ast.Attribute) and parent.attr in _METADATA):
                return getattr(node, "lineno", 0)
        return 0
