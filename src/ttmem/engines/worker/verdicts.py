# SPDX-License-Identifier: Apache-2.0
"""Why a test failed: for something that it says of values, which a mock does not have, or for something else."""

import ast
import linecache
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from .sites import is_installed

_FACTS = {
    "shape", "padded_shape", "dtype", "layout", "memory_config", "is_sharded", "storage_type", "is_allocated", "rank",
    "buffer_address", "num_program_cache_entries", "shard_spec", "buffer_type", "memory_layout", "volume", "numel",
    "device", "spec", "ndim", "size",
}  # fmt: skip
"""What a mock knows of a tensor: an assertion on these is the test's own."""
_ABOUT_FACTS = re.compile(r"attribute '(shape|dtype|layout)'|\bshapes? .*mismatch|\bmismatch.* shape", re.IGNORECASE)
ARITHMETIC = (ZeroDivisionError, OverflowError, FloatingPointError)
OF_ZEROS = re.compile(r"math domain error|cannot convert float (NaN|infinity)")
"""How Python refuses to go on with zeros that no card would have given."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_OURS = os.path.realpath(Path(__file__).parent) + os.sep


def is_users_file(file: str) -> bool:
    """Not of an installed package, nor ours."""
    return bool(file) and not is_installed(file) and not os.path.realpath(file).startswith(_OURS)


def is_said_of_values(
    error: BaseException, traceback: TracebackType | None, *, counts: bool, only_if: Callable[[Any], bool] | None = None
) -> bool:
    """Whether the test itself, or a function of its suite, said that something is wrong: ``assert``, ``raise``,
    ``pytest.fail``; and not because of a shape, a layout, an address, which a mock does know.

    ``counts``: a number of things is known too; where comparisons were answered it may be that of those that differ.
    ``only_if``: and what it said it of is one of these.
    """
    is_assertion = isinstance(error, AssertionError)
    if _ABOUT_FACTS.search(str(error)):
        return False
    frames = []
    while traceback is not None:
        frames.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    own = [(frame, line) for frame, line in frames if is_users_file(frame.f_code.co_filename)]
    around = _statements(*own[-1]) if own else []
    if not around:
        return is_assertion and only_if is None
    if not (is_assertion or isinstance(around[-1], ast.Raise) or type(error).__name__ == "Failed"):
        return False
    tests = [one.test for one in around if isinstance(one, (ast.If, ast.Assert))]
    if isinstance(around[-1], ast.Expr) and "unittest" in frames[-1][0].f_code.co_filename:
        tests.append(around[-1].value)
    parts = [part for test in tests for part in ast.walk(test)]
    if only_if is not None:
        variables = own[-1][0].f_locals
        named = [variables.get(part.id) for part in parts if isinstance(part, ast.Name)]
        if not any(map(only_if, named)):
            return False
    return not any(_is_fact(part, counts=counts) for part in parts)


def _statements(frame: FrameType, line: int) -> list[ast.stmt]:
    """The statement on a line, and those around it within its function, the outermost first."""
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))
    except (SyntaxError, ValueError):
        return []
    covering = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]  # fmt: skip
    covering.sort(key=lambda one: (one.lineno, -(one.end_lineno or one.lineno)))
    function = max((place for place, one in enumerate(covering) if isinstance(one, _FUNCTIONS)), default=-1)
    return covering[function + 1 :]


def _is_fact(part: ast.AST, *, counts: bool) -> bool:
    if isinstance(part, ast.Attribute):
        return part.attr in _FACTS
    return counts and isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "len"
