# SPDX-License-Identifier: Apache-2.0
"""Call sites: the user's source line of an operation, and the names that the program gives to its results."""

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
"""Not all of the prefix: a program may be in ``/usr/src``."""
PASSED_ON = ("<handed on>",)
_MAX_PASSED_ON = 8
_DEEPEST_PATH = 24
_METHODS_CALLED_AS_OBJECTS = ("__call__", "forward")
"""``y = self.mlp(x)`` runs one of these, so the call's own name says nothing."""
_SYNONYMS = {"sub": "subtract", "mul": "multiply", "div": "divide"}


def _resolve_path(file: str) -> str:
    """Resolve links; return the path unchanged where the program has replaced ``os.getcwd`` or ``os.lstat``."""
    try:
        return realpath(file)
    except Exception:
        return file


def is_installed(file: str) -> bool:
    path = _resolve_path(file)
    return path.startswith(_INSTALLED) or "site-packages" in path or "dist-packages" in path


class CallSite(NamedTuple):
    file: str
    line: int
    names: tuple[str, ...]
    """Names that the statement assigns the operation's results to; empty when it does something else with them."""
    path: tuple[str, ...] = ()
    """``file:line+column-line+column`` of each user frame that led here, outermost first; ``file:line`` where Python
    has no columns."""
    named_at: int = 0
    """Number of frames further out at which the statement with the names is."""


class CallSites:
    """Finds the user's frame among those of the library and of this package."""

    def __init__(self, own_folders: tuple[str, ...]) -> None:
        self._own = tuple(realpath(folder) + os.sep for folder in own_folders)
        self._own_files: dict[str, bool] = {}
        self._user_files: dict[str, bool] = {}

    def find_caller(self, operation: str) -> CallSite:
        """Return the site of the innermost frame of the user's code."""
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
        """Return whether a file belongs to the program: not to ttmem, the library or an installed package."""
        if file not in self._user_files:
            self._user_files[file] = not (is_installed(file) or self._is_skipped(file))
        return self._user_files[file]

    def _is_skipped(self, file: str) -> bool:
        if file not in self._own_files:
            self._own_files[file] = file.startswith("<frozen") or _resolve_path(file).startswith(self._own)
        return self._own_files[file]


def _find_names(frame: FrameType | None, called: str) -> tuple[tuple[str, ...], FrameType | None]:
    """Find the names that the result is assigned to, and the frame of that statement: here, or further out when
    functions only return it (``return ttnn.add(x)``)."""
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
    """Return the span of the expression that a frame is at; None before Python 3.11, which has only the line."""
    return _find_instruction_span(frame.f_code, frame.f_lasti // 2)


def _find_instruction_span(code: CodeType, instruction: int) -> Span | None:
    first = 4 * instruction
    line, end_line, column, end_column = _list_positions(code)[first : first + 4] or (-1,) * 4
    return None if -1 in (line, end_line, column, end_column) else (line, column, end_line, end_column)


_POSITIONS: "dict[int, tuple[CodeType, array[int]]]" = {}
"""Keyed by identity: hashing a code object reads all of its instructions each time."""
_MOST_KEPT = 256


def _list_positions(code: CodeType) -> "array[int]":
    """Return four numbers per instruction, -1 for none; one pass over the code serves all later lookups."""
    known = _POSITIONS.get(id(code))
    if known is None:
        if len(_POSITIONS) >= _MOST_KEPT:
            _POSITIONS.clear()
        positions = getattr(code, "co_positions", tuple)
        numbers = (-1 if number is None else number for four in positions() for number in four)
        known = _POSITIONS[id(code)] = code, array("i", numbers)
    return known[1]


def find_target_names(node: ast.AST, parent: Callable[[ast.AST], ast.AST | None]) -> tuple[str, ...]:
    """Return the names that receive an expression's value: ``PASSED_ON`` in a ``return``, empty where there are
    none."""
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

    Empty unless the statement's value is this very call, and, where a frame has only its line, when two calls on one
    line may be meant (``a = make(); b = make()``).
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
    except Exception:  # no Python, too deep, or the program replaced what reading needs
        return None


@lru_cache(maxsize=64)
def _find_statements(file: str) -> tuple[ast.Assign | ast.AnnAssign | ast.Return, ...]:
    tree = _parse_file(file)
    every = ast.walk(tree) if tree is not None else ()
    return tuple(node for node in every if isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return)))


@lru_cache(maxsize=64)
def _map_file_expressions(file: str) -> tuple[dict[Span, ast.expr], dict[ast.AST, ast.AST]]:
    tree = _parse_file(file)
    return map_expressions(tree) if tree is not None else ({}, {})


def map_expressions(tree: ast.AST) -> tuple[dict[Span, ast.expr], dict[ast.AST, ast.AST]]:
    """Return a file's expressions by their span, and the parent of each node."""
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
