# SPDX-License-Identifier: Apache-2.0
"""Why a test failed: for something that it says of values, which a mock does not have, or for something else."""

import ast
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from .provenance import FACTS, Place, Provenance, Tells, said, statements
from .sites import is_installed

_ABOUT_FACTS = re.compile(r"attribute '(shape|dtype|layout)'|\bshapes? .*mismatch|\bmismatch.* shape", re.IGNORECASE)
ARITHMETIC = (ZeroDivisionError, OverflowError, FloatingPointError)
OF_ZEROS = re.compile(r"math domain error|cannot convert float (NaN|infinity)")
"""How Python refuses to go on with zeros that no card would have given."""

_OURS = os.path.realpath(Path(__file__).parent) + os.sep


def is_users_file(file: str) -> bool:
    """Not of an installed package, nor ours."""
    return bool(file) and not is_installed(file) and not os.path.realpath(file).startswith(_OURS)


def is_said_of_values(
    error: BaseException,
    traceback: TracebackType | None,
    *,
    counts: bool,
    tells: Tells,
    only_if: Callable[[Any], bool] | None = None,
) -> bool:
    """Whether the test itself, or a function of its suite, said that something is wrong: ``assert``, ``raise``,
    ``pytest.fail``; and not because of a shape, a layout, an address, which a mock does know, nor of what is its own.

    ``counts``: a number of things is known too; where comparisons were answered it may be that of those that differ.
    ``only_if``: and what it said it of is one of these.
    """
    is_assertion = isinstance(error, AssertionError)
    if _ABOUT_FACTS.search(str(error)):
        return False
    frames = _frames(traceback)
    own = [(frame, line) for frame, line in frames if is_users_file(frame.f_code.co_filename)]
    around = statements(*own[-1]) if own else []
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
    if any(_is_fact(part, counts=counts) for part in parts):
        return False
    return only_if is not None or may_speak_of_device(_places(frames), tells)


def may_speak_of_device(places: list[Place], tells: Tells) -> bool:
    """Whether what the last of these frames says now may depend on values from the device."""
    if not places or not statements(places[-1].frame, places[-1].line):
        return True
    asked = Provenance(places, tells, is_users_file)
    return any(asked.may_be_device(expression, place) for place, expression in said(places))


def places_of(traceback: TracebackType | None) -> list[Place]:
    """Where an error came from."""
    return _places(_frames(traceback))


def _frames(traceback: TracebackType | None) -> list[tuple[FrameType, int]]:
    frames = []
    while traceback is not None:
        frames.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    return frames


def _places(frames: list[tuple[FrameType, int]]) -> list[Place]:
    """Those of the test, the outermost first."""
    own = [is_users_file(frame.f_code.co_filename) for frame, _ in frames]
    return [
        Place(frame, line, number > 0 and own[number - 1])
        for number, (frame, line) in enumerate(frames)
        if own[number]
    ]  # fmt: skip


def places_now(frame: FrameType | None) -> list[Place]:
    """The same of a program that is running: of a frame and those that led to it."""
    frames: list[tuple[FrameType, int]] = []
    while frame is not None:
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return _places(frames[::-1])


def _is_fact(part: ast.AST, *, counts: bool) -> bool:
    if isinstance(part, ast.Attribute):
        return part.attr in FACTS
    return counts and isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "len"
