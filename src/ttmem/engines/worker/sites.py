# SPDX-License-Identifier: Apache-2.0
"""Where in the user's program an operation was called, and what the program calls its result."""

import ast
import linecache
import os
import sys
import sysconfig
from functools import lru_cache
from types import FrameType
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
    os.path.realpath(folder) + os.sep
    for folder in (
        *(sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")),
        os.path.join(sys.base_prefix, "bin"),  # noqa: PTH118 - of texts
    )
)
"""Not all of the prefix: a program may live in ``/usr/src``."""
HANDED_ON = ("<handed on>",)
_MOST_HANDED_ON = 8
_DEEPEST_PATH = 24
_METHODS_CALLED_AS_OBJECTS = ("__call__", "forward")
"""``y = self.mlp(x)`` runs one of these, so the call's own name says nothing."""
_SYNONYMS = {"sub": "subtract", "mul": "multiply", "div": "divide"}


def is_installed(file: str) -> bool:
    """Whether it belongs to Python or to a package."""
    path = os.path.realpath(file)
    return path.startswith(_INSTALLED) or "site-packages" in path or "dist-packages" in path


class Site(NamedTuple):
    """One place in the user's source."""

    file: str
    line: int
    names: tuple[str, ...]
    """What the statement assigns the operation's results to; empty when it does something else with them."""
    path: tuple[str, ...] = ()
    """``file:line`` of every call of the user's that led here, the outermost first."""
    named_at: int = 0
    """How many of them further out the statement stands that has the names."""


class Sites:
    """Finds the user's frame among those of the library and of this package."""

    def __init__(self, own_folders: tuple[str, ...]) -> None:
        self._own = tuple(os.path.realpath(folder) + os.sep for folder in own_folders)
        self._is_own: dict[str, bool] = {}
        self._is_users: dict[str, bool] = {}

    def of_caller(self, operation: str) -> Site:
        """The innermost frame that is neither ours nor ttnn's."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and self._skipped(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return Site("", 0, ())
        names, naming = _names(frame, operation.rpartition(".")[2])
        path, named_at = self._path(frame, naming)
        return Site(frame.f_code.co_filename, frame.f_lineno, names, path, named_at)

    def _path(self, frame: FrameType | None, naming: FrameType | None) -> tuple[tuple[str, ...], int]:
        path: list[str] = []
        named_at = 0
        while frame is not None and len(path) < _DEEPEST_PATH:
            if self.is_users(frame.f_code.co_filename):
                named_at = len(path) if frame is naming else named_at
                path.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
            frame = frame.f_back
        return tuple(reversed(path)), named_at

    def is_users(self, file: str) -> bool:
        """Whether a file belongs to the program itself: not ours, not the library's, not installed."""
        if file not in self._is_users:
            self._is_users[file] = not (is_installed(file) or self._skipped(file))
        return self._is_users[file]

    def _skipped(self, file: str) -> bool:
        if file not in self._is_own:
            self._is_own[file] = file.startswith("<frozen") or os.path.realpath(file).startswith(self._own)
        return self._is_own[file]


def _names(frame: FrameType | None, called: str) -> tuple[tuple[str, ...], FrameType | None]:
    """What the result is assigned to: here, or further out when functions only hand it on (``return ttnn.add(x)``).

    With the frame whose statement does that.
    """
    for _ in range(_MOST_HANDED_ON):
        if frame is None:
            break
        found = outcome(frame.f_code.co_filename, frame.f_lineno, called)
        if found is not HANDED_ON:
            return found, frame
        called, frame = frame.f_code.co_name, frame.f_back
    return (), None


@lru_cache(maxsize=4096)
def outcome(file: str, line: int, called: str) -> tuple[str, ...]:
    """``("q", "k")`` for ``q, k = ttnn.split(...)``, ``HANDED_ON`` for ``return ttnn.split(...)``.

    Only when the statement's value is this very call; empty when the statement does something else with it, or when two
    on one line do (``a = make(); b = make()``): a line is all that a frame tells.
    """
    here = [
        statement
        for statement in _statements(file)
        if statement.lineno <= line <= (statement.end_lineno or statement.lineno) and _calls(statement.value, called)
    ]
    if len(here) != 1:
        return ()
    (statement,) = here
    if isinstance(statement, ast.Return):
        return HANDED_ON
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    target = targets[0]
    each = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return tuple(map(ast.unparse, each))


@lru_cache(maxsize=64)
def _statements(file: str) -> tuple[ast.Assign | ast.AnnAssign | ast.Return, ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return)))


def _calls(value: ast.expr | None, operation: str) -> bool:
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
