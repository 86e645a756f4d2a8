# SPDX-License-Identifier: Apache-2.0
"""The user's source, read for one purpose: behind which statement can a tensor be freed, and under which name?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)
_ENDING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_MOST_BYTES = 4_000_000


class Place(NamedTuple):
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        """``model.py:41``."""
        return f"{self.file}:{self.line}" if self.file else ""


@lru_cache(maxsize=4096)
def place_of(step: str) -> Place:
    """Of ``file:line``."""
    file, _, line = step.rpartition(":")
    return Place(file, int(line)) if file and line.isdigit() else Place("", 0)


class Source:
    """One parsed file."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines(keepends=True)
        self.tree = ast.parse(text)
        self._parents: dict[ast.AST, ast.AST] = {}
        self._statements: list[ast.stmt] = []
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node
            if isinstance(node, ast.stmt):
                self._statements.append(node)

    def statement_at(self, line: int) -> ast.stmt | None:
        """The innermost statement that spans a line; None where two share it (``a = f(); b = g()``)."""
        here = [node for node in self._statements if node.lineno <= line <= (node.end_lineno or node.lineno)]
        if not here:
            return None
        smallest = min((node.end_lineno or node.lineno) - node.lineno for node in here)
        found = [node for node in here if (node.end_lineno or node.lineno) - node.lineno == smallest]
        inner = [node for node in found if not any(self._parents.get(other) is node for other in found)]
        return inner[0] if len(inner) == 1 else None

    def function_of(self, node: ast.AST) -> ast.AST | None:
        """The function (or module) that a statement belongs to."""
        above: ast.AST | None = self._parents.get(node)
        while above is not None and not isinstance(above, _FUNCTIONS):
            above = self._parents.get(above)
        return above

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The node's parents, the nearest first."""
        above = self._parents.get(node)
        while above is not None:
            yield above
            above = self._parents.get(above)

    def calls_in(self, statement: ast.stmt, name: str) -> list[ast.Call]:
        """Calls of an operation (``ttnn.from_torch``: by its last word) inside a statement."""
        word = name.rpartition(".")[2]
        return [
            node
            for node in ast.walk(statement)
            if isinstance(node, ast.Call)
            and (
                (isinstance(node.func, ast.Attribute) and node.func.attr == word)
                or (isinstance(node.func, ast.Name) and node.func.id == word)
            )
        ]

    def behind(self, made: ast.stmt, used: ast.stmt) -> ast.stmt | None:
        """The statement after which what ``made`` defines is not needed, when ``used`` is the last that reads it.

        A use inside a loop or a branch that the definition stands outside of frees behind the whole of it. None where
        nothing can stand behind (``return``), or the use comes around a loop to before the definition.
        """
        above = {made, *self.ancestors(made)}
        statement: ast.AST = used
        while (parent := self._parents.get(statement)) is not None and parent not in above:
            statement = parent
        if not isinstance(statement, ast.stmt) or isinstance(statement, _ENDING) or parent is None:
            return None
        if isinstance(statement, ast.ClassDef) or statement.lineno < made.lineno:
            return None
        return statement

    def rebinds(self, name: str, first_line: int, last_line: int, made: ast.stmt) -> bool:
        """Whether a name gets another value on these lines, other than where it is made."""
        function = self.function_of(made)
        for node in self._statements:
            if node is made or not first_line <= node.lineno <= last_line or self.function_of(node) is not function:
                continue
            if name in targets_of(node):
                return True
        return False


def targets_of(statement: ast.stmt) -> tuple[str, ...]:
    """The names that a statement gives values to, as one writes them."""
    if isinstance(statement, ast.Assign):
        targets: list[ast.expr] = statement.targets
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


def source_of(file: str) -> Source | None:
    """None when the file is gone, is not Python, or may not be read."""
    try:
        path = Path(file).resolve()
        found = path.stat()
        return _parsed(path, found.st_mtime_ns, found.st_size) if file and path.is_file() else None
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=256)
def _parsed(path: Path, _: int, size: int) -> Source | None:
    """Read once as long as it stays the same file."""
    if size > _MOST_BYTES:
        return None
    try:
        return Source(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None
