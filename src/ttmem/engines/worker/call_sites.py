# SPDX-License-Identifier: Apache-2.0
"""Where in the user's program an operation was called, and what the program calls its result."""

import ast
import linecache
import os
import sys
import sysconfig
from array import array
from collections.abc import Callable
from functools import lru_cache
from os.path import realpath
from types import CodeType, FrameType
from typing import NamedTuple

_OPERATORS = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.MatMult: "matmul",
    ast.Pow: "pow",
}
_INSTALLED = tuple(
    realpath(folder) + os.sep
    for folder in (
        *(sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")),
        os.path.join(sys.base_prefix, "bin"),  # noqa: PTH118 - of texts
    )
)
"""Not all of the prefix: a program may live in ``/usr/src``."""
PASSED_ON = ("<handed on>",)
_MAX_PASSED_ON = 8
_DEEPEST_PATH = 24
_METHODS_CALLED_AS_OBJECTS = ("__call__", "forward")
"""``y = self.mlp(x)`` runs one of these, so the call's own name says nothing."""
_SYNONYMS = {"sub": "subtract", "mul": "multiply", "div": "divide"}


def _real_path(file: str) -> str:
    """Without links; as it is where the program has changed what that takes (``os.getcwd``, ``os.lstat``)."""
    try:
        return realpath(file)
    except Exception:
        return file


def is_installed(file: str) -> bool:
    """Whether it belongs to Python or to a package."""
    path = _real_path(file)
    return path.startswith(_INSTALLED) or "site-packages" in path or "dist-packages" in path


class CallSite(NamedTuple):
    """One place in the user's source."""

    file: str
    line: int
    names: tuple[str, ...]
    """What the statement assigns the operation's results to; empty when it does something else with them."""
    path: tuple[str, ...] = ()
    """``file:line+column-line+column`` of every call of the user's that led here, the outermost first; ``file:line``
    where Python does not tell more."""
    named_at: int = 0
    """How many of them further out the statement stands that has the names."""


class CallSites:
    """Finds the user's frame among those of the library and of this package."""

    def __init__(self, own_folders: tuple[str, ...]) -> None:
        self._own = tuple(realpath(folder) + os.sep for folder in own_folders)
        self._own_files: dict[str, bool] = {}
        self._user_files: dict[str, bool] = {}

    def find_caller(self, operation: str) -> CallSite:
        """The innermost frame that is neither ours nor ttnn's."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and self._is_skipped(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return CallSite("", 0, ())
        names, naming = _find_names(frame, operation.rpartition(".")[2])
        path, named_at = self._build_path(frame, naming)
        return CallSite(frame.f_code.co_filename, frame.f_lineno, names, path, named_at)

    def _build_path(self, frame: FrameType | None, naming: FrameType | None) -> tuple[tuple[str, ...], int]:
        path: list[str] = []
        named_at = 0
        while frame is not None and len(path) < _DEEPEST_PATH:
            if self.is_user_file(frame.f_code.co_filename):
                named_at = len(path) if frame is naming else named_at
                span = find_span(frame)
                line = "{}+{}-{}+{}".format(*span) if span is not None else str(frame.f_lineno)
                path.append(f"{frame.f_code.co_filename}:{line}")
            frame = frame.f_back
        return tuple(reversed(path)), named_at

    def is_user_file(self, file: str) -> bool:
        """Whether a file belongs to the program itself: not ours, not the library's, not installed."""
        if file not in self._user_files:
            self._user_files[file] = not (is_installed(file) or self._is_skipped(file))
        return self._user_files[file]

    def _is_skipped(self, file: str) -> bool:
        if file not in self._own_files:
            self._own_files[file] = file.startswith("<frozen") or _real_path(file).startswith(self._own)
        return self._own_files[file]


def _find_names(frame: FrameType | None, called: str) -> tuple[tuple[str, ...], FrameType | None]:
    """What the result is assigned to: here, or further out when functions only hand it on (``return ttnn.add(x)``).

    With the frame whose statement does that.
    """
    for _ in range(_MAX_PASSED_ON):
        if frame is None:
            break
        found = find_result_names(frame.f_code.co_filename, frame.f_lineno, called, find_span(frame))
        if found is not PASSED_ON:
            return found, frame
        called, frame = frame.f_code.co_name, frame.f_back
    return (), None


Span = tuple[int, int, int, int]
"""First line and column, last line and column; columns count bytes from 0."""


def find_span(frame: FrameType) -> Span | None:
    """Of the expression that a frame is at; None before Python 3.11, which knows the line alone."""
    return _find_instruction_span(frame.f_code, frame.f_lasti // 2)


def _find_instruction_span(code: CodeType, instruction: int) -> Span | None:
    first = 4 * instruction
    line, end_line, column, end_column = _list_positions(code)[first : first + 4] or (-1,) * 4
    return None if -1 in (line, end_line, column, end_column) else (line, column, end_line, end_column)


_POSITIONS: "dict[int, tuple[CodeType, array[int]]]" = {}
"""By the identity of code objects: their hash is counted anew from all their instructions each time."""
_MOST_KEPT = 256


def _list_positions(code: CodeType) -> "array[int]":
    """Of all instructions, four numbers each, -1 for none: looking for one begins at the first, so one look finds all.

    Else a call near the end of a long script would take as long as the whole script.
    """
    known = _POSITIONS.get(id(code))
    if known is None:
        if len(_POSITIONS) >= _MOST_KEPT:
            _POSITIONS.clear()
        positions = getattr(code, "co_positions", tuple)
        numbers = (-1 if number is None else number for four in positions() for number in four)
        known = _POSITIONS[id(code)] = code, array("i", numbers)
    return known[1]


def find_target_names(node: ast.AST, parent: Callable[[ast.AST], ast.AST | None]) -> tuple[str, ...]:
    """The names that an expression's value gets: ``PASSED_ON`` in a ``return``, none where it gets none."""
    above = parent(node)
    while isinstance(above, (ast.IfExp, ast.Await)) and node is not getattr(above, "test", None):
        node, above = above, parent(above)
    if isinstance(above, ast.NamedExpr):
        return (above.target.id,)
    if isinstance(above, ast.Return):
        return PASSED_ON
    if isinstance(above, ast.AnnAssign):
        return (ast.unparse(above.target),)
    if isinstance(above, ast.Assign):
        return tuple(map(ast.unparse, _split_target(above.targets[0])))
    outer = parent(above) if isinstance(above, (ast.Tuple, ast.List)) else None
    if isinstance(above, (ast.Tuple, ast.List)) and isinstance(outer, ast.Assign):  # a, b = make(1), make(2)
        targets = _split_target(outer.targets[0])
        if len(targets) == len(above.elts) > 1 and not any(isinstance(one, ast.Starred) for one in above.elts):
            return (ast.unparse(targets[above.elts.index(node)]),)  # type: ignore[arg-type]
    return ()


def _split_target(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]


@lru_cache(maxsize=8192)
def find_result_names(file: str, line: int, called: str, span: Span | None = None) -> tuple[str, ...]:
    """``("q", "k")`` for ``q, k = ttnn.split(...)``, ``PASSED_ON`` for ``return ttnn.split(...)``.

    Only when the statement's value is this very call; empty when the statement does something else with it. Where a
    frame tells its line alone, that is so too when two on one line may be meant (``a = make(); b = make()``).
    """
    if span is not None:
        nodes, parents = _map_file_expressions(file)
        node = nodes.get(span)
        return find_target_names(node, parents.get) if node is not None else ()
    here = [
        statement
        for statement in _find_statements(file)
        if statement.lineno <= line <= (statement.end_lineno or statement.lineno)
        and _is_call_of(statement.value, called)
    ]
    if len(here) != 1:
        return ()
    (statement,) = here
    if isinstance(statement, ast.Return):
        return PASSED_ON
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    return tuple(map(ast.unparse, _split_target(target)))


@lru_cache(maxsize=64)
def _parse_file(file: str) -> ast.AST | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except Exception:  # no Python, too deep, or the program has changed what reading it takes
        return None


@lru_cache(maxsize=64)
def _find_statements(file: str) -> tuple[ast.Assign | ast.AnnAssign | ast.Return, ...]:
    tree = _parse_file(file)
    every = ast.walk(tree) if tree is not None else ()
    return tuple(node for node in every if isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return)))


@lru_cache(maxsize=64)
def _map_file_expressions(file: str) -> tuple[dict[Span, ast.expr], dict[ast.AST, ast.AST]]:
    """By their place, and what each node stands in."""
    tree = _parse_file(file)
    return map_expressions(tree) if tree is not None else ({}, {})


def map_expressions(tree: ast.AST) -> tuple[dict[Span, ast.expr], dict[ast.AST, ast.AST]]:
    """The expressions of a file by their place, and what each of its nodes stands in."""
    nodes: dict[Span, ast.expr] = {}
    parents: dict[ast.AST, ast.AST] = {}
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            parents[child] = node
        if isinstance(node, ast.expr) and node.end_lineno is not None and node.end_col_offset is not None:
            nodes.setdefault((node.lineno, node.col_offset, node.end_lineno, node.end_col_offset), node)
    return nodes, parents


def _is_call_of(value: ast.expr | None, operation: str) -> bool:
    operation = _SYNONYMS.get(operation, operation)
    if isinstance(value, ast.BinOp):
        return _OPERATORS.get(type(value.op)) == operation
    if not isinstance(value, ast.Call):
        return False
    called = value.func
    if operation in _METHODS_CALLED_AS_OBJECTS:
        return True
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return _SYNONYMS.get(name, name) == operation
