# SPDX-License-Identifier: Apache-2.0
"""Assertions of the user's own code, which a mock board cannot judge once values were read."""

import dis
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType, TracebackType

from .call_sites import is_installed

_OURS = os.path.realpath(Path(__file__).parent) + os.sep
_ASSERTING = re.compile(r"[/\\](unittest|_?testing|_pytest)[/\\]|[/\\](contextlib|functools)\.py$")
"""Library files through which user code asserts; others (ttnn, pytest-timeout) fail for their own reasons."""
_FACTS = re.compile(r"attribute '(shape|dtype|layout)'|\bshapes? .*mismatch", re.IGNORECASE)
"""Failures of ``torch.testing`` and ``numpy.testing`` about facts that a mock does know."""
_OF_ZEROS = re.compile(r"math domain error|cannot convert float (NaN|infinity)")
_TTNN = re.compile(r"[/\\](ttnn|ttml)[/\\]")
_RAISE = dis.opmap["RAISE_VARARGS"]
_LONGEST_CHAIN = 20


@lru_cache(maxsize=4096)
def is_user_file(file: str) -> bool:
    return bool(file) and not is_installed(file) and not _is_ours(file)


def _is_ours(file: str) -> bool:
    return os.path.realpath(file).startswith(_OURS)


def is_own_assertion(error: BaseException) -> bool:
    """Return whether user code itself claims a fault: ``assert``, ``raise``, ``pytest.fail``, an assertion of
    ``unittest``, ``numpy.testing`` or ``torch.testing``, or arithmetic that fails on zeros.

    Errors that led to it must be assertions too: ``pytest.fail`` after an out-of-memory error is about memory.
    """
    return all(_is_claim(one, one.__traceback__) for one in _walk_causes(error))


def _walk_causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(_LONGEST_CHAIN):
        if error is None:
            return
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _is_claim(error: BaseException, traceback: TracebackType | None) -> bool:
    is_failed = type(error).__name__ == "Failed"  # of pytest.fail, which is no Exception
    if not (is_failed or isinstance(error, Exception)):
        return False
    frames = list(_walk_frames(traceback))
    users = [number for number, (code, _) in enumerate(frames) if is_user_file(code.co_filename)]
    if not users:
        return False
    deeper = [code.co_filename for code, _ in frames[users[-1] + 1 :]]
    if isinstance(error, ArithmeticError) or _OF_ZEROS.search(str(error)):
        return not any(_TTNN.search(file) for file in deeper)
    if not deeper:
        code, instruction = frames[-1]
        return code.co_code[instruction] == _RAISE
    if not all(_ASSERTING.search(file) or _is_ours(file) for file in deeper) or _FACTS.search(str(error)):
        return False
    if "DID NOT" in str(error):  # pytest.raises, pytest.warns: which errors the library raises is known
        return "AssertionError" in str(error)
    return is_failed or isinstance(error, AssertionError)


def _walk_frames(traceback: TracebackType | None) -> Iterator[tuple[CodeType, int]]:
    while traceback is not None:
        yield traceback.tb_frame.f_code, traceback.tb_lasti
        traceback = traceback.tb_next
