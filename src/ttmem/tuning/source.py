# SPDX-License-Identifier: Apache-2.0
"""The user's source: statements, blocks and calls at the places of a call path."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from ttmem.engines.worker.call_sites import Span, map_expressions
from ttmem.tuning.syntax import BlockPosition, Syntax

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)
_ENDING = (ast.Raise, ast.Continue, ast.Break)
_MOST_BYTES = 4_000_000
_BYTE_ORDER_MARK = "\ufeff"
_BY_TEXT = ("exec", "locals", "globals", "vars", "__dict__")
_NUMBER = r"\d{1,9}"
_STEP = re.compile(
    rf"(?P<file>.+):(?P<line>{_NUMBER})(?:\+(?P<column>{_NUMBER})-(?P<end_line>{_NUMBER})\+(?P<end_column>{_NUMBER}))?",
    re.DOTALL,
)


class SourcePlace(NamedTuple):
    """A line of a file, or an expression in it."""

    file: str
    line: int
    span: Span | None = None
    """Position of the call, if the recorder's Python knew it; ``line`` is its first line."""

    def __str__(self) -> str:
        """``model.py:41``."""
        return f"{self.file}:{self.line}" if self.file else ""


@lru_cache(maxsize=4096)
def parse_place(step: str) -> SourcePlace:
    """Parse ``file:line``, or a step of a call path: ``file:line+column-line+column``."""
    form = _STEP.fullmatch(step)
    if form is None:
        return SourcePlace("", 0)
    numbers = [form[name] for name in ("line", "column", "end_line", "end_column")]
    if form["column"] is None:
        return SourcePlace(form["file"], int(form["line"]))
    line, column, end_line, end_column = map(int, numbers)
    return SourcePlace(form["file"], line, (line, column, end_line, end_column))


class PythonSource:
    """A parsed file."""

    def __init__(self, text: str) -> None:
        self.mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
        text = text.removeprefix(self.mark)
        self.lines = io.StringIO(text, newline="").readlines()  # str.splitlines knows more ends than Python does
        self.tree = ast.parse(text)
        self._expressions, self._parents = map_expressions(self.tree)
        self.read_elsewhere: dict[tuple[str, str, ast.AST, bool], int] = {}
        """Results of ``NameReads.find_read_elsewhere``, the same for every item of a container."""
        self._statements = [node for node in ast.walk(self.tree) if isinstance(node, ast.stmt)]

    @cached_property
    def syntax(self) -> Syntax:
        return Syntax(self.tree)

    @cached_property
    def newline(self) -> str:
        first = self.lines[0] if self.lines else "\n"
        return next((end for end in ("\r\n", "\r") if first.endswith(end)), "\n")

    @cached_property
    def ttnn(self) -> str | None:
        """The name under which the file imports ttnn; None if it does not."""
        for node in self.tree.body:
            for alias in node.names if isinstance(node, ast.Import) else ():
                if alias.name == "ttnn":
                    return alias.asname or alias.name
        return None

    @cached_property
    def _by_line(self) -> dict[int, list[ast.stmt]]:
        found: dict[int, list[ast.stmt]] = {}
        for node in self._statements:
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                found.setdefault(line, []).append(node)
        return found

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(
            word
            for node in ast.walk(self.tree)
            for word in (getattr(node, "id", None), getattr(node, "arg", None), getattr(node, "name", None))
            if isinstance(word, str)
        )

    def find_unused_name(self, name: str) -> str:
        """Return the name, with underscores appended until it is unused in the file."""
        while name in self._names:
            name += "_"
        return name

    @cached_property
    def reads_by_text(self) -> bool:
        """True if it may read variables by name as text."""
        words = {getattr(node, word, "") for node in ast.walk(self.tree) for word in ("id", "attr")}
        return bool(words & set(_BY_TEXT))

    @cached_property
    def reads_attributes_by_text(self) -> bool:
        """True if it reads attributes with computed names."""
        calls = (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))
        asked = [call.args for call in calls if getattr(call.func, "id", "") == "getattr"]
        return any(len(words) > 1 and not isinstance(words[1], ast.Constant) for words in asked)

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def indent(self, statement: ast.stmt) -> str | None:
        """Return the indentation of a statement; None if other code precedes it (``if x: y = f()``)."""
        before = self.lines[statement.lineno - 1].encode()[: statement.col_offset].decode()
        return before if not before.strip() else None

    def last_on_line(self, statement: ast.stmt) -> ast.stmt:
        """Return the last statement on the same line: ``a = f(); b = g()``."""
        block = self.find_block(statement)
        while block is not None and block.place + 1 < len(block.statements):
            behind = block.statements[block.place + 1]
            if behind.lineno != statement.end_lineno:
                break
            statement, block = behind, BlockPosition(block.block, block.place + 1)
        return statement

    def first_on_line(self, statement: ast.stmt) -> ast.stmt:
        """Return the first statement on the same line."""
        block = self.find_block(statement)
        while block is not None and block.place and block.statements[block.place - 1].end_lineno == statement.lineno:
            block = BlockPosition(block.block, block.place - 1)
            statement = block.statements[block.place]
        return statement

    def find_block(self, statement: ast.stmt) -> BlockPosition | None:
        return self.syntax.find_position(statement)

    def find_expression(self, place: SourcePlace) -> ast.expr | None:
        """Return the expression; None if the place is only a line."""
        return self._expressions.get(place.span) if place.span is not None else None

    def find_statement(self, place: SourcePlace) -> ast.stmt | None:
        """Return the innermost statement of an expression or a line."""
        node: ast.AST | None = self.find_expression(place)
        if node is None:
            return self.find_statement_on_line(place.line)
        while node is not None and not isinstance(node, ast.stmt):
            node = self._parents.get(node)
        return node

    def find_statement_on_line(self, line: int) -> ast.stmt | None:
        """Return the innermost statement that spans a line; None if two share it (``a = f(); b = g()``)."""
        here = self._by_line.get(line, [])
        if not here:
            return None
        smallest = min((node.end_lineno or node.lineno) - node.lineno for node in here)
        found = [node for node in here if (node.end_lineno or node.lineno) - node.lineno == smallest]
        inner = [node for node in found if not any(self._parents.get(other) is node for other in found)]
        return inner[0] if len(inner) == 1 else None

    def find_function(self, node: ast.AST) -> ast.AST | None:
        """Return the function (or module) of a statement."""
        above: ast.AST | None = self._parents.get(node)
        while above is not None and not isinstance(above, _FUNCTIONS):
            above = self._parents.get(above)
        return above

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        above = self._parents.get(node)
        while above is not None:
            yield above
            above = self._parents.get(above)

    def find_call(self, place: SourcePlace, name: str) -> ast.Call | None:
        """Return the call of an operation at a place; None if a line has several, or none."""
        node = self.find_expression(place)
        if node is not None:
            return node if isinstance(node, ast.Call) else None
        statement = self.find_statement_on_line(place.line)
        calls = self.find_calls(statement, name) if statement is not None else []
        return calls[0] if len(calls) == 1 else None

    def find_calls(self, statement: ast.stmt, name: str) -> list[ast.Call]:
        """Return the calls of an operation (by its last word) inside a statement."""
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

    def find_release_statement(self, made: ast.stmt, used: ast.stmt) -> ast.stmt | None:
        """Return the statement after which the value of ``made`` is not needed, given its last reader ``used``.

        It is in the block of ``made``, so that every path through it passes ``made``: for a use inside a loop
        or a branch, it is the whole loop or branch. None if there is none, or nothing can follow it; for
        ``return f(x)`` the free comes between the call and the return.
        """
        block = self.find_block(made)
        if block is None:
            return None
        statement: ast.AST | None = used
        while statement is not None and not self._is_in(statement, block):
            statement = self._parents.get(statement)
        if not isinstance(statement, ast.stmt) or isinstance(statement, (*_ENDING, ast.ClassDef)):
            return None
        if isinstance(used, ast.Return) and (statement is not used or used.value is None):
            return None  # only one branch passes here
        end = self.find_block(statement)
        return statement if end is not None and end.place >= block.place else None

    def _is_in(self, node: ast.AST, block: BlockPosition) -> bool:
        spot = self.syntax.find_position(node)
        return spot is not None and spot.block is block.block


def open_source(file: str) -> PythonSource | None:
    """Open a source file; None if it is missing, unreadable or not Python."""
    try:
        path = Path(file).resolve()
        found = path.stat()
        return _parse_file(path, found.st_mtime_ns, found.st_size) if file and path.is_file() else None
    except (OSError, ValueError, RuntimeError):  # the last: a loop of links, before Python 3.13
        return None


@lru_cache(maxsize=256)
def _parse_file(path: Path, _: int, size: int) -> PythonSource | None:
    """Parse a file, cached while it is unchanged."""
    if size > _MOST_BYTES:
        return None
    try:
        content = path.read_bytes()
        encoding = tokenize.detect_encoding(io.BytesIO(content).readline)[0]
        if encoding not in ("utf-8", "utf-8-sig", "ascii"):
            return None  # a diff in another encoding could not be applied
        return PythonSource(content.decode("utf-8"))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None
