# SPDX-License-Identifier: Apache-2.0
"""Whether a tensor may be freed, or written over, behind a statement: does any path of the source still read it?

A captured run tells what one run read. A line in the source is there for all runs, so every branch, every turn of a
loop, every other name and everything that keeps the tensor counts. Where that cannot be told, it may not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ttmem.tune import names as known
from ttmem.tune.names import FUNCTIONS, LOOPS
from ttmem.tune.source import Source, targets_of

_METADATA = ("shape", "dtype", "layout", "padded_shape", "logical_shape", "spec")
"""Of a tensor whose memory is gone, these can still be asked."""
_ADDS = ("append", "appendleft", "add", "insert", "extend", "setdefault", "put")
_HARMLESS = ("print", "len", "repr", "str", "isinstance", "type", "id", "hasattr", "deallocate")
_KEEPS = ("list", "tuple", "dict", "set", "zip", "enumerate", "reversed", "sorted", "iter", "map", "filter")
_TARGETS = ("output_tensor", "optional_output_tensor", "out")
_AS_OBJECTS = ("__call__", "forward")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DEEPEST = 4
_MOST_NAMES = 32
KEPT = "it is kept for later"


class Flow:
    """What happens to one tensor between the statement that makes it and the one behind which it shall go."""

    def __init__(self, source: Source, others: Sequence[Source], views: frozenset[int], *, overwrites: bool) -> None:
        """``views``: lines whose operations gave a buffer another name; ``overwrites``: a free of it harms too."""
        self._source, self._others = source, others
        self._views = views
        self._overwrites = overwrites

    def objection(self, made: ast.stmt, expression: str, last: ast.stmt) -> str:
        """Why it may not be; empty when nothing reads the tensor any more."""
        block = self._source.block_of(made)
        if block is None:
            return KEPT
        end = block.statements.index(last)
        region = block.statements[block.place : end + 1]
        if known.leaves_loop(region):
            return "a turn of the loop may leave before"
        names, seen = [expression], set[str]()
        while names:
            name = names.pop()
            if name in seen:
                continue
            seen.add(name)
            if len(seen) > _MOST_NAMES:
                return KEPT
            found, why = self._aliases(made, name)
            if why:
                return why
            if name != expression and known.is_parameter(self._source.function_of(made), name):
                return f"the caller may read {name}"
            if line := self._read_later(made, name, block.statements, end, is_alias=name != expression):
                return f"line {line} may read {name} after that"
            names += found
        if any(expression in targets_of(one) for one in known.statements(region[1:])):
            return f"{expression} gets another value before"
        return ""

    def objection_to_reuse(self, made: ast.stmt, expression: str) -> str:
        """Why ``x = f(x)`` may not write over ``x``: its name means the new value, but others may mean the old one."""
        function = self._source.function_of(made)
        assert function is not None
        names, seen = [expression], {expression}
        while names:
            found, why = self._aliases(made, names.pop())
            if why:
                return why
            for name in found:
                if name in seen:
                    continue
                seen.add(name)
                names.append(name)
                line = next((node.lineno for node in self._reads(function, name) if not self._is_harmless(node)), 0)
                if line or known.is_parameter(function, name) or self._read_elsewhere(made, name, function):
                    return f"{name} may be read for what it was"
        return ""

    def is_read_elsewhere(self, made: ast.stmt, name: str) -> bool:
        """Whether other functions see the name, too: what they do meanwhile is not told by the lines in between."""
        function = self._source.function_of(made)
        return function is None or bool(self._read_elsewhere(made, name, function))

    # -- other names ------------------------------------------------------------------------------------------------

    def _aliases(self, made: ast.stmt, name: str) -> tuple[list[str], str]:
        """Other names that the same tensor gets in its function, or why nobody can tell."""
        function = self._source.function_of(made)
        assert function is not None
        found: list[str] = []
        for node in self._reads(function, name):
            if any(isinstance(above, FUNCTIONS) for above in self._between(node, function)):
                return [], f"a function defined here keeps {name}"
            more, why = self._context(node, 0)
            if why:
                return [], why
            found += more
        return found, ""

    def _context(self, node: ast.AST, depth: int) -> tuple[list[str], str]:
        """What a read of a tensor does with it: other names for it, or why it cannot be told."""
        parent = self._source.parent(node)
        if isinstance(parent, ast.keyword):
            call = self._source.parent(parent)
            if isinstance(call, ast.Call) and parent.arg in _TARGETS:
                return self._named(call)
            return self._argument(node, call, parent.arg, depth) if isinstance(call, ast.Call) else ([], KEPT)
        if isinstance(parent, ast.Call):
            return ([], "") if parent.func is node else self._argument(node, parent, None, depth)
        if isinstance(parent, ast.Attribute):
            outer = self._source.parent(parent)
            is_method = isinstance(outer, ast.Call) and outer.func is parent
            return self._named(outer) if is_method and parent.attr not in _ADDS else ([], "")
        if isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Expr, ast.FormattedValue, ast.Subscript)):
            return [], ""
        if isinstance(parent, (ast.If, ast.While, ast.Assert)):
            return [], ""
        if isinstance(parent, (ast.Assign, ast.AnnAssign)):
            return list(targets_of(parent)), ""
        if isinstance(parent, (ast.For, ast.AsyncFor)):
            return ([parent.target.id], "") if isinstance(parent.target, ast.Name) else ([], KEPT)
        if isinstance(parent, ast.comprehension):
            return self._drawn(parent, depth)
        if isinstance(parent, (ast.List, ast.Tuple, ast.Set, ast.Starred, ast.IfExp, ast.BoolOp, ast.NamedExpr)):
            more, why = self._context(parent, depth)
            named = [parent.target.id] if isinstance(parent, ast.NamedExpr) else []
            return [*named, *more], why
        if isinstance(parent, (ast.Return, ast.Yield, ast.YieldFrom)):
            return [], "it is handed on to the caller"
        return [], KEPT

    def _drawn(self, loop: ast.comprehension, depth: int) -> tuple[list[str], str]:
        """``[f(x) for x in kept]``: what happens to each item inside."""
        whole, target = self._source.parent(loop), loop.target
        if not isinstance(target, ast.Name) or whole is None:
            return [], KEPT
        names: list[str] = []
        for node in ast.walk(whole):
            if isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load):
                is_item = self._source.parent(node) is whole
                more, why = self._context(whole if is_item else node, depth)
                if why:
                    return [], why
                names += more
        return names, ""

    def _named(self, call: ast.AST | None) -> tuple[list[str], str]:
        """The result of a call is, or may be, the same tensor."""
        return self._context(call, 0) if isinstance(call, ast.Call) else ([], KEPT)

    def _argument(self, node: ast.AST, call: ast.Call, keyword: str | None, depth: int) -> tuple[list[str], str]:
        function = call.func
        word = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        root = function
        while isinstance(root, ast.Attribute):
            root = root.value
        top = root.id if isinstance(root, ast.Name) else ""
        if top and (top == self._source.ttnn or top in self._libraries()):
            return self._named(call) if call.lineno in self._views else ([], "")
        if word in _HARMLESS:
            return [], ""
        if word in _ADDS and isinstance(function, ast.Attribute):
            base = ast.unparse(function.value)
            return ([base], "") if isinstance(function.value, (ast.Name, ast.Attribute)) else ([], KEPT)
        if word in _KEEPS and isinstance(function, ast.Name):
            return self._context(call, depth)
        place = call.args.index(node) if keyword is None and node in call.args else None
        return self._passed(call, word, place, keyword, depth)

    def _libraries(self) -> frozenset[str]:
        """Modules that the file imports whole and that are no file of the program: they keep nothing."""
        names = set()
        for node in ast.walk(self._source.tree):
            if isinstance(node, ast.Import):
                names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        return frozenset(names)

    def _passed(
        self, call: ast.Call, word: str, place: int | None, keyword: str | None, depth: int
    ) -> tuple[list[str], str]:
        """A function of the program gets it: all that have this name are asked what they do with it."""
        unknown = f"{word or 'what is called'} may keep it"
        if depth >= _DEEPEST:
            return [], unknown
        found = [(file, one) for file in self._others for one in known.functions(file, word)]
        if not found:
            found = [
                (file, one) for file in self._others for name in _AS_OBJECTS for one in known.functions(file, name)
            ]
        found = [(file, one) for file, one in found if known.parameter(one, place, keyword)] if found else []
        if not found:
            return [], unknown
        hands_on = False
        for file, one in found:
            name = known.parameter(one, place, keyword)
            flow = Flow(file, self._others, self._views, overwrites=self._overwrites)
            does, why = flow.keeps(one, name, depth + 1)
            if why:
                return [], why
            hands_on |= does
        return self._context(call, depth) if hands_on else ([], "")

    def keeps(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, depth: int) -> tuple[bool, str]:
        """Whether a function gives a parameter back as it is, and why it may keep it."""
        names, seen, hands_on = [name], set[str](), False
        while names:
            one = names.pop()
            if one in seen:
                continue
            seen.add(one)
            is_own = one == name or (known.binds(function, one) and not known.is_parameter(function, one))
            if not is_own or len(seen) > _MOST_NAMES:
                return False, f"{function.name} may keep it"
            for node in self._reads(function, one):
                if any(isinstance(above, FUNCTIONS) for above in self._between(node, function)):
                    return False, f"a function inside {function.name} keeps it"
                more, why = self._context(node, depth)
                if why == "it is handed on to the caller":
                    hands_on = True
                elif why:
                    return False, why
                names += more
        return hands_on, ""

    # -- reads ------------------------------------------------------------------------------------------------------

    def _reads(self, scope: ast.AST, name: str) -> Iterator[ast.expr]:
        """Where a name is read, but for what can be asked of a tensor without its memory."""
        wanted = ast.parse(name, mode="eval").body
        for node in ast.walk(scope):
            if (
                not isinstance(node, ast.expr)
                or type(node) is not type(wanted)
                or not isinstance(getattr(node, "ctx", None), ast.Load)
            ):
                continue
            if not known.same(node, wanted) or self._is_another(node, scope, name):
                continue
            parent = self._source.parent(node)
            if isinstance(parent, ast.Attribute) and parent.attr in _METADATA:
                continue
            yield node

    def _is_another(self, node: ast.AST, scope: ast.AST, name: str) -> bool:
        """Whether a function or a comprehension in between has its own variable of that name."""
        for above in self._between(node, scope):
            if isinstance(above, FUNCTIONS) and known.binds(above, name):
                return True
            if isinstance(above, _COMPREHENSIONS) and any(known.draws(one, name) for one in above.generators):
                return True
        return False

    def _between(self, node: ast.AST, function: ast.AST) -> Iterator[ast.AST]:
        for above in self._source.ancestors(node):
            if above is function:
                return
            yield above

    def _read_later(
        self, made: ast.stmt, name: str, statements: Sequence[ast.stmt], end: int, *, is_alias: bool
    ) -> int:
        """The line of a read that may come after the end of the region; 0 when there is none."""
        source = self._source
        function = source.function_of(made)
        assert function is not None
        region = {id(node) for one in statements[statements.index(made) : end + 1] for node in ast.walk(one)}
        loops = [one for one in source.ancestors(made) if isinstance(one, LOOPS)]
        loops = loops[: next((n for n, one in enumerate(loops) if source.function_of(one) is not function), None)]
        in_loop = {id(node) for one in loops for node in ast.walk(one)}
        until = known.rebound(statements, end, name)
        near = {id(node) for one in statements[end + 1 : until + 1] for node in ast.walk(one)} if until else set[int]()
        own = {id(node) for node in ast.walk(made)} if loops and not is_alias else set[int]()
        last = statements[end]
        behind = (last.end_lineno or last.lineno, last.end_col_offset or 0)
        for node in self._reads(function, name):
            if self._is_harmless(node) or (id(node) in region and id(node) not in own):
                continue
            place = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
            if until:
                if id(node) in near:
                    return place[0]
            elif place >= behind or id(node) in in_loop:
                return place[0]
        return self._read_elsewhere(made, name, function)

    def _is_harmless(self, node: ast.AST) -> bool:
        """``ttnn.deallocate(x)`` of what is freed already does nothing; nor does ``kept.append(...)`` read."""
        parent = self._source.parent(node)
        if isinstance(parent, ast.Attribute) and parent.attr in _ADDS:
            return True
        is_free = isinstance(parent, ast.Call) and ast.unparse(parent.func).endswith("deallocate")
        return is_free and not self._overwrites

    def _read_elsewhere(self, made: ast.stmt, name: str, function: ast.AST) -> int:
        """Names that other functions see: variables of the module, and attributes."""
        wanted = ast.parse(name, mode="eval").body
        root = wanted
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        is_local = isinstance(function, FUNCTIONS) and not (
            isinstance(root, ast.Name) and known.is_global(function, root)
        )
        if isinstance(wanted, ast.Name) and is_local:
            return 0
        if isinstance(wanted, ast.Subscript) and is_local:
            return 0
        for node in ast.walk(self._source.tree):
            if isinstance(wanted, ast.Attribute):
                is_read = isinstance(node, ast.Attribute) and node.attr == wanted.attr
            else:
                is_read = isinstance(node, ast.Name) and isinstance(root, ast.Name) and node.id == root.id
            if not is_read or not isinstance(getattr(node, "ctx", None), ast.Load):
                continue
            home = self._source.function_of(node)
            if home is function or self._is_harmless(node) or known.binds(home, name):
                continue
            parent = self._source.parent(node)
            if not (isinstance(parent, ast.Attribute) and parent.attr in _METADATA):
                return getattr(node, "lineno", 0)
        return 0
